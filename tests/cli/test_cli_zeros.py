"""Transactions and pairs whose zeros are not listed, from the command line."""

import json

import numpy as np
import pytest
from commands import run_here
from terminals import complaint, run

from boolweave import load
from boolweave.data.ones import SparseObservations
from boolweave.datasets import make_boolean
from boolweave.io import read


@pytest.fixture(scope="module")
def baskets(tmp_path_factory):
    """A file of transactions, and the matrix in it."""
    folder = tmp_path_factory.mktemp("baskets")
    made = make_boolean(80, 60, 3, row_density=0.25, column_density=0.25, random_state=1)
    bought = made.Z[made.Z.any(axis=1)]
    lines = [" ".join(str(100 + n) for n in np.flatnonzero(row)) for row in bought]
    (folder / "baskets.fimi").write_text("\n".join(lines) + "\n")
    pairs = "\n".join(f"user {m},item {n}" for m, n in np.argwhere(bought))
    (folder / "pairs.csv").write_text(pairs + "\n")
    return folder, bought[:, bought.any(axis=0)]


@pytest.mark.parametrize("name", ["baskets.fimi", "pairs.csv"])
def test_read_without_zeros(baskets, name, monkeypatch):
    folder, _ = baskets
    exact = read(folder / name).observations
    for zeros in ("collective", "auto"):
        monkeypatch.setattr("boolweave.data.ones.MANY_CELLS", 1000)
        monkeypatch.setattr("boolweave.data.ones.FEW_ONES", 0.5)
        seen = read(folder / name, zeros=zeros).observations
        assert isinstance(seen, SparseObservations)
        np.testing.assert_array_equal(seen.to_local().to_dense(), exact.to_dense())
        assert seen.column_labels.tolist() == exact.column_labels.tolist()
    missing = read(folder / name, zeros="collective", absent="missing").observations
    assert not isinstance(missing, SparseObservations)


def test_factorize_info_and_the_model(baskets, tmp_path):
    folder, bought = baskets
    model, page = tmp_path / "model.npz", tmp_path / "report.html"
    found = run_here(
        "factorize", folder / "baskets.fimi", "-k", 3, "--zero-treatment", "collective", "--json",
        "--model", model, "--report", page, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert (answer["zeros"], answer["objective"]) == ("collective", "posterior")
    assert (answer["missed"], answer["observed"]) == (0, bought.size)
    kept = load(model)
    assert kept.result_.zeros == "collective"
    np.testing.assert_array_equal(kept.result_.Z, bought)
    assert page.stat().st_size > 1000
    told = json.loads(run("info", model, "--json").stdout)
    assert (told["zeros"], told["observed_share"], told["empty_rows"]) == ("collective", 1.0, 0)
    assert json.loads(run("info", folder / "baskets.fimi", "--json").stdout)["zeros"] == "exact"
    assert len(run("recommend", model, "1", "-n", 2, "--least", 0).stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--product", "xor"], 'product="xor"'),
        (["--objective", "errors"], "zeros"),
    ],
)
def test_what_is_refused(baskets, words, problem):
    how = ("-k", 2, "--zero-treatment", "collective", *words)
    assert problem in complaint("factorize", baskets[0] / "pairs.csv", *how)


def test_one_clear_error(baskets):
    words = ("-k", 2, "--zero-treatment", "collective", "--product", "xor")
    found = run_here("factorize", baskets[0] / "baskets.fimi", *words, text=True)
    assert found.returncode == 2
    assert "--product xor" in found.stderr and "Traceback" not in found.stderr
    assert "--zero-treatment collective is not possible" in found.stderr


def test_words_for_zeros_and_their_treatment_are_two_options(tmp_path):
    (tmp_path / "votes.csv").write_text("who,tea,rum\nAnn,ja,nein\nBo,nein,ja\n")
    words = ("--ones", "ja", "--zeros", "nein", "--zero-treatment", "exact", "--json")
    found = run_here("factorize", tmp_path / "votes.csv", "-k", 2, *words, text=True)
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert (answer["observed"], answer["zeros"], answer["objective"]) == (4, "exact", "posterior")


def test_a_word_that_does_not_occur_is_named(tmp_path):
    """`--zeros exact` is a word for 0; it was the treatment of zeros in an earlier version."""
    (tmp_path / "votes.csv").write_text("who,tea,rum\nAnn,ja,0\nBo,0,ja\n")
    words = ("--ones", "ja", "--zeros", "exact", "--missing", "99")
    for command in (("factorize", "-k", 2, "--max-iter", 5), ("cover",)):
        found = run_here(command[0], tmp_path / "votes.csv", *command[1:], *words, text=True)
        assert found.returncode == 0, found.stderr
        assert "--zeros: no cell is 'exact'; --zero-treatment sets" in found.stderr
        assert "--missing: no cell is '99'\n" in found.stderr and "--ones" not in found.stderr
    quiet = run_here("cover", tmp_path / "votes.csv", *words, "--quiet", text=True)
    assert quiet.stderr == ""


def test_the_error_of_a_completion_names_the_option(baskets):
    words = ("--zero-treatment", "collective", "--layers", 1)
    found = run_here("complete", baskets[0] / "baskets.fimi", *words, text=True)
    assert found.returncode == 2 and "--zero-treatment is an option of a Boolean" in found.stderr
