"""Files that earlier versions wrote are read, and say what they said."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from store import STOPPED, STORED, answers

import boolweave
from boolweave import BooleanMatrixFactorization, io

MODELS = sorted(STORED.glob("*/*.npz"))
CHECKPOINTS = sorted(STORED.glob("*/checkpoint"))


def assert_says_the_same(model, path):
    expected = json.loads(Path(path.parent, "answers.json").read_text())[path.stem]
    found = answers(model)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, err_msg=name)


def test_this_versions_files_are_there():
    assert (STORED / boolweave.__version__).is_dir(), "run tests/stored/store.py at a release"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: str(path.relative_to(STORED)))
def test_models(path):
    assert_says_the_same(boolweave.load(path), path)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: str(path.relative_to(STORED)))
def test_the_data_in_a_model(path):
    seen = io.read(path).observations
    assert seen.shape == (12, 9)
    assert seen.row_labels[11] == "row l" and seen.column_labels[0] == "Spalte ä"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: str(path.relative_to(STORED)))
def test_a_run_goes_on_from_a_checkpoint(path, tmp_path):
    place = shutil.copytree(path, tmp_path / "run")
    seen = io.read(path.parent / "max-sum.npz").observations
    with pytest.raises(ValueError, match="max_iter"):
        BooleanMatrixFactorization(**STOPPED | {"max_iter": 91}, checkpoint=place).fit(seen)
    model = BooleanMatrixFactorization(**STOPPED, checkpoint=place).fit(seen)
    assert_says_the_same(model, path)
    assert list(place.iterdir()) == []
