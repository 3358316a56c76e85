"""The documentation, built once for all tests, also if several processes share them."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built site. Building it must give no warning; with --quiet, --strict would see none."""
    pytest.importorskip("mkdocs")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of all workers
    built = shared / "site"
    with open(shared / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            unfinished = shared / "unfinished-site"
            done = subprocess.run(
                [sys.executable, "-m", "mkdocs", "build", "--strict",
                 "--site-dir", unfinished],
                cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
                capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            unfinished.rename(built)
    return built
