"""What a command found is not lost where its answer cannot be written."""

import os
import subprocess
import sys

import numpy as np
import pytest

from boolweave import load
from boolweave.cli import output
from boolweave.datasets import make_boolean

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="writes to /dev/full")

COMMAND = """
import sys
from boolweave import cli
from boolweave.cli import common

common.WORTH_KEEPING = float(sys.argv.pop(1))
cli.main()
"""


@pytest.fixture
def run(tmp_path):
    """A command with a full disk for its output; what it says, and what is kept."""
    planted = make_boolean(20, 15, 2, random_state=0).observations.to_dense()
    np.savetxt(tmp_path / "table.csv", planted, fmt="%d", delimiter=",")
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def run(command, *options, worth_keeping=0.0):
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, str(worth_keeping), command, "table.csv", "-k", "2",
             "-o", "/dev/full", "--format", "csv", *options],
            cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)}, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert "no space left on device" in done.stderr.splitlines()[-1]
        return done.stderr, list(temporary.iterdir())

    return run


@pytest.mark.parametrize("command", ["factorize", "complete"])
def test_the_model_is_kept(run, command):
    said, (folder,) = run(
        command, *(["--members", "1", "--layers", "0"] if command == "complete" else [])
    )
    kept = folder / "model.npz"
    assert f"the answer could not be written; the fitted model is kept in {kept}\n" in said
    model = load(kept)
    assert model.n_components == 2 and model.observations_.shape == (20, 15)


def test_a_model_that_was_written_is_enough(run, tmp_path):
    said, kept = run("factorize", "--model", "model.npz")
    assert kept == [] and "kept" not in said
    load(tmp_path / "model.npz")


def test_a_model_that_could_not_be_written_either(run):
    said, kept = run("factorize", "--model", "/dev/full")
    assert len(kept) == 1 and "kept in" in said


def test_short_fits_leave_nothing(run):
    said, kept = run("factorize", worth_keeping=60.0)
    assert kept == [] and "kept" not in said


def test_a_folder_without_the_right_to_write(tmp_path, monkeypatch):
    output.check_folder(tmp_path / "answer.csv")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"--output: the folder .* does not allow writing"):
        output.check_folder(tmp_path / "answer.csv")
