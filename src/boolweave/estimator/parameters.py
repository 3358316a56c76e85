"""The parameters of a factorization: what each may be, which go together, and their defaults."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from sklearn.utils._param_validation import Interval, StrOptions

from boolweave.fit import learn, memory
from boolweave.fit.settings import PAPER_FLIP, PAPER_PRIOR, Settings
from boolweave.model.channel import Channel

if TYPE_CHECKING:
    from boolweave.estimator.factorization import BooleanMatrixFactorization

Constraints: TypeAlias = dict[str, list[Any]]

_PRIOR = [Interval(Real, 0, 1, closed="both"), "array-like", StrOptions({"learn"}), None]

CONSTRAINTS: Constraints = {
    "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "product": [StrOptions({"or", "xor"})],
    "method": [StrOptions({"auto", "max-sum", "sum-product"})],
    "noise": [Interval(Real, 0, 1, closed="both"), Channel, StrOptions({"learn"}), None],
    "row_prior": _PRIOR,
    "column_prior": _PRIOR,
    "absent": [StrOptions({"zero", "missing"})],
    "damping": [Interval(Real, 0, 1, closed="right")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "messages": [StrOptions({"auto", "uint8", "float32"})],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "checkpoint": [str, os.PathLike, None],
    "max_memory": [Interval(Real, 1, None, closed="left"), str, None],
    "decimation": [Interval(Real, 0, 1, closed="right"), None],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
}


def settings_of(parameters: BooleanMatrixFactorization) -> Settings:
    """The parameters of message passing, with their defaults filled in."""
    paper = parameters.method == "max-sum"
    if paper and parameters.decimation is not None:
        raise ValueError(
            "decimation fixes marginals, which method='max-sum' does not have; "
            "use method='sum-product' or 'auto', or leave decimation out"
        )
    noise, n_init = parameters.noise, parameters.n_init
    if noise is None:
        noise = PAPER_FLIP if paper else "learn"
    if n_init == "auto":
        n_init = 1 if paper else learn.N_STARTS
    prior = PAPER_PRIOR if paper else "learn"
    return Settings(
        n_components=1 if parameters.n_components == "auto" else parameters.n_components,
        product=parameters.product,
        method=parameters.method,
        noise=noise if isinstance(noise, Channel | str) else Channel.symmetric(noise),
        row_prior=prior if parameters.row_prior is None else parameters.row_prior,
        column_prior=prior if parameters.column_prior is None else parameters.column_prior,
        damping=parameters.damping,
        max_iter=parameters.max_iter,
        tol=parameters.tol,
        n_init=n_init,
        n_jobs=parameters.n_jobs,
        decimation=parameters.decimation,
        messages=parameters.messages,
        max_memory=bytes_allowed(parameters.max_memory),
    )


def bytes_allowed(max_memory: int | str | None) -> int | None:
    """The parameter `max_memory` in bytes."""
    return None if max_memory is None else memory.in_bytes(max_memory)
