import io
import re
import sys
import time

from commands import Terminal, wide_terminal

from boolweave.runtime.run import Run
from boolweave.runtime.words import time_left


def test_silent_in_a_pipe_and_when_not_asked(monkeypatch):
    for stream, verbose in ((io.StringIO(), 1), (Terminal(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Run(10.0, verbose=verbose, total=10) as run:
            run.progress.iteration(1, 0.5, -100.0)
            run.progress.rank(1, None, 2)
            run.progress.round(1, 1500.0, 4, None)
            run.progress.say("fitting")
        assert stream.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    with Run(verbose=1, total=10) as run:
        run.progress.iteration(1, 0.5, -100.0)
        run.progress.iteration(2, 0.25, -90.0)
        run.progress.iteration(1, 0.75, -80.5)
    shown = terminal.getvalue()
    assert "start 2" in shown and "log-posterior -80.5" in shown and "residual 0.75" in shown


def test_the_rank_and_the_best_so_far(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    monkeypatch.setattr("boolweave.runtime.words.SOONEST", 0.0)
    with Run(verbose=1, total=10) as run:
        run.progress.rank(1, None, 6)
        run.progress.iteration(1, 0.5, -100.0)
        run.progress.rank(4, 3, 8)
        run.progress.iteration(1, 0.5, -80.0)
    shown = terminal.getvalue()
    assert "4 factors, best so far 3" in shown and "log-posterior -80.0" in shown
    assert re.search(r"about 0:0\d left", shown)


def test_time_left_in_words():
    began = time.monotonic() - 40
    assert time_left(began, 0.2, "at most ") == "at most 2:40 left"
    assert time_left(began, 0.001, "about ") == "about 11:06:00 left"
    assert time_left(began, 0.0, "about ") == "" == time_left(time.monotonic(), 0.5, "about ")
    assert time_left(began, 0.0001, "at most ") == ""  # most of the time went into compiling


def test_no_time_left_if_the_number_of_iterations_is_unknown(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    monkeypatch.setattr("boolweave.runtime.words.SOONEST", 0.0)
    with Run(verbose=1) as run:
        run.progress.iteration(7, 0.5, -1.0)
    assert "iteration 7" in terminal.getvalue() and "left" not in terminal.getvalue()


def test_a_line_about_a_search(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    with Run(10.0, verbose=True) as run:
        run.progress.say("reducing 5 ones")
        run.progress.round(1, 1500.0, 4, None)
        run.progress.round(2, 1234.0, 4, None)
    shown = terminal.getvalue()
    assert "round 2" in shown and "lowest error 1,234" in shown and "of 10 s" in shown
