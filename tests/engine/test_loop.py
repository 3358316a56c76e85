"""The loop: exact on trees, invariant where it must be, and what it returns."""

from dataclasses import replace

import numpy as np
import pytest
from crashing import Noting
from engines import (
    beliefs,
    init,
    log_posterior,
    make_problem,
    pack,
    run,
    state_from_messages,
    step,
    unpack,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import even_model, random_run, random_small, run_from, smalls
from reference import log_probability, max_sum_reference
from trees import assert_same_log_odds, trees

from boolweave.datasets import make_boolean
from boolweave.engine import backend
from boolweave.engine.loop import converged
from boolweave.runtime.run import Run
from boolweave.runtime.threads import effective_jobs, threads

# ---------------------------------------------------------------- exact on trees


def last_beliefs(small, seed, damping, n_iter):
    """Beliefs after the last iteration; not those of the best iterate, which `run` returns."""
    problem = small.problem()
    state = small.state(problem, *small.random_messages(seed))
    for _ in range(n_iter):
        step(problem, state, damping)
    return beliefs(problem, state)


@settings(max_examples=60)
@given(tree=trees(), seed=st.integers(0, 99), damping=st.sampled_from([1.0, 0.4]))
def test_max_marginals_on_trees(tree, seed, damping):
    exact = tree.exact()
    assume(np.isfinite(exact.best))
    # Undamped, news travels one factor an iteration; damped, the start fades by 0.6 each time.
    n_iter = sum(tree.shape) + 3 if damping == 1 else 150
    row_belief, column_belief = last_beliefs(tree, seed, damping, n_iter)
    assert_same_log_odds(row_belief, exact.row_max)
    assert_same_log_odds(column_belief, exact.column_max)


@settings(max_examples=30)
@given(tree=trees(), seed=st.integers(0, 99))
def test_the_decoded_factors_of_a_tree_are_the_best(tree, seed):
    exact = tree.exact()
    assume(np.isfinite(exact.best))
    result = run_from(tree, tree.random_messages(seed), tol=0.0)
    assert result.log_posterior == pytest.approx(exact.best, abs=1e-7)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_missing_entries_speak_where_erasure_depends_on_the_value(seed):
    """One row and column, so that every entry may be evidence and the graph is still a tree."""
    small = random_small(seed, (1, 6, 1), share=0.4, erasure=True)
    problem = small.problem()
    assert problem.n_entries == 6
    exact = small.exact()
    row_belief, column_belief = last_beliefs(small, seed=0, damping=1.0, n_iter=10)
    np.testing.assert_allclose(row_belief, exact.row_max, atol=1e-9)
    np.testing.assert_allclose(column_belief, exact.column_max, atol=1e-9)


def test_missing_entries_are_silent_where_erasure_does_not_depend_on_the_value():
    small = random_small(0, (4, 5, 2), share=0.5)
    gone = np.full((4, 5), 0.3)
    erased = replace(
        small,
        channel={
            "one_given_zero": 0.7 * small.channel["one_given_zero"],
            "one_given_one": 0.7 * small.channel["one_given_one"],
            "missing_given_zero": gone,
            "missing_given_one": gone,
        },
    )
    plain, silent = small.problem(), erased.problem()
    assert silent.n_entries == plain.n_entries == small.observations.n_observed
    for one, other in zip(plain.blocks, silent.blocks, strict=True):
        np.testing.assert_allclose(one.evidence, other.evidence, atol=1e-12)


# ---------------------------------------------------------------- invariances


@settings(max_examples=25)
@given(small=smalls(max_side=5), damping=st.sampled_from([0.2, 0.4, 0.9]))
def test_damping_what_arrives_is_damping_what_leaves(small, damping):
    """Φ̂ of the paper, damped itself, is Ξ − Φ of the engine, whose Φ is damped."""
    messages = small.random_messages(0)
    problem = small.problem()
    state = small.state(problem, *messages)
    inside = small.evidence != 0
    scale = max(1.0, np.abs(small.evidence).max())
    for twin in max_sum_reference(
        small.evidence,
        *small.prior_log_odds,
        *messages,
        damping=damping,
        n_iter=10,
        product=small.product,
    ):
        step(problem, state, damping)
        to_row = np.zeros(small.shape)
        to_row[inside] = unpack(problem, state.messages.to_row)
        from_row = beliefs(problem, state)[0][:, None, :] - to_row
        soft = np.isfinite(twin.from_row)
        np.testing.assert_allclose(from_row[soft], twin.from_row[soft], atol=1e-11 * scale)


@settings(max_examples=25)
@given(small=smalls(), seed=st.integers(0, 99))
def test_order_of_rows_columns_and_factors_does_not_matter(small, seed):
    rng = np.random.default_rng(seed)
    rows, columns, factors = (rng.permutation(size) for size in small.shape)
    messages = small.random_messages(seed)
    shuffled = [m[rows][:, columns][:, :, factors] for m in messages]
    one = run_from(small, messages, max_iter=8)
    other = run_from(small.permuted(rows, columns, factors), shuffled, max_iter=8)
    scale = max(1.0, np.abs(small.evidence).max())
    assert other.log_posterior == pytest.approx(one.log_posterior, abs=1e-9 * scale)
    assert_close_histories(one, other)


@settings(max_examples=25)
@given(small=smalls(), seed=st.integers(0, 99))
def test_transposed_problems_have_transposed_answers(small, seed):
    to_row, to_column = small.random_messages(seed)
    flipped = small.transposed()
    turn = (1, 0, 2)
    problems = small.problem(), flipped.problem()
    states = (
        small.state(problems[0], to_row, to_column),
        flipped.state(problems[1], to_column.transpose(turn), to_row.transpose(turn)),
    )
    scale = max(1.0, np.abs(small.evidence).max())
    for _ in range(8):
        for problem, state in zip(problems, states, strict=True):
            step(problem, state, 0.4)
        one, other = map(beliefs, problems, states)
        np.testing.assert_allclose(one[0], other[1].T, atol=1e-9 * scale)
        np.testing.assert_allclose(one[1], other[0].T, atol=1e-9 * scale)


@pytest.mark.parametrize("factor", [0.01, 3.0, 10.0])
def test_with_even_priors_only_the_unit_of_evidence_changes(factor):
    planted = make_boolean(20, 25, 3, flip=0.1, observed=0.6, random_state=0)
    evidence = 1.7
    states, found = [], []
    for scale in (1.0, factor):
        model = even_model(3, 1 / (1 + np.exp(evidence * scale)))
        problem = make_problem(planted.observations, model, np.float64)
        rng = np.random.default_rng(1)
        start = [pack(problem, scale * rng.logistic(size=(problem.n_entries, 3))) for _ in range(2)]
        states.append(state_from_messages(problem, *start))
        for _ in range(40):
            step(problem, states[-1], 0.4)
        found.append(beliefs(problem, states[-1]))
    one, other = found
    close = {"rtol": 1e-6, "atol": 1e-6 * factor}
    np.testing.assert_allclose(other[0], factor * one[0], **close)
    np.testing.assert_allclose(other[1], factor * one[1], **close)
    assert states[1].residual == pytest.approx(states[0].residual, abs=1e-6)


def assert_close_histories(one, other):
    assert one.n_iter == other.n_iter
    for name, values in one.history.items():
        np.testing.assert_allclose(values, other.history[name], rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------- what a run returns


@settings(max_examples=40)
@given(small=smalls(), seed=st.integers(0, 99))
def test_log_posterior_is_that_of_the_decoded_factors(small, seed):
    result = run_from(small, small.random_messages(seed), max_iter=5)
    direct = log_probability(
        result.X, result.Y, small.row_prior, small.column_prior, small.given, small.product
    )
    if np.isfinite(direct):
        assert result.log_posterior == pytest.approx(direct, abs=1e-6)
    else:  # a certain observation is contradicted: capped, but far below all others
        assert result.log_posterior < -400


def test_the_best_iterate_is_kept_and_the_history_is_complete():
    planted = make_boolean(40, 40, 4, flip=0.25, observed=0.5, random_state=3)
    problem = make_problem(planted.observations, even_model(4, 0.25))
    state = init(problem, np.random.default_rng(0))
    told = []

    def note(*values):
        told.append((*values, *(belief.copy() for belief in beliefs(problem, state))))

    how = {"max_iter": 60, "damping": 0.9, "tol": 0.0, "run": Run(progress=Noting(note))}
    result = run(problem, state, planted.observations, **how)
    assert [values[0] for values in told] == list(range(1, 61))
    assert result.n_iter == 60
    np.testing.assert_array_equal(result.history["residual"], [values[1] for values in told])
    scores = np.array([values[2] for values in told])
    np.testing.assert_array_equal(result.history["log_posterior"], scores)
    best = np.flatnonzero(scores == scores.max())[-1]
    assert result.log_posterior == scores.max()
    np.testing.assert_array_equal(result.row_log_odds, told[best][3])
    np.testing.assert_array_equal(result.column_log_odds, told[best][4])
    # the test means something only if the last iterate is not the best
    assert scores[-1] < scores.max()


def test_a_run_ends_when_the_messages_settle():
    planted = make_boolean(30, 30, 2, flip=0.05, random_state=0)
    result = random_run(planted.observations, even_model(2, 0.05), tol=1e-3)
    assert result.converged
    assert not result.interrupted
    assert result.n_iter < 200
    residual = result.history["residual"]
    assert residual[-1] <= 1e-3
    assert (residual[:-1] > 1e-3).all()
    assert not random_run(planted.observations, even_model(2, 0.05), max_iter=2).converged


def test_a_state_can_go_on_where_it_stopped():
    planted = make_boolean(20, 20, 3, flip=0.1, random_state=0)
    problem = make_problem(planted.observations, even_model(3))
    whole, parts = (init(problem, np.random.default_rng(0)) for _ in range(2))
    run(problem, whole, planted.observations, max_iter=20, tol=0)
    run(problem, parts, planted.observations, max_iter=7, tol=0)
    run(problem, parts, planted.observations, max_iter=13, tol=0)
    assert whole.n_iter == parts.n_iter == 20
    np.testing.assert_array_equal(beliefs(problem, whole)[0], beliefs(problem, parts)[0])
    assert converged(whole, np.inf)


def test_known_bits_stay_and_show_as_infinite():
    small = random_small(5, (6, 6, 3), hard_prior=0.5)
    result = run_from(small, small.random_messages(0), max_iter=20)
    for odds, prior in (
        (result.row_log_odds, small.row_prior),
        (result.column_log_odds, small.column_prior),
    ):
        np.testing.assert_array_equal(odds == np.inf, prior == 1)
        np.testing.assert_array_equal(odds == -np.inf, prior == 0)


@pytest.mark.parametrize(
    ("shape", "flip", "observed"),
    [((100, 80, 3), 0.1, 1.0), ((120, 120, 4), 0.0, 0.5), ((80, 100, 2), 0.2, 0.8)],
)
def test_planted_factors_are_found(shape, flip, observed):
    planted = make_boolean(*shape, flip=flip, observed=observed, random_state=1)
    model = even_model(shape[2], flip or 0.01)
    best = max(
        (random_run(planted.observations, model, seed) for seed in range(4)),
        key=lambda result: result.log_posterior,
    )
    np.testing.assert_array_equal(best.Z, planted.Z)


def test_completed_keeps_what_was_seen():
    planted = make_boolean(15, 12, 2, flip=0.2, observed=0.5, random_state=0)
    result = random_run(planted.observations, even_model(2, 0.2))
    seen = planted.observations.to_dense()
    observed = ~np.isnan(seen)
    np.testing.assert_array_equal(result.completed[observed], seen[observed])
    np.testing.assert_array_equal(result.completed[~observed], result.Z[~observed])
    assert result.completed.dtype == np.uint8


# ---------------------------------------------------------------- blocks and threads


def test_blocks_cover_all_rows_whatever_the_density():
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(0, 3000, rng.integers(1, 60)) * rng.integers(0, 2)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        blocks = backend.split_rows(indptr)
        assert len(blocks) <= backend.MAX_BLOCKS
        covered = [row for start, stop in blocks for row in range(start, stop)]
        assert covered == list(range(len(counts)))


def test_log_posterior_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(backend, "MIN_BLOCK", 10)
    small = random_small(0, (30, 20, 3))
    problem = small.problem()
    state = small.state(problem, *small.random_messages(0))
    with threads(3) as pool:
        assert log_posterior(problem, state, pool) == log_posterior(problem, state)


@pytest.mark.parametrize("min_block", [1, 50, 10_000])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, min_block):
    monkeypatch.setattr(backend, "MIN_BLOCK", min_block)
    planted = make_boolean(60, 50, 4, flip=0.1, observed=0.7, random_state=0)
    one, *others = (
        random_run(planted.observations, even_model(4), n_jobs=n_jobs, max_iter=30)
        for n_jobs in (None, 1, 2, 3)
    )
    for other in others:
        np.testing.assert_array_equal(one.row_log_odds, other.row_log_odds)
        np.testing.assert_array_equal(one.column_log_odds, other.column_log_odds)
        for name, values in one.history.items():
            np.testing.assert_array_equal(values, other.history[name])


@pytest.mark.parametrize(
    ("n_jobs", "expected"), [(None, 1), (1, 1), (3, 3), (-1, 8), (-2, 7), (-8, 1), (-99, 1)]
)
def test_number_of_threads(monkeypatch, n_jobs, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(2, 10)), raising=False)
    assert effective_jobs(n_jobs) == expected
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert effective_jobs(n_jobs) == expected


def test_no_threads_at_all_is_an_error():
    with pytest.raises(ValueError, match=r"n_jobs must be a whole number .*-1 for all cores"):
        effective_jobs(0)
