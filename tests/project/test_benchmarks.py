"""The benchmarks still run: with small sizes where a script has them, otherwise its help."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import run_script_here

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "ArgumentParser" in path.read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run_script_here(FOLDER / f"{script}.py", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


def test_the_page_about_speed_has_the_numbers_of_the_file():
    done = run_script_here(FOLDER.parent / "scripts" / "speed_table.py", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_killed_worker_is_noticed_and_costs_nothing():
    """The benchmark replaces functions inside the library, so that it breaks when these change."""
    script = [sys.executable, str(FOLDER / "clusters.py"), "--quick", "--only", "kills"]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    figures = dict(line.split()[:2] for line in done.stdout.splitlines() if line[0] == " ")
    assert figures["kills"] == figures["noticed"] == figures["right_of_10_kills"] == "2"
