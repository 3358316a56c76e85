import io
import re
import sys
import time

from commands import Terminal, wide_terminal

from boolweave.runtime.progress import (
    Deadline,
    on_rank_of,
    progress,
    search_progress,
    task_progress,
    time_left,
)


def test_silent_in_a_pipe_and_when_not_asked(monkeypatch):
    for stream, verbose in ((io.StringIO(), 1), (Terminal(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress(10, verbose) as on_iteration:
            assert on_iteration is None
        with search_progress(10.0, verbose) as on_round:
            assert on_round is None
        with task_progress(verbose) as report:
            report("fitting")
        assert stream.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    with progress(10, 1) as on_iteration:
        on_iteration(1, 0.5, -100.0)
        on_iteration(2, 0.25, -90.0)
        on_iteration(1, 0.75, -80.5)
    shown = terminal.getvalue()
    assert "start 2" in shown and "log-posterior -80.5" in shown and "residual 0.75" in shown


def test_the_rank_and_the_best_so_far(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    monkeypatch.setattr("boolweave.runtime.progress.SOONEST", 0.0)
    with progress(None, 1) as on_iteration:
        deadline = Deadline(None, on_iteration)  # passes both on
        deadline.on_rank(1, None, 6)
        deadline(1, 0.5, -100.0)
        deadline.on_rank(4, 3, 8)
        deadline(1, 0.5, -80.0)
    shown = terminal.getvalue()
    assert "4 factors, best so far 3" in shown and "log-posterior -80.0" in shown
    assert re.search(r"about 0:0\d left", shown)


def test_time_left_in_words():
    began = time.monotonic() - 40
    assert time_left(began, 0.2, "at most ") == "at most 2:40 left"
    assert time_left(began, 0.001, "about ") == "about 11:06:00 left"
    assert time_left(began, 0.0, "about ") == "" == time_left(time.monotonic(), 0.5, "about ")
    assert time_left(began, 0.0001, "at most ") == ""  # most of the time went into compiling


def test_ranks_are_ignored_without_a_display():
    assert on_rank_of(None)(1, None, 2) is None
    assert Deadline(None).on_rank(1, None, 2) is None


def test_no_time_left_if_the_number_of_iterations_is_unknown(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    monkeypatch.setattr("boolweave.runtime.progress.SOONEST", 0.0)
    with progress(None) as on_iteration:
        on_iteration(7, 0.5, -1.0)
    assert "iteration 7" in terminal.getvalue() and "left" not in terminal.getvalue()


def test_a_line_about_a_task(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    with task_progress() as report:
        report("fitting offsets")
    assert "fitting offsets" in terminal.getvalue()


def test_a_line_about_a_search(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    with search_progress(10.0) as on_round:
        on_round(1, 1500.0, 4)
        on_round(2, 1234.0, 4)
    shown = terminal.getvalue()
    assert "round 2" in shown and "lowest error 1,234" in shown and "of 10 s" in shown
