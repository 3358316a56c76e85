"""`boolweave demo` and the bare command."""

import json
import re

import pytest
from commands import run_here, run_process

from boolweave.datasets import load_zoo
from short import shorten_chains


def shares(text):
    return [float(share) for share in re.findall(r"(\d+\.\d)%", text)]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a process shows, and the folder in which it ran."""
    folder = tmp_path_factory.mktemp("demo")
    done = run_process("demo", "--jobs", "2", "--output", "senate.png", cwd=folder, text=True)
    assert done.returncode == 0, done.stderr
    return done, folder


@pytest.mark.slow
def test_hidden_votes_are_completed_better_than_by_simple_rules(shown):
    done, folder = shown
    majority, means, factors, ours = zip(*[iter(shares(done.stdout)[:8])] * 2, strict=True)
    assert majority[0] < means[0] < factors[0] < ours[0]
    assert factors[0] > 88 and ours[0] > 90
    gain = re.search(r"completion gets (\d+\.\d) percentage points more", done.stdout).group(1)
    assert float(gain) == pytest.approx(ours[0] - means[0], abs=0.11)
    assert majority[1] == 100 and "15,081" in done.stdout  # all yeas, and all nays as well
    assert means[1] < ours[1]
    assert "the Democratic side" in done.stdout
    assert "the Republican side" in done.stdout
    assert "49,347 are hidden" in done.stderr
    assert "Warning" not in done.stderr
    assert (folder / "senate.png").read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in folder.iterdir()] == ["senate.png"]


@pytest.mark.slow
def test_the_zoo_in_factors_and_in_groups_without_a_false_one(shown):
    _, zoo = shown[0].stdout.split("\nA zoo: ")
    wrong, least = re.search(r"(\d+) wrong entries of 1,515; no 4 .* than (\d+)\n", zoo).groups()
    assert int(least) <= int(wrong) <= 138  # of four factors nobody knows fewer
    factors, groups = zoo.split("\nA cover: ")
    line = r"^  \d\. (.*): (\d+) animals, (\w+), (\w+), .* and (\d+) more$"
    assert len(re.findall(line, factors, re.M)) == 4
    seen = load_zoo().observations
    names, traits, cells = (
        seen.row_labels.tolist(), seen.column_labels.tolist(), seen.to_dense(),
    )  # fmt: skip
    for of_group, size, *some, _ in re.findall(line, groups, re.M):
        columns = [traits.index(name) for name in of_group.split(", ")]
        assert cells[[names.index(name) for name in some]][:, columns].all()
        assert cells[:, columns].all(axis=1).sum() == int(size)  # no animal is left out
    assert int(groups.split()[0]) == len(re.findall(line, groups, re.M))


@pytest.fixture
def small(quick_search, monkeypatch):
    """A demo of small models."""
    shorten_chains(monkeypatch)
    size = {"n_directions": 0, "n_layers": 0, "n_components": 2, "n_members": 1}
    monkeypatch.setattr("boolweave.cli.commands.demo.SIZE", size)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_machines_are_told_the_same(tmp_path):
    told = run_here("demo", "--jobs", "1", "--output", "senate.png", cwd=tmp_path, text=True)
    assert told.returncode == 0 and (tmp_path / "senate.png").exists()
    (tmp_path / "senate.png").unlink()
    done = run_here("demo", "--json", "--jobs", "1", cwd=tmp_path, text=True)
    assert done.returncode == 0 and done.stderr == ""
    found = json.loads(done.stdout)
    shown = shares(told.stdout)[:8]
    for n, name in enumerate(found["accuracy"]):
        here = (100 * found["accuracy"][name], 100 * found["ones_covered"][name])
        assert here == pytest.approx(shown[2 * n : 2 * n + 2], abs=0.051)
        assert f" {found['false_ones'][name]:,} " in told.stdout
        assert f" {found['log_loss'][name]:.3f} " in told.stdout
    assert found["hidden"] == 49347 and found["accuracy"]["boolweave completion"] > 0.8
    assert found["ones_covered"]["always the majority"] == 1
    assert found["false_ones"]["always the majority"] == found["hidden"] - found["hidden_ones"]
    assert f"{found['zoo']['wrong']:.0f} wrong entries" in told.stdout
    assert f"{found['zoo']['groups']} groups" in told.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_another_seed_without_matplotlib(tmp_path, monkeypatch):
    """Other votes are hidden; without matplotlib the figures of a small model are still printed."""
    monkeypatch.setattr("boolweave.cli.commands.demo.find_spec", lambda name: None)
    done = run_here("demo", "--seed", "5", "--jobs", "1", cwd=tmp_path, text=True)
    assert done.returncode == 0, done.stderr
    assert len(shares(done.stdout)) == 8 and "15,081" not in done.stdout
    assert "needs matplotlib, pip install" in done.stderr and "[plot]" in done.stderr
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
    done = run_here(*arguments, cwd=tmp_path, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("boolweave: ") and done.stderr.count("\n") == 1


def test_version():
    done = run_here("--version", text=True)
    assert done.returncode == 0
    assert re.fullmatch(r"boolweave \d+\.\d+\.\d+\n", done.stdout)
