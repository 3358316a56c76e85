"""All zeros of a row at once, through the estimator: what it finds, keeps, refuses and takes."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from crashing import stopped

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, select_rank
from boolweave.data.ones import SparseObservations
from boolweave.datasets import make_boolean
from boolweave.metrics import match_factors
from boolweave.report import write_report
from boolweave.report.contents import factor_facts, factor_grid

K = 4


@pytest.fixture(scope="module")
def planted():
    return make_boolean(
        200, 150, K, row_density=0.15, column_density=0.15, flip=(0.002, 0.03), random_state=0
    )


@pytest.fixture(scope="module")
def table(planted):
    return scipy.sparse.csr_array(planted.observations.to_dense())


@pytest.fixture(scope="module")
def fitted(table):
    return BooleanMatrixFactorization(K, zeros="collective", random_state=0).fit(table)


@pytest.mark.parametrize("method", ["auto", "max-sum", "sum-product"])
def test_same_answer_as_with_every_zero(planted, table, method):
    exact, found = (
        BooleanMatrixFactorization(K, zeros=zeros, method=method, n_init=3, random_state=0).fit(
            table
        )
        for zeros in ("exact", "collective")
    )
    assert (exact.result_.zeros, found.result_.zeros) == ("exact", "collective")
    np.testing.assert_array_equal(found.result_.Z, planted.Z)
    np.testing.assert_array_equal(found.components_, exact.components_)
    assert found.log_posterior_ == pytest.approx(exact.log_posterior_, rel=1e-4)
    for name in ("one_given_zero", "one_given_one"):
        assert getattr(found.noise_, name) == pytest.approx(getattr(exact.noise_, name), rel=0.02)
    counts = [model.result_.counts(model.observations_).tolist() for model in (exact, found)]
    assert counts[0] == counts[1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_small_tables_keep_every_zero(table):
    assert BooleanMatrixFactorization(2, max_iter=5).fit(table).result_.zeros == "exact"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_sparse_tables_do_not(monkeypatch, table):
    monkeypatch.setattr("boolweave.data.ones.MANY_CELLS", 1000)
    fit = BooleanMatrixFactorization(2, max_iter=5).fit
    assert fit(table).result_.zeros == "collective"
    assert fit(table.toarray()).result_.zeros == "exact"
    exact = {"product": "xor"}, {"noise": Channel(one_given_zero=np.full(table.shape, 0.1))}
    for how in exact:
        model = BooleanMatrixFactorization(2, max_iter=5, n_init=1, **how).fit(table)
        assert model.result_.zeros == "exact"


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"product": "xor"}, 'product="xor"'),
        ({"absent": "missing"}, 'absent="missing"'),
        ({"objective": "errors"}, "zeros"),
        ({"noise": Channel(one_given_zero=np.full((200, 150), 0.1))}, "from entry to entry"),
        ({"noise": Channel(0.1, 0.6, 0.1, 0.3)}, "missing entry is evidence"),
    ],
)
def test_what_is_refused(table, how, problem):
    with pytest.raises(ValueError, match=problem):
        BooleanMatrixFactorization(2, zeros="collective", **how).fit(table)
    with pytest.raises(ValueError, match="zeros"):
        BooleanMatrixFactorization(2, zeros="all").fit(table)


def test_functions_choose_the_objective(table):
    found = boolweave.factorize(table, K, zeros="collective", random_state=0)
    assert found.zeros == "collective" and found.cost is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "how",
    [
        {"noise": 0.0, "method": "max-sum"},
        {"noise": 0.0, "row_prior": 0.2, "column_prior": 0.2, "method": "sum-product"},
        {"messages": "float32"},
        {"decimation": 0.3},
        {"row_prior": 0.2, "column_prior": np.full((3, 40), 0.2)},
        {"noise": Channel(0.001, 0.5)},
    ],
)
def test_other_parameters(how):
    made = make_boolean(60, 40, 3, row_density=0.2, column_density=0.2, random_state=1)
    model = BooleanMatrixFactorization(3, zeros="collective", random_state=0, n_init=2, **how)
    model.fit(scipy.sparse.csr_array(made.Z))
    np.testing.assert_array_equal(model.result_.Z, made.Z)
    assert not np.isnan(model.row_log_odds_).any()


@pytest.mark.filterwarnings("ignore:no start found factors")
@pytest.mark.parametrize("value", [0, 1])
def test_a_constant_matrix(value):
    table = scipy.sparse.csr_array(np.full((6, 5), value))
    for n_components in (1, 2):
        model = BooleanMatrixFactorization(n_components, zeros="collective", random_state=0)
        assert (value == model.fit(table).result_.Z).all()


def test_known_entries_stay(planted, table):
    """Factors that are known are found to be what they are known to be."""
    prior = np.where(planted.X == 1, 1.0, 0.0)
    model = BooleanMatrixFactorization(K, zeros="collective", row_prior=prior, random_state=0)
    model.fit(table)
    np.testing.assert_array_equal(model.row_factors_, planted.X)
    np.testing.assert_array_equal(model.components_, planted.Y)


def test_missing_entries(planted):
    random = np.random.default_rng(0)
    holes = planted.observations.to_dense()
    holes[random.random(holes.shape) < 0.1] = np.nan
    model = BooleanMatrixFactorization(K, zeros="collective", random_state=0).fit(holes)
    assert model.observations_.n_observed == np.count_nonzero(~np.isnan(holes))
    np.testing.assert_array_equal(model.result_.Z, planted.Z)
    filled = model.result_.completed
    np.testing.assert_array_equal(filled[np.isnan(holes)], planted.Z[np.isnan(holes)])


def test_threads_files_and_checkpoints_change_nothing(table, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("boolweave.engine.backend.MIN_BLOCK", 500)
    monkeypatch.setattr("boolweave.runtime.threads.LEAST_ROWS", 64)
    first = BooleanMatrixFactorization(K, zeros="collective", random_state=0).fit(table)
    hows = {"n_jobs": 3}, {"max_memory": "2.2MB"}, {"checkpoint": tmp_path / "kept"}
    for how in hows:
        model = BooleanMatrixFactorization(K, zeros="collective", random_state=0, **how).fit(table)
        np.testing.assert_array_equal(model.row_log_odds_, first.row_log_odds_)
        np.testing.assert_array_equal(model.column_log_odds_, first.column_log_odds_)


def test_a_run_goes_on_from_its_checkpoint(table, tmp_path):
    """Stopped after some iterations, and then to the same end, bit for bit."""
    how = {"n_components": K, "zeros": "collective", "method": "sum-product", "n_init": 2}
    how |= {"random_state": 0, "max_iter": 200}
    whole = BooleanMatrixFactorization(**how).fit(table)
    for n_steps in (3, 9, 40):
        assert stopped(table, tmp_path / str(n_steps), n_steps, **how)
        resumed = BooleanMatrixFactorization(**how, checkpoint=tmp_path / str(n_steps)).fit(table)
        np.testing.assert_array_equal(resumed.row_log_odds_, whole.row_log_odds_)
        np.testing.assert_array_equal(resumed.history_["residual"], whole.history_["residual"])


def test_new_rows_have_the_same_factors(planted, table, fitted):
    exact = BooleanMatrixFactorization(K, zeros="exact", random_state=0).fit(table)
    order = match_factors(
        exact.row_factors_, exact.components_, fitted.row_factors_, fitted.components_
    )
    expected = exact.transform(table)
    np.testing.assert_array_equal(fitted.transform(table)[:, order.permutation], expected)
    np.testing.assert_array_equal(fitted.transform(table[[5]]), fitted.transform(table)[[5]])
    assert fitted.score(table) == pytest.approx(exact.score(table), abs=1e-3)
    np.testing.assert_array_equal(fitted.predict(table[:5]), exact.predict(table[:5]))
    again = BooleanMatrixFactorization(K, zeros="collective", random_state=0).fit_transform(table)
    np.testing.assert_array_equal(again, fitted.transform(table))


def test_recommended_are_no_ones(planted, table, fitted):
    dense = table.toarray()
    found = fitted.recommend(np.arange(20), n=5)
    assert (dense[np.arange(20)[:, None], found.columns] == 0).all()
    hidden = (planted.Z == 1) & (dense == 0)
    row = int(hidden.sum(axis=1).argmax())
    best = fitted.recommend([row], n=int(hidden[row].sum())).columns[0]
    assert hidden[row, best].all()
    assert fitted.explain(row, int(best[0])).observed == 0


def test_saved_and_loaded(table, fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    again = boolweave.load(tmp_path / "model.npz")
    assert again.zeros == "collective" and again.result_.zeros == "collective"
    assert isinstance(again.observations_, SparseObservations)
    assert again.observations_.fingerprint == fitted.observations_.fingerprint
    np.testing.assert_array_equal(again.transform(table), fitted.transform(table))


def test_rank(planted, table):
    found = select_rank(table, range(3, 6), zeros="collective", random_state=0)
    assert found.best == K


def test_report_samples_each_tile(fitted, tmp_path, monkeypatch):
    whole, facts = factor_grid(fitted.result_), factor_facts(fitted.result_)
    exact = BooleanMatrixFactorization(K, zeros="exact", random_state=0).fit(
        fitted.observations_.to_local()
    )
    np.testing.assert_array_equal(whole.observed, factor_grid(exact.result_).observed)
    assert [f["figures"]["precision"] for f in facts] == [
        f["figures"]["precision"] for f in factor_facts(exact.result_)
    ]
    monkeypatch.setattr("boolweave.report.grid.MOST_CELLS", 100)
    monkeypatch.setattr("boolweave.report.grid.GRID_SIDE", 40)
    grid = factor_grid(fitted.result_)
    assert grid.sampled and max(grid.observed.shape) <= 40
    assert all(tile["rows"] and tile["columns"] for tile in grid.tiles)
    write_report(fitted, tmp_path / "report.html")
    assert "a sample of the rows and columns" in (tmp_path / "report.html").read_text("utf-8")


def test_nothing_is_as_large_as_the_matrix(tmp_path):
    """200,000 × 50,000 cells, a bit each would be 1.25 GB: all of it within a fraction of that."""
    shape, n_factors = (200_000, 50_000), 2
    random = np.random.default_rng(0)
    rows, columns = [], []
    for _ in range(n_factors):
        x, y = (np.sort(random.choice(n, 60, replace=False)) for n in shape)
        rows.append(np.repeat(x, 60))
        columns.append(np.tile(y, 60))
    where = np.concatenate(rows), np.concatenate(columns)
    table = scipy.sparse.coo_array((np.ones(len(where[0])), where), shape=shape).tocsr()
    table.data[:] = 1
    tracemalloc.start()
    try:
        how = {"method": "max-sum", "max_iter": 20, "random_state": 0}
        model = BooleanMatrixFactorization(n_factors, **how).fit(table)
        counts = model.result_.counts(model.observations_)
        likely = replace(model.result_, marginal=True).counts(model.observations_)
        model.transform(table)
        model.recommend([0, 1], 3)
        model.predict([0, 1], [2, 3])
        model.save(tmp_path / "model.npz")
        boolweave.load(tmp_path / "model.npz")
        write_report(model, tmp_path / "report.html")
        select_rank(table, [2], **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.result_.zeros == "collective"
    assert counts.tolist() == likely.tolist() == [[200_000 * 50_000 - 7200, 0], [0, 7200]]
    assert peak < 400e6
