"""The parameters of a factorization: valid values, valid combinations and defaults."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from boolweave.data.convert import is_sparse
from boolweave.data.ones import keeps_zeros_implicit
from boolweave.fit.backends import backends_for
from boolweave.fit.settings import PAPER_FLIP, PAPER_PRIOR, Settings
from boolweave.model.channel import Channel
from boolweave.model.model import differ_by_factor
from boolweave.parameters import Parameter, documented, parameters_of
from boolweave.runtime.checks import LARGEST, is_whole
from boolweave.runtime.free_memory import in_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from boolweave.data.observed import ObservedEntries
    from boolweave.estimator.factorization import BooleanMatrixFactorization, FittedFactorization
    from boolweave.fit.noise import Axis

Estimator = TypeVar("Estimator")


class AtLeast(Interval):  # type: ignore[misc]
    """Machine integers from a lower limit up; unlike in scikit-learn's intervals, not True."""

    def __init__(self, least: int) -> None:
        super().__init__(Integral, least, LARGEST, closed="both")

    def __str__(self) -> str:
        return f"an int in the range [{self.left}, 2^63)"

    def is_satisfied_by(self, val: object) -> bool:
        """Whether a value is such a number."""
        return is_whole(val) and super().is_satisfied_by(val)


# What is checked of the kinds of values that are not numbers or words.
OF_KINDS: dict[str, list[Any]] = {
    "bool": ["boolean"], "str": [str], "NoneType": [None], "Path": [os.PathLike], "Checkpoint": [],
    "ArrayLike": ["array-like"], "Sequence": ["array-like"], "Channel": [Channel],
    "RandomState": ["random_state"], "Client": [HasMethods(["submit", "scatter", "cancel"])],
}  # fmt: skip


def constraints_of(parameter: Parameter) -> list[Any]:
    """The values of a parameter, in the form of scikit-learn's checks."""
    found: list[Any] = [StrOptions(set(parameter.words))] if parameter.words else []
    kinds, interval = [kind.__name__ for kind in parameter.kinds], parameter.interval
    if interval is not None and parameter.number is int:
        found.append(AtLeast(int(interval.low)))
    elif interval is not None:
        closed = {"[]": "both", "[)": "left", "(]": "right", "()": "neither"}[interval.ends]
        found.append(Interval(Real, interval.low, interval.high, closed=closed))
    elif "int" in kinds and "RandomState" not in kinds:  # whose check includes seeds
        found.append(Integral)
    return [*found, *(check for kind in kinds for check in OF_KINDS.get(kind, ()))]


def declared(estimator: type[Estimator]) -> type[Estimator]:
    """Give an estimator the checks of its parameters, and their section of the docstring."""
    parameters = parameters_of(estimator)
    checks = {name: constraints_of(parameter) for name, parameter in parameters.items()}
    estimator._parameter_constraints = checks  # type: ignore[attr-defined]
    if estimator.__doc__ is not None:  # python -OO has none
        estimator.__doc__ = documented(estimator.__doc__, estimator)
    return estimator


def implicit_zeros(parameters: FittedFactorization, data: Any) -> bool:
    """Whether all zeros of a row are treated at once, without listing any zero.

    Raises ValueError if this is asked for but impossible.
    """
    if parameters.zeros == "exact":
        return False
    why_not = _why_no_implicit_zeros(parameters, data)
    if parameters.zeros == "auto":
        return not why_not and keeps_zeros_implicit(data)
    if why_not:
        raise ValueError(
            f'`zeros="collective"` is not possible with {why_not}; use `zeros="exact"` or "auto"'
        )
    return True


def _why_no_implicit_zeros(parameters: FittedFactorization, data: Any) -> str:
    """The reason why it is impossible; empty if it is possible."""
    noise = parameters.noise
    if parameters.objective == "errors":
        return '`objective="errors"`'
    if parameters.method == "paper":
        return '`method="paper"`'
    if parameters.product == "xor":
        return '`product="xor"`'
    if is_sparse(data) and parameters.absent == "missing":
        return '`absent="missing"`, by which absent entries are not zeros'
    if isinstance(noise, str) and noise in ("learn-columns", "learn-rows"):
        return f'`noise="{noise}"`'
    if isinstance(noise, Channel):
        if not noise.is_uniform:
            return "a channel that differs from entry to entry"
        if np.any(noise.missing_log_likelihood_ratio()):
            return "a channel in which a missing entry is evidence"
    return ""


