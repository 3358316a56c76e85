"""Names and words on the shell: new rows, reasons, sentences on a terminal, curves, pools."""

import json
import re

import numpy as np
import polars as pl
import pytest
from decoding_reference import HAMMING
from terminals import complaint, on_terminal, run

import boolweave
from boolweave import BooleanCompletion, BooleanMatrixFactorization
from boolweave.cli.common import read_new_rows
from boolweave.cli.options import ReadingOptions
from boolweave.cli.results import words_of
from boolweave.datasets import load_zoo
from boolweave.decoding import write_alist

LIKES = """name,tea,rum,gin,milk,cake
Ann,1,,0,1,1
Bo,1,0,0,1,1
Cy,0,1,1,,0
Di,0,1,1,0,
Ed,1,0,0,1,1
Fay,0,1,,0,0
"""
# Other columns first, one left out, one row known already.
NEW = "who,cake,tea,rum,gin\nZoe,1,,0,\nYan,0,0,,1\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    (folder / "likes.csv").write_text(LIKES)
    (folder / "new.csv").write_text(NEW)
    table = pl.read_csv(folder / "likes.csv")
    BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(table).save(
        folder / "likes.npz"
    )
    BooleanCompletion(n_directions=1, n_layers=0, n_members=2, random_state=0).fit(table).save(
        folder / "filled.npz"
    )
    return folder


# ---------------------------------------------------------------- new rows


def test_new_rows_are_read_by_the_plan_of_the_model(tmp_path):
    people = tmp_path / "people.csv"
    people.write_text("name,tea,age\nAnn,1,31\nBo,0,44\nCy,1,58\nDi,0,62\nEd,1,23\nFi,0,39\n")
    new = tmp_path / "new.csv"
    new.write_text("age,note,name,tea\n33,so,Go,1\n55,what,He,0\n")
    model = tmp_path / "m.npz"
    run("factorize", people, "-k", "1", "--model", model, "-q")
    done = run("transform", model, new, "--json")
    assert [row["row"] for row in json.loads(done.stdout)] == ["Go", "He"]
    assert "left out: note (the model does not have it)" in done.stderr
    fitted = boolweave.load(model)
    rows = read_new_rows(fitted, str(new), ReadingOptions(), True).to_dense()
    names = fitted.observations_.column_labels.tolist()
    assert rows[:, names.index("age < 39")].tolist() == [1, 0]
    # Rules for the new rows alone make other columns.
    assert "set the same rules for both" in complaint("transform", model, new, "--encode", "age=40")


def test_names_of_rows_can_be_left_out_of_models_and_reports(tmp_path):
    people = tmp_path / "people.csv"
    people.write_text("who,tea,rum\nAnn Lee,1,0\nBo Day,0,\nCy Fox,1,1\nDi Orr,,1\n")
    model, page = tmp_path / "m.npz", tmp_path / "m.html"
    kept = ("--model", model, "--report", page, "--max-time", "1", "-q")
    filled = run("complete", people, "-k", "1", "--method", "max-sum", *kept, "--no-labels").stdout
    assert "Bo Day" in filled  # the table itself
    assert boolweave.load(model).observations_.row_labels is None
    assert "Bo Day" not in page.read_text(encoding="utf-8")
    run("complete", people, "-k", "1", "--method", "max-sum", *kept)
    assert "Bo Day" in page.read_text(encoding="utf-8")


def test_transform(shop):
    done = run("transform", shop / "likes.npz", shop / "new.csv")
    assert done.stdout == "row,factor1,factor2\nZoe,1,0\nYan,0,1\n"
    assert "lacks columns of the model (1): milk" in done.stderr
    found = json.loads(run("transform", shop / "likes.npz", shop / "new.csv", "--json").stdout)
    assert found == [
        {"row": "Zoe", "factor1": 1, "factor2": 0}, {"row": "Yan", "factor1": 0, "factor2": 1}
    ]  # fmt: skip
    run("transform", shop / "filled.npz", shop / "new.csv", "-o", shop / "filled.csv")
    filled = pl.read_csv(shop / "filled.csv")
    assert filled.columns == ["row", "tea", "rum", "gin", "milk", "cake"]
    assert filled.row(0)[5] == 1.0 and 0 < filled.row(0)[1] < 1  # what was seen stays


