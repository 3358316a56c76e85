"""Answers of completions, covers, searches, decoders and encoders, held against answers.json.

Whole numbers, bits and text must be equal. Real numbers may differ in the last digits, because
processors round sums of floats differently; `pytest tests/golden --golden-bits FILE` compares every
bit of them as well, with those that the first run with this file stored on the same machine.
"""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from golden_files import compare_bits, store, stored_in

from boolweave import BooleanCompletion, BooleanMatrixFactorization, TableEncoder, cover, factorize
from boolweave.datasets import load_votes84, load_zoo, make_boolean
from boolweave.decoding import ParityCheckCode, group_testing

STORED = Path(__file__).parent / "answers.json"
SHOWN = 40  # of an array of real numbers, evenly spaced

HAMMING = np.array([[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]])


def completed(table, **parameters):
    fit = {name: parameters.pop(name) for name in list(parameters) if name.endswith("features")}
    model = BooleanCompletion(random_state=0, n_members=4, **parameters).fit(table, **fit)
    m, n = (index.ravel() for index in np.indices(table.shape))
    return {
        "name": model.ensemble_.name,
        "probabilities": model.predict_proba(m, n),
        "new rows": model.transform(table.take_rows(slice(0, 5))),
        "losses": [line["log_loss"] for line in model.selection_],
    }


def votes(n_rows, hidden):
    return load_votes84().observations.take_rows(slice(0, n_rows)).hide(hidden, random_state=0)[0]


def completion_of_votes():
    return completed(votes(60, 0.3))


def completion_of_a_product():
    planted = make_boolean(40, 20, 2, flip=0.02, observed=0.5, random_state=0)
    return completed(planted.observations)


def completion_with_features():
    draw = np.random.default_rng(0)
    return completed(votes(30, 0.4), row_features=draw.normal(size=(30, 2)))


def completion_with_two_layers():
    return completed(votes(50, 0.5), n_components=2, n_layers=2)


def searched(table, n_components, **parameters):
    result = factorize(table, n_components, random_state=0, **parameters)
    return {
        "X": result.X, "Y": result.Y, "cost": result.cost, "bound": result.bound,
        "row_log_odds": result.row_log_odds, "column_log_odds": result.column_log_odds,
    }  # fmt: skip


def few_errors():
    return searched(load_zoo().observations, 4)


def few_errors_with_holes():
    return searched(votes(100, 0.2), 3)


def few_errors_of_xor():
    planted = make_boolean(40, 30, 3, flip=0.02, product="xor", random_state=0)
    return searched(planted.observations, 3, product="xor")


def no_false_ones():
    return searched(load_zoo().observations, 4, false_one_weight=np.inf)


def few_weighted_errors():
    table = load_zoo().observations
    weights = np.random.default_rng(0).integers(1, 5, table.shape)
    return searched(table, 3, sample_weight=weights)


def few_errors_of_a_sparse_matrix():
    planted = make_boolean(300, 200, 5, flip=0.002, random_state=0)
    return searched(scipy.sparse.csr_array(planted.observations.to_dense()), 5)


def few_errors_at_any_rank():
    return searched(load_zoo().observations.take_rows(slice(0, 30)), "auto")


def covered(table, **parameters):
    result = cover(table, random_state=0, **parameters)
    return {
        "X": result.X, "Y": result.Y, "cost": result.cost, "bound": result.bound,
        "missed": result.missed, "false_ones": result.false_ones,
    }  # fmt: skip


def exact_cover():
    return covered(load_zoo().observations)


def cover_of_nine_tenths():
    return covered(load_zoo().observations, coverage=0.9)


def cover_with_false_ones():
    return covered(load_zoo().observations, false_ones=20)


def cover_by_four():
    return covered(load_zoo().observations, n_components=4)


def cover_by_small_factors():
    return covered(load_zoo().observations, max_rows=30, max_columns=5)


def pooled_tests():
    draw = np.random.default_rng(0)
    design, infected = draw.random((30, 60)) < 0.1, draw.random(60) < 0.05
    outcomes = (design @ infected).astype(int)
    answer = group_testing(design, outcomes, 0.05, sensitivity=0.95, specificity=0.98)
    return {"items": answer.items, "probabilities": answer.probabilities}


def decoded(method):
    code = ParityCheckCode(HAMMING)
    llr = np.random.default_rng(0).normal(1.0, 1.5, size=(50, 7))
    answer = code.decode(llr, method=method)
    return {"bits": answer.bits, "n_iter": answer.n_iter, "syndromes": answer.syndrome_weight}


def encoded_table():
    import polars

    draw = np.random.default_rng(0)
    table = polars.DataFrame({
        "age": draw.integers(18, 80, 40),
        "likes": draw.choice(["tea;rum", "tea", "milk;tea", "rum;milk"], 40),
        "town": draw.choice(["Bonn", "Ulm", "Kiel", None], 40),
        "agrees": draw.choice(["yes", "no", ""], 40),
    })  # fmt: skip
    encoder = TableEncoder().fit(table)
    encoded = encoder.transform(table)
    return {
        "names": list(encoder.get_feature_names_out()),
        "table": encoded,
        "back": str(encoder.inverse_transform(encoded).to_dict(as_series=False)),
    }


def implicit_zeros():
    planted = make_boolean(400, 300, 4, flip=0.001, random_state=0)
    table = scipy.sparse.csr_array(planted.observations.to_dense())
    model = BooleanMatrixFactorization(4, zeros="collective", random_state=0).fit(table)
    return {"X": model.row_factors_, "Y": model.components_, "row_log_odds": model.row_log_odds_}


CASES = {
    function.__name__: function
    for function in (
        completion_of_votes, completion_of_a_product, completion_with_features,
        completion_with_two_layers,
        few_errors, few_errors_with_holes, few_errors_of_xor, no_false_ones, few_weighted_errors,
        few_errors_of_a_sparse_matrix, few_errors_at_any_rank,
        exact_cover, cover_of_nine_tenths, cover_with_false_ones, cover_by_four,
        cover_by_small_factors, pooled_tests, encoded_table, implicit_zeros,
    )
}  # fmt: skip
CASES |= {f"code by {method}": lambda method=method: decoded(method)
          for method in ("sum-product", "min-sum")}  # fmt: skip


def in_short(value):
    """What is stored of one part of an answer: all of it, or some of its real numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and isinstance(value[0], str):
        return value
    values = np.asarray(value)
    if values.dtype.kind in "bui":
        if values.size > SHOWN:
            return f"{values.shape} {hashlib.sha256(values.astype(np.int64).tobytes()).hexdigest()}"
        return values.astype(int).tolist()
    flat = np.atleast_1d(values).astype(float).ravel()
    chosen = flat[:: max(1, -(-flat.size // SHOWN))]
    return [float(f"{number:.6g}") for number in chosen]


@pytest.mark.parametrize("name", CASES)
def test_answers_as_stored(name, request):
    answer = CASES[name]()
    compare_bits(request, name, answer)
    now = {part: in_short(value) for part, value in answer.items()}
    if request.config.getoption("--update-golden"):
        store(STORED, CASES, name, now)
        return
    expected = stored_in(STORED)[name]
    assert set(now) == set(expected)
    for part, value in expected.items():
        if isinstance(value, list) and value and isinstance(value[0], float):
            np.testing.assert_allclose(now[part], value, rtol=2e-3, atol=1e-4, err_msg=part)
        else:
            assert now[part] == value, part
