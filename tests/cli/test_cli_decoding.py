"""The commands group-test and decode."""

import json

import numpy as np
import pytest
from decoding_reference import HAMMING
from terminals import complaint, run

from boolweave.decoding import ParityCheckCode, bsc_llr, write_alist

POOLS = """pool,ann,bo,cy,di,ed,fay
north,1,1,1,0,0,0
south,0,0,0,1,1,1
east,1,0,0,1,0,0
west,0,1,0,0,1,0
mid,0,0,1,0,0,1
"""


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "pools.csv").write_text(POOLS)
    (tmp_path / "outcomes.csv").write_text("pool,outcome\nwest,1\nnorth,1\nsouth,0\neast,0\nmid,\n")
    return tmp_path


def test_group_test_by_names(lab):
    files = lab / "pools.csv", lab / "outcomes.csv"
    options = ("--prevalence", "0.1", "--sensitivity", "0.95", "--specificity", "0.99")
    answer = json.loads(run("group-test", *files, *options, "--json", "-q").stdout)
    assert [row["item"] for row in answer if row["positive"]] == ["bo"]
    table = run("group-test", *files, *options, "-o", lab / "found.csv")
    assert "1 of 6 items positive" in table.stderr
    assert "most doubtful: " in table.stderr
    assert (lab / "found.csv").read_text().splitlines()[0] == (
        "item,positive,probability,most_likely"
    )


def test_group_test_with_pairs_and_learned_prevalence(lab):
    pairs = ["pool,item"]
    for line in POOLS.splitlines()[1:]:
        pool, *cells = line.split(",")
        names = POOLS.splitlines()[0].split(",")[1:]
        pairs += [f"{pool},{name}" for name, cell in zip(names, cells, strict=True) if cell == "1"]
    (lab / "pairs.csv").write_text("\n".join(pairs) + "\n")
    done = run(
        "group-test", lab / "pairs.csv", lab / "outcomes.csv", "--layout", "pairs", "--header",
        "--prevalence", "learn", "--sensitivity", "0.95", "--specificity", "0.99", "--json", "-q",
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert [row["item"] for row in answer if row["positive"]] == ["bo"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pool,outcome\nnorth,1\nsouth,0\neast,0\nwest,1\n", "no outcome for pool 'mid'"),
        ("pool,outcome\nnorth,1\nsouth,0\neast,0\nwest,1\nmid,0\ntop,1\n", "'top' is not in"),
        ("1\n0\n", "bad.csv: expected 5 outcomes, one for each pool of "),
        (POOLS, "got a table 5 x 6"),
        (
            "pool,outcome\nnorth,2\nsouth,1\neast,1\nwest,2\nmid,1\n",
            "column 'outcome': expected 0/1",
        ),
    ],
)
def test_bad_outcomes(lab, text, says):
    (lab / "bad.csv").write_text(text)
    arguments = ("group-test", lab / "pools.csv", lab / "bad.csv", "--prevalence")
    assert says in complaint(*arguments, "0.1")


def test_words_for_outcomes(lab):
    test = ("group-test", lab / "pools.csv", lab / "words.csv", "--prevalence", "0.1")
    for one, zero, none, options in (
        ("pos", "neg", "", ()),
        ("Positive", "negative", "?", ()),
        ("+", "-", "", ()),
        ("+", "neg", "-", ("--missing", "-")),
        ("reactive", "clear", "", ("--ones", "reactive", "--zeros", "clear")),
    ):
        outcomes = {"west": one, "north": one, "south": zero, "east": zero, "mid": none}
        lines = "".join(f"{pool},{outcome}\n" for pool, outcome in outcomes.items())
        for header in ("pool,outcome\n", ""):
            (lab / "words.csv").write_text(header + lines)
            done = run(*test, *options, "--json")
            assert [row["item"] for row in json.loads(done.stdout) if row["positive"]] == ["bo"]
            assert options or "warning" not in done.stderr
    assert "expected 0/1" in complaint(*test, "--zeros", "neg")


@pytest.mark.parametrize(("names", "name"), [("", "2"), ("pool,", "south")])
def test_errors_call_pools_as_the_file_does(lab, names, name):
    (lab / "none.csv").write_text("0\n1\n0\n0\n0\n")
    lines = POOLS.splitlines()
    if not names:
        lines = [line.partition(",")[2] for line in lines]
    (lab / "pools.csv").write_text("\n".join(lines) + "\n")
    said = complaint("group-test", lab / "pools.csv", lab / "none.csv", "--prevalence", "0.1")
    assert f"none.csv: pool {name} is positive, but every one of its items" in said


def test_bad_prevalence(lab):
    arguments = ("group-test", lab / "pools.csv", lab / "outcomes.csv", "--prevalence")
    assert "expected a number or learn" in complaint(*arguments, "high")
    assert "between 0 and 1" in complaint(*arguments, "5")


def test_decode_numpy_and_text(tmp_path):
    code = ParityCheckCode(HAMMING)
    sent = code.encode([[1, 0, 1, 1], [0, 0, 1, 0]])
    received = sent.copy()
    received[:, 5] ^= 1
    llr = bsc_llr(received, 0.05)
    write_alist(tmp_path / "H.alist", HAMMING)
    np.save(tmp_path / "llr.npy", llr)
    np.savetxt(tmp_path / "llr.txt", llr)
    np.save(tmp_path / "one.npy", llr[0])
    for file in ("llr.npy", "llr.txt"):
        done = run("decode", tmp_path / "H.alist", tmp_path / file, "--json", "-q")
        answer = json.loads(done.stdout)
        assert answer["bits"] == sent.tolist() and answer["converged"] == [True, True]
        assert answer["syndrome_weight"] == [0, 0]
    done = run(
        "decode", tmp_path / "H.alist", tmp_path / "one.npy", "--method", "min-sum",
        "--schedule", "serial", "--scale", "0.9", "-o", tmp_path / "bits.csv",
    )  # fmt: skip
    assert "1 of 1 words decoded" in done.stderr
    line = (tmp_path / "bits.csv").read_text().splitlines()[1]
    assert line == ",".join(map(str, sent[0]))


def test_decode_bad_input(tmp_path):
    write_alist(tmp_path / "H.alist", HAMMING)
    (tmp_path / "llr.txt").write_text("1 2 3\n")
    (tmp_path / "words.txt").write_text("1 2 x\n")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
    where = tmp_path / "H.alist"
    assert "no such file" in complaint("decode", tmp_path / "none.alist", tmp_path / "llr.txt")
    assert "shape (words, 7)" in complaint("decode", where, tmp_path / "llr.txt")
    assert "line 1" in complaint("decode", where, tmp_path / "words.txt")
    assert ".npy" in complaint("decode", where, tmp_path / "broken.npy")
    assert "is this an alist file" in complaint("decode", tmp_path / "words.txt", where)
