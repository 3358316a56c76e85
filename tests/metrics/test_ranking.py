"""Measures of rankings against brute force over all orders of ties, and scikit-learn."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as peer

from boolweave import metrics


def slow_measures(ones, n):
    """Precision, recall, nDCG and average precision of one row, its ones in the order shown."""
    top, total = ones[:n], sum(ones)
    gains = [one / math.log2(place + 1) for place, one in enumerate(top, start=1)]
    best = [1 / math.log2(place + 1) for place in range(1, min(total, n) + 1)]
    precisions = [sum(top[: i + 1]) / (i + 1) for i in range(len(top)) if top[i]]
    return (
        sum(top) / len(top),
        sum(top) / total,
        sum(gains) / sum(best),
        sum(precisions) / min(total, n),
    )


def slow_scores(rows, y, p, n):
    """Means over rows with a one, of means over all orders of a row that its scores allow."""
    means = []
    for row in sorted(set(rows)):
        entries = [(score, one) for r, one, score in zip(rows, y, p, strict=True) if r == row]
        if not any(one for _, one in entries):
            continue
        allowed = [
            slow_measures([one for _, one in order], n)
            for order in itertools.permutations(entries)
            if all(a[0] >= b[0] for a, b in itertools.pairwise(order))
        ]
        means.append(np.mean(allowed, axis=0))
    return (*np.mean(means, axis=0), len(means))


@st.composite
def held_out(draw):
    entry = st.tuples(
        st.integers(0, 3), st.integers(0, 1), st.sampled_from([-0.5, 0.0, 0.1, 0.5, 2.0])
    )
    entries = draw(st.lists(entry, min_size=1, max_size=8))
    return [*entries, (draw(st.integers(0, 3)), 1, 0.5)]


@settings(max_examples=60, deadline=None)
@given(held_out(), st.integers(1, 6))
def test_against_every_order_of_ties(entries, n):
    # Six entries have 720 orders.
    kept = [e for row in range(4) for e in [x for x in entries if x[0] == row][-6:]]
    rows, y, p = (list(part) for part in zip(*kept, strict=True))
    assert metrics.ranking_scores(rows, y, p, n) == pytest.approx(slow_scores(rows, y, p, n))


def test_each_function_is_one_field():
    rng = np.random.default_rng(0)
    rows, y, p = rng.integers(0, 20, 300), rng.integers(0, 2, 300), rng.random(300).round(1)
    found = metrics.ranking_scores(rows, y, p, 4)
    assert metrics.precision_at_n(rows, y, p, 4) == found.precision
    assert metrics.recall_at_n(rows, y, p, 4) == found.recall
    assert metrics.ndcg_at_n(rows, y, p, 4) == found.ndcg
    assert metrics.average_precision_at_n(rows, y, p, 4) == found.average_precision
    assert len(set(found[:4])) == 4


def test_ndcg_and_average_precision_agree_with_scikit_learn():
    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 2, (30, 12)), rng.random((30, 12)).round(1)
    y[:, 0] = 1
    rows = np.repeat(np.arange(30), 12)
    ours = metrics.ndcg_at_n(rows, y.ravel(), p.ravel(), n=5)
    assert ours == pytest.approx(peer.ndcg_score(y, p, k=5))  # averages over ties, too
    p = rng.random((30, 12))
    theirs = [peer.average_precision_score(*pair) for pair in zip(y, p, strict=True)]
    ours = metrics.average_precision_at_n(rows, y.ravel(), p.ravel(), n=12)
    assert ours == pytest.approx(np.mean(theirs))


def test_order_of_entries_and_names_of_rows_do_not_matter():
    rng = np.random.default_rng(2)
    rows, y, p = rng.integers(0, 9, 200), rng.integers(0, 2, 200), rng.random(200).round(1)
    found = metrics.ranking_scores(rows, y, p)
    order = rng.permutation(200)
    assert metrics.ranking_scores(rows[order], y[order], p[order]) == pytest.approx(found)
    names = np.array(list("jihgfedcb"))[rows]
    assert metrics.ranking_scores(names, y, p) == pytest.approx(found)
    assert metrics.ranking_scores(names.astype(object), y, p) == pytest.approx(found)
    assert metrics.ranking_scores(rows, y == 1, 1000 * p - 300) == pytest.approx(found)


def test_a_perfect_order_and_a_constant():
    rows, y = [7] * 10, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert metrics.ranking_scores(rows, y, y, n=2) == (1, 1, 1, 1, 1)
    constant = metrics.ranking_scores(rows, y, [0.5] * 10, n=5)
    assert constant[:2] == pytest.approx((0.2, 0.5))
    worst = metrics.ranking_scores(rows, y, [-x for x in y], n=8)
    assert worst == (0, 0, 0, 0, 1)


def test_infinite_scores_have_an_order():
    assert metrics.recall_at_n([0, 0], [1, 0], [np.inf, -np.inf], n=1) == 1


def test_a_million_entries_as_row_by_row():
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 50_000, 1_000_000)
    y, p = rng.integers(0, 2, 1_000_000), rng.random(1_000_000).astype(np.float32)
    found = metrics.ranking_scores(rows, y, p)
    some = rows < 100
    part = metrics.ranking_scores(rows[some], y[some], p[some])
    slow = []
    for row in range(100):
        mine = np.flatnonzero(rows == row)
        slow.append(slow_measures(y[mine][np.argsort(-p[mine])].tolist(), 10))
    assert part[:4] == pytest.approx(np.mean(slow, axis=0))
    assert found.precision == pytest.approx(0.5, abs=0.01)
    assert found.n_rows == len(np.unique(rows[y == 1]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0, 0], [1, 0], [0.5]), r"same shape, got \(2,\) and \(1,\)"),
        (([0], [1, 0], [0.5, 0.5]), r"one row for each of the 2 entries, got shape \(1,\)"),
        (([0.5, 1], [1, 0], [0.5, 0.5]), "whole numbers or labels, got float64"),
        (([None, "a"], [1, 0], [0.5, 0.5]), "whole numbers or labels, got object"),
        (([0, 0], [1, 2], [0.5, 0.5]), "only 0 and 1, got 2"),
        (([0, 0], [1, 0], [0.5, np.nan]), "got nan at entry 1"),
        (([0, 0], [0, 0], [0.5, 0.5]), "at least one 1, got none"),
        (([], [], []), "at least one entry"),
        (([0], [1], [0.5], 0), "n must be a whole number >= 1, got 0"),
        (([0], [1], [0.5], 2.5), "n must be a whole number >= 1, got 2.5"),
        (([0], [1], [0.5], True), "n must be a whole number >= 1, got True"),
    ],
)
def test_bad_input_of_rankings(arguments, words):
    with pytest.raises(ValueError, match=words):
        metrics.ranking_scores(*arguments)
