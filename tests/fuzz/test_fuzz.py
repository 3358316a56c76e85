"""Many broken files, the same every time: each is read, or refused in one line."""

import pytest
from campaigns import run_all
from fuzz_broken import SHARES, good_files, read
from verdicts import ABORT, FINE, REFUSED

from boolweave.io import FileError

# Polars ends the process, and nothing can be done about it, where a page of a Parquet file asks for
# more memory than there is. That may happen to so many of a thousand files.
MOST_ABORTS = 4


@pytest.mark.slow
@pytest.mark.parametrize(("campaign", "n_cases"), [("broken", 1300), ("files", 120)])
def test_broken_files(campaign, n_cases):
    """In a process of their own, so that a crash in compiled code is a failed test."""
    tally = run_all([campaign], n_cases, seconds=550, jobs=1, batch=n_cases)
    counts = tally.counts[campaign]
    assert tally.bad == []
    assert sum(counts.values()) == n_cases and counts[FINE] > 0 and counts[REFUSED] > 0
    assert counts[ABORT] <= 1 + MOST_ABORTS * n_cases / 1000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", SHARES)
def test_good_files(kind, tmp_path):
    for name, content in good_files(kind):
        (tmp_path / name).write_bytes(content)
        read(tmp_path / name, kind)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_files_that_once_broke_something(tmp_path):
    for name, content in good_files("corpus"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=name):
            read(tmp_path / name, "corpus")
