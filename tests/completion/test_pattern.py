"""Which entries were seen, as features of rows and columns."""

import numpy as np
import pytest

from boolweave import BooleanCompletion, load
from boolweave.completion import table as features
from boolweave.completion.chain import FREE, PRIOR_LINES, PRIOR_VARIANCE, SMALL, Chain
from boolweave.completion.ensemble import Structure
from boolweave.completion.table import ABOVE_CHANCE, Pattern, Table, pattern_of
from boolweave.data.observations import Observations

WITH_PATTERN = Structure(2, pattern=True)


def grouped(n_rows=120, n_columns=600, seed=0, liked=(0.85, 0.25)):
    """Rows see mostly the columns of their own half; the columns of one half are mostly ones."""
    rng = np.random.default_rng(seed)
    of_row, of_column = np.arange(n_rows) % 2, np.arange(n_columns) % 2
    chance = np.where(of_row[:, None] == of_column, 0.07, 0.01)
    values = (rng.random((n_rows, n_columns)) < np.array(liked)[of_column]).astype(float)
    values[rng.random(values.shape) > chance] = np.nan
    return values


def block_mask():
    """A table with clear blocks of seen entries, and two empty lines."""
    rng = np.random.default_rng(1)
    values = np.full((82, 81), np.nan)
    chance = np.where(np.add.outer(np.arange(80), np.arange(80)) % 2, 0.6, 0.2)
    values[1:81, :80] = np.where(rng.random((80, 80)) < chance, 1.0, np.nan)
    return Observations.from_dense(values)


def dense_pattern(values, n_features):
    """Singular values and features by the full decomposition of a dense array without holes."""
    mask = (~np.isnan(values)).astype(float)
    counts = mask.sum(axis=1), mask.sum(axis=0)
    scales = [1 / np.sqrt(count + count.mean()) for count in counts]
    u, s, v = np.linalg.svd(scales[0][:, None] * mask * scales[1])
    sides = []
    for vectors in (u.T, v):
        side = vectors[1 : n_features + 1].T * s[1 : n_features + 1]
        side = side - side.mean(axis=0)
        sides.append(side / np.sqrt(np.mean(side**2)))
    return s, sides


def test_features_are_those_of_the_full_decomposition():
    seen = block_mask()
    pattern = pattern_of(seen)
    assert pattern.n_features >= 1
    dense = seen.to_dense()[1:81, :80]
    values, sides = dense_pattern(dense, pattern.n_features)
    for found, expected in ((pattern.rows[1:81], sides[0]), (pattern.columns[:80], sides[1])):
        sign = np.sign((found * expected).sum(axis=0))
        np.testing.assert_allclose(found, sign * expected, atol=1e-6)
    shuffled = np.array([np.random.default_rng(2).permutation(row) for row in dense])
    by_chance, _ = dense_pattern(shuffled, 1)
    above = np.sum(values[1:] > ABOVE_CHANCE * by_chance[1])
    assert abs(pattern.n_features - above) <= 1
    groups = np.arange(80) % 2
    assert abs(np.corrcoef(pattern.rows[1:81, 0], groups)[0, 1]) > 0.95


def test_lines_without_entries_have_no_features_and_change_nothing():
    seen = block_mask()
    whole = pattern_of(seen)
    bare = pattern_of(Observations.from_dense(seen.to_dense()[1:81, :80]))
    np.testing.assert_array_equal(whole.rows[1:81], bare.rows)
    np.testing.assert_array_equal(whole.columns[:80], bare.columns)
    assert not whole.rows[[0, 81]].any() and not whole.columns[80].any()


def test_new_rows_have_the_features_that_the_same_rows_of_the_table_have():
    seen = block_mask()
    pattern = pattern_of(seen)
    np.testing.assert_allclose(pattern.of_rows(seen), pattern.rows, atol=1e-12)
    one = pattern.of_rows(seen.take_rows([5]))
    np.testing.assert_allclose(one, pattern.rows[[5]], atol=1e-12)