def test_transform_writes_bits_or_probabilities(shop):
    new = shop / "new.csv"
    done = run("transform", shop / "likes.npz", new)
    assert "2 new rows, 2 factors" in done.stderr
    done = run("transform", shop / "likes.npz", new, "--probabilities", "--json")
    assert "2 new rows, probabilities of 2 factors" in done.stderr
    chances = [[row["factor1"], row["factor2"]] for row in json.loads(done.stdout)]
    assert [[chance > 0.5 for chance in row] for row in chances] == [[True, False], [False, True]]
    assert all(0 < chance < 1 for row in chances for chance in row)
    # A model that was saved with probabilities writes these, unless bits are asked for.
    boolweave.load(shop / "likes.npz").set_params(output="probability").save(shop / "odds.npz")
    saved = run("transform", shop / "odds.npz", new, "--json")
    assert "2 new rows, probabilities of 2 factors" in saved.stderr
    assert saved.stdout == done.stdout
    assert run("transform", shop / "odds.npz", new, "--bits").stdout.endswith("Zoe,1,0\nYan,0,1\n")
    assert (
        "2 new rows, missing entries filled in" in run("transform", shop / "filled.npz", new).stderr
    )
    said = complaint("transform", shop / "filled.npz", new, "--probabilities")
    assert "--probabilities is for the factors of a factorization, but filled.npz is a" in said


def test_recommend_and_explain_new_rows(shop):
    done = run("recommend", shop / "likes.npz", "Zoe", "--new", shop / "new.csv", "-n", 2, "--json")
    found = json.loads(done.stdout)
    assert {line["column"] for line in found} == {"tea", "milk"}
    assert found[0]["why"] == "because Zoe has cake, which this group has"
    every = run("recommend", shop / "filled.npz", "--new", shop / "new.csv", "--least", 0).stdout
    assert every.count("\n") == 6
    text = run(
        "explain", shop / "likes.npz", "Zoe", "tea", "--new", shop / "new.csv", "--verb", "ate",
        "--nouns", "guests,dishes",
    ).stdout  # fmt: skip
    assert (
        "Zoe ate cake, the only other observed one of its 3 dishes" in text
        and "its 3 guests: " in text
    )
    text = run("explain", shop / "filled.npz", "Zoe", "tea", "--new", shop / "new.csv").stdout
    assert text.startswith("Zoe, tea: 1 with a probability of ") and "  mostly because " in text
    assert "Ann" in complaint("recommend", shop / "likes.npz", "Ann", "--new", shop / "new.csv")


def test_columns_that_the_model_does_not_know(shop):
    (shop / "wrong.csv").write_text("who,Tea,beer\nZoe,1,1\n")
    said = complaint("transform", shop / "likes.npz", shop / "wrong.csv")
    assert "no column named 'Tea'; did you mean 'tea'?" in said
    (shop / "few.csv").write_text("1,0\n0,1\n")
    said = complaint("transform", shop / "likes.npz", shop / "few.csv")
    assert "expected 5 columns, as in the model, got 2" in said


def test_nothing_to_recommend_is_said(shop):
    done = run("recommend", shop / "likes.npz", "Bo")
    assert "nothing to recommend: every column was observed in Bo" in done.stderr


# ---------------------------------------------------------------- words


def test_factors_in_sentences_on_a_terminal(shop):
    text = on_terminal(
        "factorize", "likes.csv", "-k", 2, "-j", 1, "--max-time", 20, "--nouns", "guests,drinks",
        cwd=shop,
    )  # fmt: skip
    assert re.search(r"Factor 1: 3 guests × [23] drinks; found in ", text), text
    guests = re.findall(r"^  guests: (.*)$", text, re.M)
    assert sorted(sorted(names.split(", ")) for names in guests) == [
        ["Ann", "Bo", "Ed"], ["Cy", "Di", "Fay"],
    ]  # fmt: skip
    assert "factor,axis" not in text


def test_recommendations_in_sentences_on_a_terminal(shop):
    text = on_terminal("recommend", "likes.npz", "Fay", "-n", 1, cwd=shop)
    assert re.match(r"Fay:\n  1\. gin, \d\d%, because Fay has rum, which this group has\n", text), (
        text
    )


