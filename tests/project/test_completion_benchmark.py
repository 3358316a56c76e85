"""The benchmark of completion: on a small table, and its parts against slow twins."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run_script_here

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    """The modules of the benchmark: methods and report."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import completion_methods
        import completion_report
    finally:
        sys.path.remove(str(BENCHMARKS))
    return completion_methods, completion_report


# ---------------------------------------------------------------- as a whole


def run(*options):
    """Each method runs in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # the benchmark sets it
        patch.delenv("BOOLWEAVE_DATA", raising=False)
        return run_script_here(BENCHMARKS / "completion.py", "--threads", 1, *options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One split of a small table by two methods: what is printed, and the file."""
    output = tmp_path_factory.mktemp("completion") / "completion.json"
    methods = ("--methods", "bias", "soft-impute")
    done = run("--only", "votes84/0.2", "--splits", "1", *methods, "--output", str(output))
    assert done.returncode == 0, done.stderr
    return done.stdout, output


def test_all_figures_of_all_methods_are_stored(measured):
    printed, output = measured
    report = json.loads(output.read_text())
    results = {result["method"]: result for result in report["results"]}
    assert sorted(results) == ["bias", "soft-impute"]
    for result in results.values():
        assert (result["n_train"], result["n_test"]) == (1314, 5254)
        assert 0.5 < result["accuracy"] < 1 and 0.5 < result["auc"] < 1
        assert 0 < result["log_loss"] < np.log(2) and 0 <= result["ece"] < 0.2
        assert 0 < result["log_loss_error"] < 0.02 and 0 < result["auc_error"] < 0.02
    # Parties vote against each other, which offsets cannot say.
    assert results["soft-impute"]["auc"] > results["bias"]["auc"] + 0.1
    assert "log-loss: soft-impute is first; AUC: soft-impute is first" in printed
    assert "MovieTweetings is left out" in printed
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    made = json.loads((output.parent / "made.json").read_text())["completion"]
    (facts,) = made.values()
    assert facts["command"].startswith("python benchmarks/completion.py --threads 1 --only votes84")
    assert str(output.parent) not in facts["command"]


def test_a_run_goes_on_where_the_last_one_stopped(measured, tmp_path):
    """What is stored stays, what failed is tried again, here with no time at all."""
    done_before = json.loads(measured[1].read_text())["results"][0]
    assert done_before["method"] == "bias"
    failed = {name: done_before[name] for name in ("data", "share", "method")}
    failed |= {"split": 1, "left_out": "failed: no reason"}
    output = tmp_path / "again.json"
    output.write_text(json.dumps({"results": [done_before, failed]}))
    only = ("--only", "votes84/0.2", "--splits", "2", "--methods", "bias")
    for _ in range(2):  # nothing is left for the second run
        done = run(*only, "--limit", "0", "--output", str(output))
        assert done.returncode == 0, done.stderr
        kept, new = json.loads(output.read_text())["results"]
        assert kept == done_before
        assert (new["left_out"], new["limit"]) == ("no answer within 0 s", 0)
    assert "split 1" not in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "votes84", "nowhere"), "no table or share is named nowhere; there are senate"),
        (("--methods", "magic"), "there is no magic; there are BooleanCompletion"),
    ],
)
def test_names_that_there_are_not(options, message):
    done = run(*options)
    assert done.returncode != 0
    assert message in done.stderr


# ---------------------------------------------------------------- who is first


def cell_of(report, figures, error):
    """A cell with log-losses by method and split."""
    results = [
        {
            "data": "votes84", "share": 0.2, "split": split, "method": method,
            "log_loss": loss, "log_loss_error": error,
        }
        for method, losses in figures.items()
        for split, loss in enumerate(losses)
    ]  # fmt: skip
    (cell,) = report.cells_of(results)
    return cell


@pytest.mark.parametrize(
    ("ours", "theirs", "error", "sign"),
    [
        ([0.30, 0.32, 0.34], [0.31, 0.33, 0.35], 0.001, "first"),
        ([0.30, 0.32, 0.34], [0.30, 0.32, 0.34], 0.001, "first"),  # a tie
        ([0.31, 0.33, 0.35], [0.30, 0.32, 0.34], 0.001, "−"),  # always behind by as much
        ([0.31, 0.33, 0.35], [0.30, 0.32, 0.34], 0.02, "~"),
        ([0.30, 0.36, 0.33], [0.33, 0.32, 0.33], 0.001, "~"),  # now better, now worse
        ([0.30, 0.36, 0.33], [0.33, 0.32, 0.33], 0.02, "≈"),
        ([0.31], [0.30], 0.02, "~"),  # one split has no differences to compare
    ],
)
def test_verdicts(benchmark, ours, theirs, error, sign):
    report = benchmark[1]
    cell = cell_of(report, {"BooleanCompletion": ours, "bias": theirs}, error)
    assert report.verdict(cell, "log_loss").sign == sign


