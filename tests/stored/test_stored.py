"""Files that earlier versions wrote are read, and say what they said."""

import json
from pathlib import Path

import numpy as np
import pytest
from store import STORED, answers

import boolweave
from boolweave import io

MODELS = sorted(path for path in STORED.glob("*/*.npz"))


def test_this_versions_files_are_there():
    assert (STORED / boolweave.__version__).is_dir(), "run tests/stored/store.py at a release"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: str(path.relative_to(STORED)))
def test_models(path):
    expected = json.loads(Path(path.parent, "answers.json").read_text())[path.stem]
    found = answers(boolweave.load(path))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: str(path.relative_to(STORED)))
def test_the_data_in_a_model(path):
    seen = io.read(path).observations
    assert seen.shape == (12, 9)
    assert seen.row_labels[11] == "row l" and seen.column_labels[0] == "Spalte ä"