@pytest.mark.parametrize("shape", [(100, 90), (400, 60)])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.95, 1.0])
def test_a_random_pattern_has_no_features(shape, share):
    rng = np.random.default_rng(3)
    active, popular = (rng.lognormal(0, 0.4 * (1 - share), n) for n in shape)
    chance = share * np.outer(active / active.mean(), popular / popular.mean())
    values = np.where(rng.random(shape) < chance, 1.0, np.nan)
    assert pattern_of(Observations.from_dense(values)).n_features == 0


def test_small_tables_have_no_features(monkeypatch):
    seen = Observations.from_dense(grouped(40, 100))
    assert pattern_of(seen).n_features == 0
    monkeypatch.setattr(features, "LEAST_ENTRIES", 1)
    assert pattern_of(seen).n_features >= 1


def slow_learn(side, known, n_pattern, constant, random):
    """Coefficients and variances, one direction after another."""
    lines, n_features = side.lines, known.shape[1]
    last = lines.shape[1] - 1
    squares = (side.coefficients[n_features - n_pattern :] ** 2).sum(axis=0)
    drawn = random.gamma((2.0 + n_pattern) / 2, size=last + 1)
    of_pattern = (2.0 * 0.1 + squares) / 2 / drawn
    coefficients = side.coefficients.copy()
    for d in range(last + 1):
        used = [
            i
            for i in range(n_features)
            if i >= 2 or (d == last and (i == 1 or constant is not None))
        ]
        prior = [
            of_pattern[d] if i >= n_features - n_pattern else constant if i == 0 else SMALL
            for i in used
        ]
        x = known[:, used]
        covariance = np.linalg.inv(x.T @ x / side.variance[d] + np.diag(1 / np.array(prior)))
        mean = covariance @ x.T @ lines[:, d] / side.variance[d]
        root = np.linalg.cholesky(np.linalg.inv(covariance))
        noise = random.normal(size=len(used))
        coefficients[used, d] = mean + np.linalg.inv(root).T @ noise
    gaps = lines - known @ coefficients
    scale = (PRIOR_LINES * PRIOR_VARIANCE + (gaps**2).sum(axis=0)) / 2
    return coefficients, scale / random.gamma((PRIOR_LINES + len(lines)) / 2, size=last + 1)


@pytest.mark.parametrize("constant", [FREE, None])
def test_coefficients_as_drawn_one_by_one(constant):
    rng = np.random.default_rng(4)
    given = rng.normal(size=(120, 1))
    table = Table.of(Observations.from_dense(grouped()), row_features=given)
    chain = Chain.start(table, WITH_PATTERN, np.random.default_rng(5))
    for _ in range(3):
        chain.sweep()
    known, n_pattern = chain.features[0], table.pattern.n_features
    assert known.n_pattern == n_pattern >= 1 and known.n_features == 3 + n_pattern
    expected = slow_learn(chain.rows, known.here, n_pattern, constant, np.random.default_rng(6))
    chain.rows.learn(known, constant, np.random.default_rng(6))
    np.testing.assert_allclose(chain.rows.coefficients, expected[0], atol=1e-8)
    np.testing.assert_allclose(chain.rows.variance, expected[1], rtol=1e-8)


def test_a_chain_goes_on_with_another_pattern():
    """A draw of a part of the table has coefficients of other singular vectors."""
    table = Table.of(Observations.from_dense(grouped()))
    part = table.part(np.random.default_rng(0).random(table.n_entries) < 0.9)
    chain = Chain.start(part, WITH_PATTERN, np.random.default_rng(0))
    for _ in range(5):
        chain.sweep()
    draw = chain.draw()
    draw.columns.coefficients[2:] = 1e6  # of another basis, and so of no use
    resumed = Chain.resume(table, WITH_PATTERN, draw, np.random.default_rng(1))
    assert resumed.rows.coefficients.shape == (2 + table.pattern.n_features, 3)
    np.testing.assert_array_equal(resumed.columns.variance, draw.columns.variance)
    assert np.abs(resumed.columns.coefficients[2:]).max() < 10
    member = resumed.member(3, 4)
    assert np.isfinite(member.rows).all() and np.abs(member.columns).max() < 100