def test_output_to_nowhere_and_wrong_nouns(shop):
    done = run("factorize", shop / "likes.csv", "-k", 1, "-o", "/dev/null", "--max-time", 5)
    assert done.stdout == ""
    run("recommend", shop / "likes.npz", "-o", "/dev/null")
    said = complaint("factorize", "none.csv", "--nouns", "guests")
    assert "--nouns: expected two words, for rows and columns" in said and "got 'guests'" in said
    words = words_of("users, sheep", "owns")
    assert (words.verb, words.rows, words.row) == ("owns", "users", "user")
    assert (words.columns, words.column, words_of(None).rows) == ("sheep", "sheep", "rows")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["factorize", "--damping", "0"], "--damping: expected a number in (0.0, 1.0], got 0.0"),
        (["factorize", "-k", "-2"], "--n-components: expected a whole number in [1, 2^63) or"),
        (["factorize", "--noise", "2"], "--noise: expected a number in [0.0, 1.0] or 'learn'"),
        (["complete", "--layers", "-1"], "--n-layers: expected a whole number in [0, 2^63) or"),
        (["complete", "--max-time", "0"], "--max-time: expected a number in (0.0, inf)"),
        (["rank", "--tol", "-1"], "--tol: expected"),
        (["rank", "--plot", "x.doc"], "--plot: expected a name that ends in .png"),
        (["rank", "--criterion", "heldout", "--objective", "errors"], "leave one of them out"),
        (["factorize", "--max-memory", "much"], "much"),
    ],
)
def test_options_are_checked_before_files_are_read(arguments, words):
    command, *options = arguments
    assert words in complaint(command, "none.csv", *options)


def test_zoo_in_words(tmp_path):
    """A real table: reasons name what was observed, and wrong names get suggestions."""
    zoo = load_zoo().observations
    model = BooleanMatrixFactorization(3, objective="errors", max_time=3, random_state=0).fit(zoo)
    model.save(tmp_path / "zoo.npz")
    text = run("explain", tmp_path / "zoo.npz", "bear", "hair", "--nouns", "animals,traits").stdout
    assert re.search(
        r"because factor \d: bear has .* of its .*other observed traits: .*milk", text
    ), text
    assert "did you mean 'deer' or 'bear'?" in complaint(
        "explain", tmp_path / "zoo.npz", "beer", "hair"
    )


# ---------------------------------------------------------------- rank


