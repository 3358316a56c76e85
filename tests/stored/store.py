"""Writes models and a checkpoint of this version into a folder of its own, for later ones to read.

    python tests/stored/store.py

Run it at a release. test_stored.py reads what every version wrote, and holds the answers of the
models, and of the run that goes on from the checkpoint, against those that are stored beside them
in answers.json.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, Observations
from boolweave.datasets import make_boolean

STORED = Path(__file__).parent

# Between them they have every kind of parameter that a file can hold.
MODELS: dict[str, dict[str, Any]] = {
    "chosen-rank": {},
    "max-sum": {"n_components": 2, "method": "max-sum", "noise": 0.1},
    "xor": {"n_components": 2, "product": "xor", "row_prior": [0.4, 0.3], "n_init": 3},
    "channel": {
        "n_components": 2,
        "method": "sum-product",
        "noise": Channel(one_given_zero=0.05, one_given_one=np.linspace(0.8, 0.95, 9)[None, :]),
        "decimation": 0.5,
    },
    "fewest-errors": {
        "n_components": 2,
        "objective": "errors",
        "false_one_weight": 2.0,
        "n_init": 1,
        "max_time": 1000.0,
    },
}

# A run that is stopped after some steps, on the table of the model "max-sum".
STOPPED = {"n_components": 2, "max_iter": 90, "random_state": 0, "n_init": 3}
N_STEPS = 27


def labelled(product: str) -> Observations:
    """A table of 12 rows and 9 columns with labels and holes."""
    planted = make_boolean(12, 9, 2, flip=0.05, observed=0.8, product=product, random_state=7)
    return Observations.from_dense(
        planted.observations.to_dense(),
        row_labels=[f"row {letter}" for letter in "abcdefghijkl"],
        column_labels=[f"Spalte {letter}" for letter in "äbcdefghi"],
    )


def answers(model: BooleanMatrixFactorization) -> dict[str, Any]:
    """What a model says, as lists and numbers."""
    recommended = model.recommend(["row a", "row l"], n=1)
    errors = {} if model.error_ is None else {"redundancy": model.redundancy_.tolist()}
    return {
        **errors,
        "components": model.components_.tolist(),
        "log_posterior": float(model.log_posterior_),
        "probabilities": model.predict_proba(np.arange(9), np.arange(9)).tolist(),
        "latent": model.predict_proba(np.arange(9), np.arange(9), kind="latent").tolist(),
        "recommended": recommended.probabilities.tolist(),
        "transformed": model.transform(model.observations_).tolist(),
    }


def main() -> None:
    place = STORED / boolweave.__version__
    if place.exists():
        sys.exit(f"{place} is there already; files of a version are written once")
    place.mkdir()
    warnings.simplefilter("ignore")  # so small a table may not converge
    said = {}
    for name, parameters in MODELS.items():
        model = BooleanMatrixFactorization(random_state=0, **parameters)
        model.fit(labelled(parameters.get("product", "or"))).save(place / f"{name}.npz")
        said[name] = answers(model)
    sys.path.insert(0, str(STORED.parent / "support"))
    from crashing import stopped

    stopped(labelled("or"), place / "checkpoint", N_STEPS, **STOPPED)
    said["checkpoint"] = answers(BooleanMatrixFactorization(**STOPPED).fit(labelled("or")))
    (place / "answers.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
