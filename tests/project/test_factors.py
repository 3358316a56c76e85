"""The benchmark of factors, on small tables in the formats that it reads."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from commands import run_script_here

ROOT = Path(__file__).resolve().parents[2]

# Has the interface of FPMsBMF; the factors that it finds are the first rows of the table.
STAND_IN = """
import numpy as np

class BitMatrix:
    def __init__(self, bits):
        self.bits = bits

    @staticmethod
    def from_numpy(bits):
        assert bits.dtype == bool
        return BitMatrix(bits)

    def to_numpy(self):
        return self.bits

class Result:
    pass

def ao_bmf(x, r, method="zeta", max_iter=50, seed=0):
    assert method in ("zeta", "greedy-ls")
    result = Result()
    result.h = BitMatrix(x.bits[:r])
    result.w = BitMatrix((x.bits[:, None] == x.bits[None, :r]).all(axis=2))
    return result
"""


def block_table():
    """Two blocks of ones that do not meet, 12 × 10: two factors explain it without an error."""
    table = np.zeros((12, 10))
    table[:6, :5] = table[6:, 5:] = 1
    return table


def write_csv(file, table):
    lines = [",".join("" if np.isnan(v) else str(int(v)) for v in row) for row in table]
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("fewest-errors", "one-hot", "fimi", "installed"):
        (folder / name).mkdir()
    table = block_table()
    holes = table.copy()
    holes[0, 0] = holes[11, 9] = np.nan
    np.savetxt(folder / "fewest-errors" / "blocks.txt", table, fmt="%d")
    np.savetxt(folder / "fewest-errors" / "votes_w_missing.txt", holes)
    (folder / "fewest-errors" / "best_known.csv").write_text(
        "table,K,best_known,proven_optimal,integer_program_30_min,asso_plus\n"
        "blocks,2,0,yes,0,4\nvotes_w_missing,10,3,no,5,\n"
    )
    write_csv(folder / "one-hot" / "holes.csv", holes)
    (folder / "one-hot" / "published.csv").write_text("table,K,MP,Asso\nholes,1,20,20\n")
    (folder / "fimi" / "mushroom.dat").write_text("1 4\n1 4\n9\n9\n")
    (folder / "installed" / "FPMsBMF.py").write_text(STAND_IN)
    return folder


def run(data, *options):
    """Other methods run in processes of their own, which find the stand-in by PYTHONPATH."""
    paths = os.pathsep.join([str(data / "installed"), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # the benchmark sets it
        patch.setenv("BOOLWEAVE_DATA", str(data))
        patch.setenv("PYTHONPATH", paths)
        patch.syspath_prepend(data / "installed")
        script = ROOT / "benchmarks" / "factors.py"
        return run_script_here(script, "--seconds", 1, "--threads", 1, *options)


REAL = ("--only", "fewest-errors", "one-hot", "fimi")


@pytest.fixture(scope="module")
def report(data):
    """The whole benchmark but the planted matrices, with the stand-in for FPMsBMF."""
    output = data / "factors.json"
    done = run(data, *REAL, "--output", output)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(output.read_text())


@pytest.mark.slow
def test_every_method_counts_the_entries_that_are_known(report):
    cells = {(line["table"], line["K"]): line for line in report[1]["cells"]}
    assert list(cells) == [("blocks", 2), ("votes_w_missing", 10), ("holes", 1), ("mushroom", 25)]
    assert cells["blocks", 2]["ours"][0]["errors"] == 0
    assert cells["holes", 1]["ours"][0]["errors"] == 29  # one block, and the other is missed
    assert (cells["holes", 1]["observed"], cells["holes", 1]["ones"]) == (118, 58)
    for name in ("Asso", "GreConD"):
        assert cells["blocks", 2]["others"][name]["errors"] == 0
        assert cells["holes", 1]["others"][name]["errors"] == 29
    # Both factors of the stand-in are the first block; a hole is a zero to it, so that no factor
    # is the last row, whose four other ones are missed.
    assert cells["blocks", 2]["others"]["FPMsBMF"]["errors"] == 30
    assert cells["votes_w_missing", 10]["others"]["FPMsBMF"]["errors"] == 4
    assert cells["mushroom", 25]["shape"] == [4, 3]


@pytest.mark.slow
def test_published_numbers_and_the_summary(report):
    printed, results = report
    cells = {(line["table"], line["K"]): line for line in results["cells"]}
    assert cells["blocks", 2]["methods"] == ["integer program 30 min"]
    assert cells["blocks", 2]["proven_optimal"]
    assert cells["votes_w_missing", 10]["methods"] == ["later record"]
    assert cells["holes", 1]["methods"] == ["MP", "Asso"]
    assert [run["max_time"] for run in cells["votes_w_missing", 10]["curve"]] == [0.5, 1]
    summary = results["summary"]
    assert summary["proven"] >= 1  # no error at all needs no other proof
    assert summary["one-hot"] == {"cells": 1, "reached": 0, "better": 0}
    assert summary["worst_excess"] == {"cell": "holes K=1", "excess": 0.45}
    assert "no worse than the best published in 0 of 1; worst excess +45.0% (holes K=1)" in printed
    assert results["versions"]["numpy"]


@pytest.mark.slow
def test_results_of_others_are_kept(report, data):
    output = data / "factors.json"
    changed = json.loads(output.read_text())
    changed["cells"][2]["others"]["Asso"]["errors"] = 77
    again = data / "again.json"
    again.write_text(json.dumps(changed))
    done = run(data, "--only", "holes", "--peers", "kept", "--output", again)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(again.read_text())["cells"]
    assert line["others"]["Asso"]["errors"] == 77 and line["others"]["Asso"]["kept"]
    assert again.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_names_that_there_are_not(data):
    done = run(data, "--only", "blocks", "holes", "nowhere")
    assert done.returncode != 0
    assert "no table is named nowhere; there are blocks, votes_w_missing, holes" in done.stderr
