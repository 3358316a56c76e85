"""Every experiment on a tiny problem."""

import csv
import json
import random
from pathlib import Path

import pytest
from commands import run_script_here

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "experiments").glob("*.py") if path.stem != "common")


def run(script, output, *more):
    path = ROOT / "experiments" / f"{script}.py"
    return run_script_here(path, "--tiny", "--jobs", 1, "--output", output, *more)


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """A file in MovieLens's format: even users like even films."""
    folder = tmp_path_factory.mktemp("ml-small")
    rng = random.Random(0)
    lines = [
        f"{user}\t{film}\t{5 - 3 * ((user + film) % 2) - rng.randrange(2)}\t88\n"
        for user in range(1, 31) for film in rng.sample(range(1, 25), 12)
    ]  # fmt: skip
    (folder / "u.data").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("script", SCRIPTS)
def test_tiny(script, tmp_path, ratings):
    more = ("--data", ratings) if script == "movielens" else ()
    done = run(script, tmp_path, *more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{script}: ") == 1
    with (tmp_path / f"{script}.csv").open(newline="") as file:
        assert list(csv.DictReader(file))
    assert (tmp_path / f"{script}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{script}.txt").read_text().endswith("(tiny)\n")


def test_resumes(tmp_path):
    """What is on file is not run again, and half a line, as a crash leaves it, does no harm."""
    assert run("histogram", tmp_path).returncode == 0
    log = tmp_path / "histogram.jsonl"
    done = json.loads(log.read_text())
    done["answer"]["idle"] = [0.125, 0.25, 0.5]
    log.write_text(json.dumps(done) + '\n{"task": {"si')
    again = run("histogram", tmp_path)
    assert "12% in iteration 2, 25% in iteration 20 and 50% in iteration 200" in again.stdout


def test_stops_in_time_and_goes_on(tmp_path):
    """--minutes 0 leaves no time for anything but what is on file, and says so."""
    assert run("phase", tmp_path, "--only", "max-sum").returncode == 0
    log = tmp_path / "phase.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[-2:]) + "\n")
    again = run("phase", tmp_path, "--only", "max-sum", "--minutes", 0)
    assert f"(tiny, 2 of {len(lines)} planned runs)" in again.stdout
    assert len(log.read_text().splitlines()) == 2
    on = run("phase", tmp_path, "--only", "max-sum")
    assert on.stdout.endswith("(tiny)\n")


def test_only_some_methods_keep_the_lines_of_the_others(tmp_path):
    """A method that is run alone joins those on file, whose numbers stay as they are."""
    assert run("senate", tmp_path, "--only", "max-sum").returncode == 0
    path = tmp_path / "senate.csv"
    first = path.read_text().splitlines()
    path.write_text("\n".join(first).replace(first[1].split(",")[3], "0.12345") + "\n")
    assert run("senate", tmp_path, "--only", "GLRM hinge").returncode == 0
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert lines[0]["method"] == "max-sum" and lines[0]["error"] == "0.12345"
    assert [line["method"] for line in lines[1:2]] == ["GLRM hinge"]
    assert sum(line["method"].startswith("GLRM hinge, strength") for line in lines) == 4


def test_only_is_an_option_where_it_has_an_effect(tmp_path):
    refused = run("flips", tmp_path, "--only", "magic")
    assert refused.returncode == 1 and "no method is named magic" in refused.stderr
    refused = run("circles", tmp_path, "--only", "auto")
    assert refused.returncode == 2 and "unrecognized arguments: --only" in refused.stderr


def test_lines_at_multiples_of_the_bound_are_run_anew_without_the_grid(tmp_path):
    assert run("phase", tmp_path, "--only", "max-sum").returncode == 0
    path = tmp_path / "phase.csv"
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line["error"] = "0.12345"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    assert run("phase", tmp_path, "--only", "max-sum", "--curve").returncode == 0
    with path.open(newline="") as file:
        again = [(line["kind"], line["error"] == "0.12345") for line in csv.DictReader(file)]
    assert sorted(again) == sorted((line["kind"], line["kind"] == "grid") for line in lines)
    assert len(set(again)) == 2


def test_only_names_methods_that_exist(tmp_path):
    done = run("senate", tmp_path, "--only", "magic")
    assert done.returncode != 0 and "no method is named magic; choose from: max-sum" in done.stderr


def test_movielens_needs_its_data(tmp_path):
    done = run("movielens", tmp_path, "--data", tmp_path / "nowhere")
    assert done.returncode != 0 and "MovieLens" in done.stderr
