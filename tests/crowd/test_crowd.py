"""The consensus of a crowd: the exact posterior at its rates, simulated workers, kinds of input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from boolweave.crowd import consensus


def simulated(seed=0, n_tasks=300, n_workers=40, per_task=6, prevalence=0.4):
    random = np.random.default_rng(seed)
    truth = (random.random(n_tasks) < prevalence).astype(int)
    rates = random.beta(4, 2, (2, n_workers))
    answers = [
        (task, f"w{worker}", int(random.random() < (rates[1] if z else 1 - rates[0])[worker]))
        for task, z in enumerate(truth)
        for worker in random.choice(n_workers, per_task, replace=False)
    ]
    return truth, rates, answers


def test_probabilities_are_those_of_the_rates():
    _, _, answers = simulated()
    found = consensus(answers)
    odds = {task: np.log(found.prevalence / (1 - found.prevalence)) for task in found.tasks}
    position = {worker: j for j, worker in enumerate(found.workers)}
    for task, worker, answer in answers:
        one, zero = found.sensitivity[position[worker]], 1 - found.specificity[position[worker]]
        odds[task] += np.log(one / zero) if answer else np.log((1 - one) / (1 - zero))
    expected = 1 / (1 + np.exp(-np.array(list(odds.values()))))
    np.testing.assert_allclose(found.probabilities, expected, atol=0.02)


def test_labels_are_better_than_those_of_the_majority():
    right = []
    for seed in range(5):
        truth, rates, answers = simulated(seed)
        votes = np.zeros((len(truth), 2))
        for task, _, answer in answers:
            votes[task, answer] += 1
        found = consensus(answers)
        names = [int(name[1:]) for name in found.workers]
        assert np.abs(found.sensitivity - rates[1][names]).mean() < 0.15
        right.append((np.mean(found.labels == truth), np.mean(votes.argmax(axis=1) == truth)))
    ours, majority = np.mean(right, axis=0)
    assert ours > majority + 0.02


def test_a_worker_who_says_the_opposite_counts_in_reverse():
    truth, _, answers = simulated(1, per_task=12)
    turned = [(t, w, 1 - a if w in ("w1", "w2", "w3") else a) for t, w, a in answers]
    found = consensus(turned)
    assert np.mean(found.labels == truth) > 0.9
    assert found.sensitivity[found.workers.tolist().index("w1")] < 0.5


@pytest.mark.parametrize("library", [pd, pl])
def test_tables_of_any_library_and_any_two_words(library):
    _, _, answers = simulated(2, n_tasks=40)
    tasks, workers, values = zip(*answers, strict=True)
    words = ["yes" if value else "no" for value in values]
    table = library.DataFrame({"worker": workers, "Label": words, "task": tasks, "when": words})
    plain, found = consensus(answers), consensus(table)
    assert found.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(found.probabilities, plain.probabilities)
    assert isinstance(found.task_table, library.DataFrame)
    assert list(found.worker_table.columns) == ["worker", "answers", "sensitivity", "specificity"]
    assert int(found.worker_table["answers"].sum()) == len(answers)
    assert repr(found) == "Consensus(40 tasks, 40 workers)"


def test_missing_answers_are_left_out_and_repeated_ones_merged():
    answers = [(t, w, t % 2) for t in range(10) for w in "abc"]
    more = [*answers, (99, "a", None), (98, "b", float("nan")), (0, "a", 0), (0, "a", 1)]
    found = consensus(more)
    assert len(found.tasks) == 10
    np.testing.assert_array_equal(found.labels.astype(int), np.arange(10) % 2)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "got no answer"),
        ([(1, "a", None)], "got no answer"),
        ([(1, "a", 1)], "expected two different answers, got 1"),
        ([(1, "a", 1), (2, "a", 2), (3, "a", 3)], "expected two different answers, got 3"),
        ([(1, "a")], "expected a table, or triples"),
        (5, "expected a table, or triples"),
        ("abc", "expected a table, or triples"),
        (pl.DataFrame({"task": [1], "worker": [2]}), "got 2 columns"),
    ],
)
def test_other_input_is_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        consensus(answers)
