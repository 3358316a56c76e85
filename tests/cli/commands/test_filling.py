"""What `complete` writes: the same in pieces as in one, and only a piece in memory."""

import io
import json
import os
import tracemalloc
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from boolweave import BooleanMatrixFactorization, Observations
from boolweave.cli.commands import filling
from boolweave.datasets import make_boolean
from boolweave.io.write import write_matrix, write_pieces


@pytest.fixture(scope="module")
def fitted():
    planted = make_boolean(30, 12, 2, flip=0.05, observed=0.6, random_state=0).observations
    labels = {"row_labels": [f"r{i}" for i in range(30)]}
    seen = Observations.from_dense(planted.to_dense(), **labels)
    return BooleanMatrixFactorization(2, random_state=0, noise=0.05).fit(seen)


@pytest.fixture(params=[1 << 20, 30, 1])
def piece(request, monkeypatch):
    monkeypatch.setattr(filling, "ENTRIES_AT_A_TIME", request.param)
    monkeypatch.setattr("boolweave.engine.prediction.VALUES_AT_A_TIME", request.param)


@pytest.mark.usefixtures("piece")
def test_values(fitted):
    seen = fitted.observations_
    pairs = [index.ravel() for index in np.indices(seen.shape)]
    decoded = fitted.predict(*pairs).reshape(seen.shape)
    found = np.concatenate(list(filling.values(fitted, seen, denoise=True)))
    np.testing.assert_array_equal(found, decoded)
    dense = seen.to_dense()
    found = np.concatenate(list(filling.values(fitted, seen, denoise=False)))
    np.testing.assert_array_equal(found, np.where(np.isnan(dense), decoded, dense))
    found = np.concatenate(list(filling.probabilities(fitted)))
    chance = fitted.predict_proba(*pairs).reshape(seen.shape)
    np.testing.assert_allclose(found, chance, atol=1e-6)


@pytest.mark.usefixtures("piece")
def test_a_line_for_each_hole(fitted):
    seen = fitted.observations_
    m, n = np.nonzero(np.isnan(seen.to_dense()))
    found = pl.concat(filling.holes(fitted, seen))
    assert found["row"].to_list() == [f"r{i}" for i in m]
    assert found["column"].to_list() == [f"column {j + 1}" for j in n]
    assert found["value"].to_list() == fitted.predict(m, n).tolist()
    np.testing.assert_allclose(found["probability"], fitted.predict_proba(m, n), atol=1e-6)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow", "json", "npz", "png"])
def test_written_in_pieces(fitted, kind, tmp_path):
    seen, file = fitted.observations_, tmp_path / f"m.{kind}"
    write_matrix(filling.values(fitted, seen, False), seen, file, kind)
    whole = np.concatenate(list(filling.values(fitted, seen, False)))
    if kind == "npz":
        np.testing.assert_array_equal(np.load(file)["matrix"], whole)
    elif kind == "png":
        from PIL import Image

        np.testing.assert_array_equal(np.asarray(Image.open(file)), 255 * (1 - whole))
    else:
        read = {
            "csv": pl.read_csv, "parquet": pl.read_parquet, "arrow": pl.read_ipc,
            "tsv": lambda file: pl.read_csv(file, separator="\t"),
            "json": lambda file: pl.DataFrame(json.loads(file.read_text())),
        }  # fmt: skip
        table = read[kind](file)
        assert table["row"].to_list() == seen.row_labels.tolist()
        np.testing.assert_array_equal(table.drop("row").to_numpy(), whole)


def test_no_holes():
    model = BooleanMatrixFactorization(1, random_state=0).fit(np.ones((3, 2)))
    lines = pl.concat(filling.holes(model, model.observations_))
    assert lines.columns == ["row", "column", "value", "probability"] and len(lines) == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_text_takes_the_memory_of_a_piece(fitted, monkeypatch):
    """Before: the whole matrix twice, or some hundred bytes for each missing entry."""
    monkeypatch.setattr(filling, "ENTRIES_AT_A_TIME", 20_000)
    monkeypatch.setattr("boolweave.engine.prediction.VALUES_AT_A_TIME", 20_000)
    n_rows = 20_000
    model = BooleanMatrixFactorization(2, method="max-sum", max_iter=1).fit(fitted.observations_)
    nothing = np.zeros(0, dtype=np.int64)
    seen = Observations.from_triples(nothing, nothing, nothing, shape=(n_rows, 12))
    rows = np.resize(model.row_log_odds_, (n_rows, 2))
    model.result_ = replace(model.result_, observations=seen, row_log_odds=rows)
    outputs = [
        lambda: write_matrix(filling.values(model, seen, False), seen, None, "csv"),
        lambda: write_matrix(filling.probabilities(model), seen, None, "csv"),
        lambda: write_pieces(filling.holes(model, seen), None, "csv"),
    ]
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.FileIO(os.devnull, "w")))
    for write in outputs:
        write()  # what is compiled takes memory, too
        tracemalloc.start()
        write()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 * 20_000 + 200 * n_rows  # there are 240,000 entries


def test_what_cannot_be_written_in_pieces_is_refused_beforehand(fitted):
    seen = fitted.observations_
    for what, size in (("values", "360 bytes"), ("probabilities", "2.88 kB")):
        filling.check_size(seen, "csv", what, "100")
        filling.check_size(seen, "npz", what, None)
        filling.check_size(seen, "npz", what, "1MB")
        with pytest.raises(MemoryError, match=rf"as npz .* takes {size} .* write CSV"):
            filling.check_size(seen, "npz", what, "100")
    with pytest.raises(MemoryError, match=r"as parquet of .* rows × 4 columns takes"):
        filling.check_size(seen, "parquet", "both", "100")
