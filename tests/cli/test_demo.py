"""`boolweave demo` and the bare command, run as a process."""

import json
import os
import re
import resource
import subprocess
import sys

import pytest


def boolweave(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "boolweave", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=240,
    )


def shares(text):
    return [float(share) for share in re.findall(r"(\d+\.\d)%", text)]


def test_hidden_votes_are_completed_better_than_by_simple_rules(tmp_path):
    done = boolweave("demo", "--output", "senate.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    majority, means, factors, ours = zip(*[iter(shares(done.stdout)[:8])] * 2, strict=True)
    assert majority[0] < means[0] < factors[0] < ours[0]
    assert factors[0] > 88 and ours[0] > 90
    gain = re.search(r"completion gets (\d+\.\d) percentage points more", done.stdout).group(1)
    assert float(gain) == pytest.approx(ours[0] - means[0], abs=0.11)
    assert majority[1] == 100 and "15,081" in done.stdout  # all yeas, and all nays as well
    assert means[1] < ours[1]
    assert "the Democratic side" in done.stdout
    assert "the Republican side" in done.stdout
    assert "49347 are hidden" in done.stderr
    assert "Warning" not in done.stderr
    assert (tmp_path / "senate.png").read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["senate.png"]


def test_for_machines_and_the_same_for_any_number_of_threads(tmp_path):
    done = boolweave("demo", "--json", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert boolweave("demo", "--json", "--jobs", "2", cwd=tmp_path).stdout == done.stdout
    found = json.loads(done.stdout)
    assert found["hidden"] == 49347 and found["accuracy"]["boolweave completion"] > 0.9
    assert min(found["log_loss"], key=found["log_loss"].get) == "boolweave completion"
    assert found["ones_covered"]["always the majority"] == 1
    assert found["false_ones"]["always the majority"] == found["hidden"] - found["hidden_ones"]
    assert not list(tmp_path.iterdir())


def test_another_seed_without_matplotlib(tmp_path):
    """Other votes are hidden; without matplotlib the figures are still printed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'matplotlib' else found(name, *a)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = boolweave("demo", "--seed", "5", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert len(shares(done.stdout)) == 8 and "15,081" not in done.stdout
    assert "boolweave[plot]" in done.stderr
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "-o", "x.txt"],
        ["demo", "-o", "no/such/folder.png"],
        ["demo", "--sed", "1"],
        ["dmo"],
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, tmp_path):
    done = boolweave(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("boolweave: ") and done.stderr.count("\n") == 1


def test_help_is_quick():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = boolweave("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0 and "demo" in done.stdout
    spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    assert spent < 0.5


def test_version():
    done = boolweave("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"boolweave \d+\.\d+\.\d+\n", done.stdout)