@pytest.fixture(scope="module")
def fitted():
    values = grouped()
    seen = Observations.from_dense(values, column_labels=[f"film {n}" for n in range(600)])
    model = BooleanCompletion(n_directions=0, n_layers=0, n_members=4, random_state=0)
    return model.fit(seen)


def expected_loss(model):
    """The mean log-loss at all pairs, given the chances that were planted."""
    m, n = np.divmod(np.arange(120 * 600), 600)
    chance, p = np.array([0.85, 0.25])[n % 2], model.predict_proba(m, n)
    return -np.mean(chance * np.log(p) + (1 - chance) * np.log(1 - p))


def test_a_fit_uses_the_pattern_where_it_helps(fitted, monkeypatch):
    assert [family.structure.pattern for family in fitted.ensemble_.families] == [True]
    assert {line["model"] for line in fitted.selection_} >= {"offsets", "offsets + pattern"}
    nothing = Pattern(np.zeros((120, 0)), np.zeros((600, 0)), np.zeros((600, 0)), np.zeros(0), 1.0)
    monkeypatch.setattr("boolweave.completion.table.pattern_of", lambda *_: nothing)
    without = BooleanCompletion(**fitted.get_params()).fit(fitted.observations_)
    assert without.ensemble_.pattern is None
    assert expected_loss(fitted) < expected_loss(without) - 0.01


def test_a_pattern_that_says_nothing_is_not_used():
    seen = Observations.from_dense(grouped(liked=(0.5, 0.5)))
    model = BooleanCompletion(n_layers=0, n_directions=0, n_members=2, random_state=0).fit(seen)
    assert any("pattern" in line["model"] for line in model.selection_)
    assert model.ensemble_.pattern is None


def test_files(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    m, n = np.divmod(np.arange(0, 72_000, 7), 600)
    np.testing.assert_array_equal(again.predict_proba(m, n), fitted.predict_proba(m, n))
    new = np.full((1, 600), np.nan)
    new[0, :20:2] = 0
    np.testing.assert_array_equal(again.transform(new), fitted.transform(new))


def test_new_rows_are_told_apart_by_what_they_have_seen(fitted):
    """A column known only by its rows; and a row of the table, as if it were new."""
    model = fitted
    new = model._folding.fold_in(model.observations_)
    np.testing.assert_allclose(new.pattern.rows, model.ensemble_.pattern.rows, atol=1e-12)
    m, n = np.divmod(np.arange(0, 72_000, 7), 600)
    gaps = new.probabilities(m, n) - model.ensemble_.probabilities(m, n)
    assert np.abs(gaps).mean() < 0.03


def test_partial_fit_goes_on_with_the_pattern_of_all_entries(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    model = load(tmp_path / "model.npz")
    more = np.full((130, 600), np.nan)
    more[120:] = grouped(seed=7)[:10]
    model.partial_fit(
        Observations.from_dense(more, column_labels=model.observations_.column_labels)
    )
    assert model.ensemble_.pattern.rows.shape[0] == 130
    assert model.ensemble_.families[0].structure.pattern
    chance = model.predict_proba(np.full(600, 125), np.arange(600))
    assert chance[::2].mean() > chance[1::2].mean() + 0.3


def test_the_pattern_is_a_reason_of_its_own(fitted):
    model = fitted
    found = model.explain(3, 4)
    kinds = [part.kind for part in found.parts]
    assert kinds[:4] == ["base", "row", "column", "pattern"]
    assert sum(part.log_odds for part in found.parts) == pytest.approx(found.log_odds)
    part = found.parts[3]
    assert part.log_odds > 0.1  # films of this half are mostly liked
    assert part.sentence.startswith(f"{part.log_odds:+.2f} pattern: which columns row 4 has")
    assert "film 4 has entries in" in part.sentence
    # by one member, the share is that of the mean which the features predict
    member, pattern = model.members_[0], model.ensemble_.pattern
    of_column = pattern.columns[4] @ member.priors[2][2:, -1]
    of_row = pattern.rows[3] @ member.priors[0][2:, -1]
    assert np.sign(of_column + of_row) == 1
