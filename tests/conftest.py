"""Settings of the test session: hypothesis profiles, a browser, and no silent skips in CI."""

import os
import signal
import sys
import threading

import hypothesis
import pytest
from browsers import launch

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# What a CI machine may lack. A test skipped for any other reason fails the session there.
ALLOWED_SKIPS = (
    "needs BOOLWEAVE_DATA",  # real data that is not shipped with the package
    "needs BOOLWEAVE_BIG",  # tens of gigabytes of disk
)

# Files whose tests compile most of the kernels.
COMPILING = ("test_golden.py", "test_docstrings.py")

# No deadline: the first example of a test may compile a kernel.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if IN_CI else "local")

# A shell starts a background job with Ctrl-C ignored, and so would be all processes of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

_unexpected_skips: list[str] = []


@pytest.fixture(autouse=True)
def _ctrl_c_as_before():
    """Whatever a test ran in this process, Ctrl-C is an exception again in the next."""
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="store the results in tests/golden anew"
    )
    parser.addoption(
        "--golden-bits", metavar="FILE", help="compare every bit of results with those of this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") and sys.platform != "win32":
        from compiling import compile_once

        compile_once(config.cache.mkdir("compiling"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: now and then one waits for a process, a pause or a kernel."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) + 1
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, dealt to the workers, so that the end does not wait for one of them.

    Before them go the files that compile most kernels, so that the processes which other tests
    start find them compiled. Workers without such a file begin with quick tests: many of the slow
    ones start processes, each of which would compile for itself.

    Each worker of `--dist worksteal` begins with its part of the list, in this order. Slow tests of
    one file stay together, as they may share what they test; cases of one test are dealt out.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    compiling: dict[object, list[pytest.Item]] = {name: [] for name in COMPILING}
    groups: dict[object, list[pytest.Item]] = {}
    quick = []
    for item in items:
        if item.path.name in compiling:
            compiling[item.path.name].append(item)
        elif item.get_closest_marker("slow") is None:
            quick.append(item)
        else:
            key = item.nodeid if hasattr(item, "callspec") else item.path
            groups.setdefault(key, []).append(item)
    slow = [*compiling.values(), *groups.values()]
    ends = [len(quick) * n // workers for n in range(workers + 1)]
    items.clear()
    for n in range(workers):
        own = [item for group in slow[n::workers] for item in group], quick[ends[n] : ends[n + 1]]
        for part in own if n < len(compiling) else reversed(own):
            items += part


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED_SKIPS):
        _unexpected_skips.append(f"{report.nodeid}: {reason}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if IN_CI and _unexpected_skips and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if IN_CI and _unexpected_skips:
        terminalreporter.section("skipped, but must run in CI", red=True)
        for line in _unexpected_skips:
            terminalreporter.line(line)
        terminalreporter.line(f"Allowed reasons start with: {', '.join(ALLOWED_SKIPS)}")


@pytest.fixture
def quick_search(monkeypatch):
    """A search for the fewest errors with little work, which is enough for small tables."""
    from short import shorten_searches

    shorten_searches(monkeypatch)


@pytest.fixture
def zeros_and_ones(monkeypatch):
    """Data of scikit-learn's checks as zeros and ones: nearly all prepare it by one function."""
    import numpy as np
    from sklearn.utils import estimator_checks

    enforce = estimator_checks._enforce_estimator_tags_X

    def cut(X):
        """1 where a value is above its column's median, else 0; NaN stays."""
        X = np.asarray(X)
        ones = np.where(np.isnan(X), np.nan, np.nanmedian(X, axis=0) < X)
        return ones.astype(X.dtype)

    def enforce_and_cut(estimator, X, X_test=None, **options):
        if X_test is not None:
            return tuple(cut(part) for part in enforce(estimator, X, X_test, **options))
        return cut(enforce(estimator, X, **options))

    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else a check is skipped
    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", enforce_and_cut)


@pytest.fixture(scope="session")
def browser():
    """A real browser, without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as play:
        chromium = launch(play)
        if chromium is None:
            pytest.skip("no browser: install chromium, or run `playwright install chromium`")
        yield chromium
        chromium.close()