def test_columns_of_rank_say_which_way_is_better(shop, tmp_path):
    done = run(
        "rank", shop / "likes.csv", "--max-rank", 2, "--method", "max-sum", "-j", 1,
        "--plot", tmp_path / "curve.png",
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "rank,bits_lower_is_better,best"
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    done = run(
        "rank", shop / "likes.csv", "--max-rank", 1, "--method", "max-sum", "-j", 1,
        "--criterion", "heldout", "--json", "-q",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert set(found["ranks"][0]) == {"rank", "log_loss_lower_is_better", "standard_error", "best"}
    assert found["score"].endswith("lower is better")


# ---------------------------------------------------------------- one factor known


def test_pools_and_what_they_find(tmp_path):
    (tmp_path / "samples.txt").write_text("".join(f"s{i}\n" for i in range(20)))
    options = ("--prevalence", 0.05, "--sensitivity", 0.97, "--specificity", 0.99)
    design = tmp_path / "pools.csv"
    done = run("pools", tmp_path / "samples.txt", "--pools", 12, *options, "-o", design)
    table = pl.read_csv(design)
    assert table.shape == (12, 21) and table.columns[1] == "s0"
    assert re.match(r"12 pools of \d+( to \d+)? items for 20 items, 60% of the tests", done.stderr)
    assert "% of 200 simulated runs; on average, " in done.stderr
    positive = table["s7"].to_list()
    lines = [f"{pool},{value}" for pool, value in zip(table["pool"], positive, strict=True)]
    (tmp_path / "out.csv").write_text("pool,outcome\n" + "\n".join(lines) + "\n")
    found = json.loads(run("group-test", design, tmp_path / "out.csv", *options, "--json").stdout)
    assert [line["item"] for line in found if line["positive"]] == ["s7"]
    assert [line["most_likely"] for line in found] == [line["positive"] for line in found]
    done = run(
        "group-test", design, tmp_path / "out.csv", *options, "--threshold", 0, "--json"
    )  # everybody
    assert all(line["positive"] for line in json.loads(done.stdout))
    assert "20 of 20 items positive with a probability of at least 0;" in done.stderr
    pairs = run("pools", 6, "--pools", 3, "--prevalence", 0.1, "--per-item", 2, "--pairs").stdout
    assert pairs.splitlines()[0] == "pool,item" and len(pairs.splitlines()) == 1 + 2 * 6


def test_as_few_pools_as_will_do():
    said = run("pools", 60, "--prevalence", 0.02, "-q", "--json")
    n_pools = len(json.loads(said.stdout))
    assert 5 <= n_pools < 40
    more = run("pools", 60, "--prevalence", 0.02, "--right", 0.99, "-q", "--json")
    assert len(json.loads(more.stdout)) > n_pools


def test_pools_refuse(tmp_path):
    assert "expected 1 to 100,000 items, got 0" in complaint("pools", 0, "--prevalence", 0.1)
    assert "--prevalence" in complaint("pools", 9, "--prevalence", 1)
    (tmp_path / "twice.txt").write_text("a\nb\na\n")
    assert "'a' occurs 2 times" in complaint("pools", tmp_path / "twice.txt", "--prevalence", 0.1)
    (tmp_path / "empty.txt").write_text("\n")
    assert "empty file" in complaint("pools", tmp_path / "empty.txt", "--prevalence", 0.1)


def test_items_in_words_on_a_terminal(tmp_path):
    (tmp_path / "pools.csv").write_text("a,b,c,d\n1,1,0,0\n0,1,1,0\n0,0,1,1\n")
    (tmp_path / "outcomes.csv").write_text("1\n1\n0\n")
    text = on_terminal("group-test", "pools.csv", "outcomes.csv", "--prevalence", 0.1, cwd=tmp_path)
    assert text.startswith("b: positive, ") and "other items: under 5%" in text
    text = on_terminal("pools", 4, "--pools", 2, "--prevalence", 0.2, "-q", cwd=tmp_path)
    assert text.startswith("pool 1, ") and "item 1" in text


@pytest.mark.parametrize("word", ["1000000", "1 0 0 0 0 0 0", "1,0,0,0;0,0,0"])
def test_hard_bits(tmp_path, word):
    write_alist(tmp_path / "H.alist", HAMMING)
    (tmp_path / "bits.txt").write_text(word + "\n")
    done = run("decode", tmp_path / "H.alist", tmp_path / "bits.txt", "--flip", 0.05)
    assert done.stdout.splitlines() == [
        ",".join(f"bit{j + 1}" for j in range(7)), "0,0,0,0,0,0,0"
    ]  # fmt: skip
    assert "1 of 1 words decoded; 1 of 7 bits corrected" in done.stderr
    np.save(tmp_path / "bits.npy", np.array([[1, 0, 0, 0, 0, 0, 0]], dtype=np.uint8))
    assert run("decode", tmp_path / "H.alist", tmp_path / "bits.npy", "--flip", 0.05).stdout == (
        done.stdout
    )


def test_erased_bits(tmp_path):
    write_alist(tmp_path / "H.alist", HAMMING)
    (tmp_path / "bits.txt").write_text("00?000?\n")
    done = run("decode", tmp_path / "H.alist", tmp_path / "bits.txt", "--flip", 0.05, "--json")
    assert json.loads(done.stdout)["bits"] == [[0] * 7]
    assert "0 of 5 bits corrected" in done.stderr


def test_bits_that_are_none(tmp_path):
    write_alist(tmp_path / "H.alist", HAMMING)
    (tmp_path / "ratios.txt").write_text("0.5 1 2 3 4 5 6\n")
    said = complaint("decode", tmp_path / "H.alist", tmp_path / "ratios.txt", "--flip", 0.1)
    assert "ratios.txt" in said and "leave out --flip" in said


def test_models_of_before_have_no_form(shop):
    model = boolweave.load(shop / "likes.npz")
    assert isinstance(model.recommend(["Fay"], 1), pl.DataFrame)
