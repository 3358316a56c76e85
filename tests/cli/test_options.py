"""Groups of options: what they are named after, and how typer sees them."""

import inspect
import typing
from dataclasses import fields

import pytest

from boolweave import BooleanMatrixFactorization
from boolweave.cli.common import _for_the_shell
from boolweave.cli.options import Fitting, ReadingOptions, Writing, grouped, number_or_word


def test_options_of_a_fit_are_parameters_of_the_estimator():
    defaults = BooleanMatrixFactorization().get_params()
    assert {field.name for field in fields(Fitting)} < set(defaults)
    assert Fitting().parameters() == {"n_components": "auto", "random_state": 0, "n_jobs": -1}
    for name, hint in typing.get_type_hints(Fitting).items():
        for word in (w for part in typing.get_args(hint) for w in typing.get_args(part)):
            BooleanMatrixFactorization(**{name: word})._validate_params()


def test_numbers_and_words():
    given = Fitting(n_components="3", noise="0.1", row_prior="learn", n_init="auto", max_iter=5)
    expected = {"n_components": 3, "noise": 0.1, "row_prior": "learn", "n_init": "auto"}
    assert given.parameters() == {**expected, "max_iter": 5, "random_state": 0, "n_jobs": -1}
    with pytest.raises(ValueError, match="--n-init: expected a whole number or auto"):
        number_or_word("n_init", "1.5")


def test_groups_become_options_and_come_back():
    said = []

    def command(source: str, *, writing: Writing, more: int = 3, reading: ReadingOptions) -> None:
        said.append((source, writing, more, reading))

    shown = grouped(command)
    names = list(inspect.signature(shown).parameters)
    expected = [field.name for group in (Writing, ReadingOptions) for field in fields(group)]
    assert sorted(names) == sorted(["source", "more", "debug", *expected])
    values = {name: p.default for name, p in inspect.signature(shown).parameters.items()}
    shown(**{**values, "source": "x.csv", "quiet": True, "layout": "pairs"})
    assert said == [("x.csv", Writing(quiet=True), 3, ReadingOptions(layout="pairs"))]


def test_parameters_in_warnings_become_options():
    words = _for_the_shell('Raise max_iter, which is 5,\nor set absent="zero" or n_jobs=2')
    assert words == "Raise --max-iter, which is 5, or set --absent zero or --n-jobs 2"