def test_methods_that_lack_splits_are_not_compared(benchmark):
    report = benchmark[1]
    figures = {"bias": [0.5, 0.5], "myfm": [0.1]}
    cell = cell_of(report, figures, 0.01)
    assert cell.first("log_loss") == "bias"
    assert report.verdict(cell, "log_loss") is None
    assert (
        report.verdict(cell_of(report, figures | {"BooleanCompletion": [0.1]}, 0.01), "log_loss")
        is None
    )


# ---------------------------------------------------------------- methods of its own


def entries_of(methods, seed, shape=(30, 20), n=400):
    random = np.random.default_rng(seed)
    where = random.choice(shape[0] * shape[1], n, replace=False)
    logits = random.standard_normal(shape[0])[:, None] * random.standard_normal(shape[1])
    values = (random.random(shape) < 1 / (1 + np.exp(-3 * logits))).ravel()[where]
    rows, columns = np.divmod(where, shape[1])
    return methods.Entries(shape, rows, columns, values.astype(np.uint8))


@pytest.mark.parametrize("threshold", [3.0, 6.0, 1e3])
def test_soft_impute_against_full_singular_values(benchmark, threshold):
    methods = benchmark[0]
    entries = entries_of(methods, 0)
    left = 2.0 * entries.values - 1
    Z = np.zeros(entries.shape)
    for _ in range(2000):
        Z[entries.rows, entries.columns] = left
        U, d, V = np.linalg.svd(Z, full_matrices=False)
        Z = U * np.maximum(d - threshold, 0) @ V
    found = methods.nothing(entries)
    for _ in range(20):  # each goes on from the last, which had stopped at a small change
        found = methods.thresholded(entries, left, threshold, found)
    assert np.allclose(found.U * found.d @ found.V.T, Z, atol=0.02)


def test_offsets_solve_the_ridge_regression(benchmark):
    methods = benchmark[0]
    entries = entries_of(methods, 1)
    (M, N), n = entries.shape, len(entries.values)
    design = np.zeros((n, M + N))
    design[np.arange(n), entries.rows] = design[np.arange(n), M + entries.columns] = 1
    signs = 2.0 * entries.values - 1
    strength = 3.0
    right = design.T @ (signs - signs.mean())
    solved = np.linalg.solve(design.T @ design + strength * np.eye(M + N), right)
    found = methods.offsets(entries, strength)(entries.rows, entries.columns)
    assert np.allclose(found, signs.mean() + design @ solved, atol=1e-3)


def test_platt_against_logistic_regression(benchmark):
    from sklearn.linear_model import LogisticRegression

    methods = benchmark[0]
    random = np.random.default_rng(0)
    score = 5 + 2 * random.standard_normal(3000)
    values = (random.random(3000) < 1 / (1 + np.exp(4 - score))).astype(np.uint8)
    twin = LogisticRegression(C=1e6).fit(score[:, None], values)
    slope, shift = methods.platt(score, values)
    assert np.allclose((slope, shift), (twin.coef_[0, 0], twin.intercept_[0]), rtol=0.01)
    # A score that is worse than none is not turned round.
    assert methods.platt(-score, values)[0] == 0


def test_folds_hold_out_enough(benchmark):
    methods = benchmark[0]
    for n, expected in ((100, 5), (1500, 4), (20_000, 1)):
        entries = entries_of(methods, 0, (200, 150), n)
        parts = methods.folds(entries, 0)
        assert len(parts) == expected
        for kept, held_out in parts:
            assert len(kept.values) + len(held_out.values) == n
            assert abs(len(held_out.values) - n / 10) < 1


@pytest.mark.parametrize("ones", [40, 300])
def test_standard_error_of_the_area(ones, monkeypatch):
    """Hanley and McNeil's formula beside areas of many draws of exponential scores, its case."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from completion import area_error

    random = np.random.default_rng(0)
    of_ones, of_zeros = random.exponential(3, (400, ones)), random.exponential(1, (400, 400 - ones))
    areas = (of_ones[:, :, None] > of_zeros[:, None]).mean(axis=(1, 2))
    assert areas.mean() == pytest.approx(0.75, abs=0.01)
    assert area_error(0.75, ones, 400 - ones) == pytest.approx(areas.std(), rel=0.12)
