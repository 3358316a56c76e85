"""Model files of every estimator, altered and sealed again: they are refused, or they behave."""

from __future__ import annotations

import functools
import io as stdio
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse
from altering import arrays_of
from completions import model_of, random_ensemble, random_observations
from fuzzing import exchanged
from good_files import models
from verdicts import Wrong, expect_numbers, expect_probabilities

import boolweave
from boolweave import BooleanCompletion, BooleanMatrixFactorization, Observations
from boolweave.io import FileError
from boolweave.report.page import render_report
from boolweave.runtime.archives import write_arrays


@functools.cache
def good_files():
    """The arrays of the files of fitted models of every kind, by name."""
    rng = np.random.default_rng(0)
    table = np.kron(np.eye(2), np.ones((4, 4)))
    table[rng.random(table.shape) < 0.2] = np.nan
    seen = Observations.from_dense(
        table, row_labels=[f"r{i}" for i in range(8)], column_labels=list("abcdefgh")
    )
    ratings = np.where(np.isnan(table), np.nan, 2 * table + rng.integers(1, 3, table.shape))
    quick = {"n_members": 2, "random_state": 0}
    fits = {
        "errors": lambda: BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(
            seen
        ),
        "rank": lambda: BooleanMatrixFactorization(random_state=0, max_iter=20).fit(table),
        "zeros": lambda: BooleanMatrixFactorization(2, zeros="collective", random_state=0).fit(
            scipy.sparse.csr_array(np.nan_to_num(table))
        ),
        "pattern": lambda: model_of(
            random_ensemble(6, (4, 5), n_pattern=2), random_observations(1, (4, 5)), random_state=0
        ),
        "completion": lambda: BooleanCompletion(**quick).fit(seen),
        "layers": lambda: BooleanCompletion(2, 1, n_directions=1, **quick).fit(seen),
        "offsets": lambda: BooleanCompletion(n_layers=0, n_directions=0, **quick).fit(table),
        "ratings": lambda: BooleanCompletion(n_layers=0, **quick).fit(seen, ratings=ratings),
        "features": lambda: BooleanCompletion(n_directions=1, **quick).fit(
            table, row_features=rng.normal(size=(8, 2)), sample_weight=np.arange(1.0, 9.0)
        ),
    }
    files = [content for _, content in models()]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fit in fits.values():
            path = Path(folder) / "model.npz"
            fit().save(path)
            files.append(path.read_bytes())
    names = ["plain", "labels", "xor", "auto", *fits]
    return {
        name: arrays_of(stdio.BytesIO(content)) for name, content in zip(names, files, strict=True)
    }


def use_every_method(model, dice):
    """Call everything that a fitted model offers; raise `Wrong` for what is no probability."""
    seen = model.observations_
    rows, columns = (axis.ravel() for axis in np.indices(seen.shape))
    expect_probabilities(model.predict_proba(rows, columns), "predict_proba")
    if not np.isin(model.predict(rows, columns), (0, 1)).all():
        raise Wrong("predict: not 0 or 1")
    model.get_feature_names_out()
    repr(model)
    what = dice.randrange(7)
    if what == 0:
        expect_numbers(model.transform(seen), "transform")
    elif what == 1:
        model.recommend(rows[:2], 2, why=True)
    elif what == 2:
        str(model.explain(int(rows[0]), int(columns[-1])))
    elif what == 3:
        expect_probabilities(model.score(seen), "score")
    elif what == 4:
        model.save("again.npz")
        boolweave.load("again.npz")
    elif what == 5 and dice.random() < 0.3:
        render_report(model)
    elif isinstance(model, BooleanCompletion):
        for end in model.predict_interval(rows, columns):
            expect_probabilities(end, "predict_interval")
        expect_numbers(model.row_bias_, "row_bias_")
        str(model.selection_)
    else:
        model.inverse_transform(model.row_factors_)
        model.members(full=True)
        expect_numbers(model.row_log_odds_, "row_log_odds_")


def case(dice):
    """One altered file: read, and used."""
    kind = dice.choice(list(good_files()))
    arrays, changes = exchanged(good_files()[kind], dice)

    def run():
        path = Path("model.npz")
        with open(path, "wb") as file:
            try:
                write_arrays(file, arrays)
            except (ValueError, TypeError):  # such an array cannot be written
                return
        try:
            model = boolweave.load(path)
        except FileError as error:
            if "\n" in str(error) or "model.npz" not in str(error):
                raise Wrong(f"not one line that names the file: {error}") from error
            raise
        finally:
            os.unlink(path)
        use_every_method(model, dice)

    return f"{kind} {changes}", run
