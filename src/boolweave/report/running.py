"""The run that made a model: its parameters, and how to repeat it."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import numpy as np

from boolweave import __version__
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.model.channel import Channel

if TYPE_CHECKING:
    from boolweave.completion import BooleanCompletion

    Model = BooleanMatrixFactorization | BooleanCompletion
    Facts = list[tuple[str, str]]


def provenance(model: Model) -> Facts:
    """Parameters, how the run ended, and versions."""
    words = {"random_state": "random_state (seed)"}
    facts = [("boolweave", __version__)]
    facts += [
        (words.get(name, name), value if isinstance(value, str) else _shown("given", value))
        for name, value in model.get_params(deep=False).items()
    ]
    if isinstance(model, BooleanMatrixFactorization):
        facts += _run(model)
    return [*facts, ("interrupted", "yes" if model.interrupted_ else "no"), *versions()]


def versions() -> Facts:
    """Versions of the software on which the numbers depend."""
    import numba
    import scipy

    return [
        ("Python", platform.python_version()),
        ("NumPy, SciPy, Numba", f"{np.__version__}, {scipy.__version__}, {numba.__version__}"),
    ]


def _run(model: BooleanMatrixFactorization) -> Facts:
    counted = model.error_ is not None
    return [
        ("starts of the search" if counted else "iterations", f"{model.n_iter_}"),
        ("search finished" if counted else "converged", "yes" if model.converged_ else "no"),
        ("log-posterior", f"{float(model.log_posterior_):,.2f}"),
    ]


def _shown(name: str, value: object) -> str:
    """A parameter as it is written in a call; arrays and generators are shown by its name."""
    plain = value is None or isinstance(value, bool | int | float | str | Channel)
    return repr(value) if plain else name


def python_call(model: Model) -> str:
    """How to repeat the fit: the parameters that are not at their defaults."""
    defaults = type(model)().get_params(deep=False)
    arguments = [f"n_components={model.n_components!r}"]
    for name, value in model.get_params(deep=False).items():
        shown = _shown(name, value)
        unchanged = shown == _shown(name, defaults[name])
        if not unchanged and name not in ("n_components", "verbose", "n_jobs"):
            arguments.append(f"{name}={shown}")
    call = f"{type(model).__name__}({', '.join(arguments)})"
    hold_out = model.provenance_.get("hold_out")
    if hold_out is None:
        return f"{call}.fit(data)"
    hide = f"data.hide({hold_out!r}, random_state={model.random_state!r})"
    return f"kept, *held_out = {hide}\n{call}.fit(kept)"