def check_sample_weight(parameters: BooleanMatrixFactorization, sample_weight: object) -> None:
    """Raise ValueError if `fit` gets weights that the objective does not use."""
    if parameters.objective != "errors" and sample_weight is not None:
        raise ValueError(
            '`sample_weight` weights errors, which `objective="posterior"` does not count; set '
            '`objective="errors"`, or leave out `sample_weight`'
        )


def check_output(function: str, parameters: Mapping[str, Any]) -> None:
    """Raise ValueError if a function that returns no estimator is told what `transform` returns."""
    output = parameters.get("output", "bits")
    if output != "bits":
        raise ValueError(
            f"`output={output!r}` is what `transform` of an estimator returns, and `{function}` "
            "has no `transform`; leave it out, or use `BooleanMatrixFactorization`"
        )


def settings_of(parameters: BooleanMatrixFactorization, seen: ObservedEntries) -> Settings:
    """The parameters of message passing, with defaults that depend on the data."""
    printed = parameters.method == "paper"
    paper = printed or parameters.method == "max-sum"
    if paper and parameters.decimation is not None:
        raise ValueError(
            "decimation fixes marginals, which method='max-sum' does not have; "
            "use method='sum-product' or 'auto', or leave out decimation"
        )
    priors: tuple[Any, Any] = parameters.row_prior, parameters.column_prior
    chosen = isinstance(parameters.n_components, str)
    if chosen and differ_by_factor(*priors):
        raise ValueError(
            "`row_prior` and `column_prior` with a number for each factor need a fixed number of "
            f'factors, but got n_components="{parameters.n_components}" and priors of shape '
            f"{np.shape(priors[0])} and {np.shape(priors[1])}; set `n_components`, or pass one "
            "number for all factors"
        )
    unchanged = ("product", "method", "damping", "tol", "n_jobs", "decimation")
    noise, n_init = parameters.noise, parameters.n_init
    if noise is None:
        noise = PAPER_FLIP if paper else "learn"
    elif isinstance(noise, str):
        noise = "learn"  # rates of each column or row are learned afterwards: see `noise_lines`
    if n_init == "auto":
        n_init = 1 if paper else backends_for(seen).n_starts
    prior = PAPER_PRIOR if paper else "learn"
    return Settings(
        n_components=1 if chosen else int(parameters.n_components),
        noise=noise if isinstance(noise, Channel | str) else Channel.symmetric(noise),
        row_prior=prior if parameters.row_prior is None else parameters.row_prior,
        column_prior=prior if parameters.column_prior is None else parameters.column_prior,
        max_iter=int(parameters.max_iter),
        n_init=int(n_init),
        messages="float32" if printed else parameters.messages,
        alone=not printed,
        max_memory=bytes_allowed(parameters.max_memory),
        **{name: getattr(parameters, name) for name in unchanged},
    )


def noise_lines(
    parameters: BooleanMatrixFactorization, observations: ObservedEntries
) -> Axis | Literal["best"] | None:
    """The lines that have noise rates of their own; None if all entries have the same.

    "best" means that the data choose. They do not if there are so many messages that floats, which
    rates of lines need, would take much more memory than integers.
    """
    word = parameters.noise
    lines: dict[Any, Axis] = {"learn-columns": "columns", "learn-rows": "rows"}
    if isinstance(word, str) and word in lines:
        if parameters.messages == "uint8":
            raise ValueError(
                '`messages="uint8"` needs a channel that is the same for all entries, and '
                f'`noise="{word}"` makes one that is not; use `messages="auto"`, or `noise="learn"`'
            )
        return lines[word]
    if not isinstance(word, str) or word != "auto" or parameters.messages == "uint8":
        return None
    return "best" if backends_for(observations).noise_by_line else None


def most_useful(settings: Settings, shape: tuple[int, int]) -> int:
    """The number of factors to fit: any matrix is a product of as many as its shorter side has.

    More are fitted only if the priors are given and say that the others exist.
    """
    model = settings.first_model()  # its priors are checked
    given = [
        np.asarray(getattr(model, name))
        for name in ("row_prior", "column_prior")
        if not settings.learns(name)
    ]
    others_exist = any(prior.size > 1 or (prior > 0.5).any() for prior in given)
    if settings.method == "paper" or others_exist:
        return settings.n_components
    return max(1, min(settings.n_components, *shape))


def bytes_allowed(max_memory: float | str | None) -> int | None:
    """The parameter `max_memory` in bytes."""
    return None if max_memory is None else in_bytes(max_memory)
