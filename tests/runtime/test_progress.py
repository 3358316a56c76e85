import io
import sys

from boolweave.runtime.progress import progress, search_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_silent_in_a_pipe_and_when_not_asked(monkeypatch):
    for stream, verbose in ((io.StringIO(), 1), (Terminal(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress(10, verbose) as on_iteration:
            assert on_iteration is None
        with search_progress(10.0, verbose) as on_round:
            assert on_round is None
        assert stream.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")
    with progress(10, 1) as on_iteration:
        on_iteration(1, 0.5, -100.0)
        on_iteration(2, 0.25, -90.0)
        on_iteration(1, 0.75, -80.5)
    shown = stream.getvalue()
    assert "start 2" in shown and "log-posterior -80.5" in shown and "residual 0.75" in shown


def test_length_unknown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(None) as on_iteration:
        on_iteration(1, 0.5, -1.0)


def test_a_line_about_a_search(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")
    with search_progress(10.0) as on_round:
        on_round(1, 1500.0, 4)
        on_round(2, 1234.0, 4)
    shown = stream.getvalue()
    assert "round 2" in shown and "least error 1,234" in shown and "of 10 s" in shown
