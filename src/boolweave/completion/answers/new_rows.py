"""New rows for the columns of an ensemble, each only from its own entries.

A row gets an offset, directions and factors in every member, as if it had been in the fit, except
that its entries do not change the columns. The answer is an ensemble of the new rows, which is used
like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from boolweave.completion.chain import SLOPES
from boolweave.completion.ensemble import Ensemble, Member, PlainBoolean
from boolweave.completion.kernels.drawing import Lines, Link, Prior, lines_of
from boolweave.completion.kernels.folding import FixedColumns, FoldedRows, fold_rows
from boolweave.completion.layers import LEAST_PRIOR, LOGS
from boolweave.completion.regressions import signs
from boolweave.completion.table import Features, make_features
from boolweave.data.observations import Observations
from boolweave.engine import prediction
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import log_odds, sigmoid
from boolweave.runtime.threads import run_all, threads
from boolweave.runtime.types import Doubles


@dataclass(frozen=True, eq=False)
class FoldIn:
    """Inference of new rows by an ensemble.

    Parameters
    ----------
    ensemble : Ensemble
        Of M rows and N columns.
    count_scale : array of shape (2,)
        Mean and standard deviation by which the numbers of entries of its rows were scaled:
        ``Table.count_scales[0]`` of the fit.
    n_jobs : int, optional
        Number of threads, which share the members.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> from boolweave.completion.answers.new_rows import FoldIn
    >>> from boolweave.completion.chain import Chain
    >>> from boolweave.completion.ensemble import Ensemble, Family, Structure
    >>> from boolweave.completion.table import Table
    >>> nan = np.nan
    >>> table = Table.of(Observations.from_data([[1, 1, 0], [1, nan, 0], [0, 1, nan], [1, 1, 0]]))
    >>> chain = Chain.start(table, Structure(), np.random.default_rng(0))
    >>> family = Family(Structure(), (chain.member(10, 20),), 1.0)
    >>> model = FoldIn(Ensemble(table.shape, (family,), None, 0.0), table.count_scales[0])
    >>> found = model.fold_in(Observations.from_data([[1, 1, nan], [0, 0, nan], [nan, nan, nan]]))
    >>> found.shape
    (3, 3)
    >>> high, low, unknown = found.probabilities(np.arange(3), np.full(3, 2))
    >>> bool(high > unknown > low)
    True
    """

    ensemble: Ensemble
    count_scale: Doubles
    n_jobs: int | None = None

    def fold_in(self, observations: Observations, given: Doubles | None = None) -> Ensemble:
        """The ensemble of new rows.

        Parameters
        ----------
        observations : Observations, shape (R, N)
            Entries of the new rows. A row without entries gets the priors. If the model was fitted
            with ratings, the entries say on which side of the cut between zeros and ones they are.
        given : (R, G) array, optional
            Encoded features of the rows; by default, they are the average, 0.

        Returns
        -------
        Ensemble
            Of R rows and N columns.
        """
        if observations.n_columns != self.ensemble.shape[1]:
            raise ValueError(
                f"expected rows of {self.ensemble.shape[1]} columns, as in the fit, but got "
                f"{observations.n_columns}; pass the columns of the fit"
            )
        known = self._features(np.diff(observations.indptr), given)
        pattern = self.ensemble.pattern
        if pattern is not None:
            pattern = replace(pattern, rows=pattern.of_rows(observations))
        used = np.zeros(observations.n_columns, dtype=bool)
        used[observations.indices] = True
        columns = np.flatnonzero(used)
        other = (np.cumsum(used) - 1).astype(np.int32)[observations.indices]
        place = np.arange(len(other), dtype=np.int64)
        lines = lines_of(observations.indptr, other, observations.values, place)
        families = self.ensemble.families
        with_pattern = known if pattern is None else known.with_pattern(pattern.rows)
        tasks = [
            (member, prior, with_pattern if family.structure.pattern else known)
            for family, priors in zip(families, self._factor_priors, strict=True)
            for member, prior in zip(family.members, priors, strict=True)
        ]

        def fold(task: tuple[Member, Doubles, Features]) -> Member:
            member, prior, known = task
            cuts = np.array([-np.inf, member.cuts[self.ensemble.cut], np.inf])
            return _with_rows(member, prior, lines, columns, known, cuts)

        with threads(self.n_jobs) as pool:
            members = iter(list(run_all(pool, fold, tasks)))
        plain = self.ensemble.plain
        if plain is not None:
            few = Observations(
                (observations.n_rows, len(columns)), observations.indptr, other, observations.values
            )
            plain = replace(plain, rows=self._plain_rows(plain, few, columns))
        regressions = self.ensemble.regressions
        if regressions is not None:
            regressions = replace(regressions, rows=signs(observations))
        return replace(
            self.ensemble,
            shape=observations.shape,
            families=tuple(
                replace(family, members=tuple(next(members) for _ in family.members))
                for family in families
            ),
            plain=plain,
            pattern=pattern,
            regressions=regressions,
        )

    def _features(self, counts: NDArray[np.int64], given: Doubles | None) -> Features:
        """Features of new rows with these numbers of entries; those that are not given are 0."""
        if given is not None:
            return make_features(counts, given, self.count_scale)[0]
        n_pattern = 0 if self.ensemble.pattern is None else self.ensemble.pattern.n_features
        n_given = max(
            [
                len(member.priors[0]) - 2 - n_pattern * family.structure.pattern
                for family in self.ensemble.families
                for member in family.members
            ],
            default=0,
        )
        return make_features(counts, np.zeros((len(counts), n_given)), self.count_scale)[0]

    @cached_property
    def _factor_priors(self) -> list[list[Doubles]]:
        """Log-odds of the factors of an average row: (L, K) for each member of each family."""
        return [
            [
                np.array([_prior_of(layer.rows) for layer in member.layers] or np.empty((0, 0)))
                for member in family.members
            ]
            for family in self.ensemble.families
        ]

    def _plain_rows(
        self, plain: PlainBoolean, seen: Observations, columns: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        """P(x = 1) in the plain Boolean model, (R, K)."""
        model = Model(
            plain.rows.shape[1],
            Channel(plain.one_given_zero, plain.one_given_one),
            row_prior=sigmoid(_prior_of(plain.rows)),
            product="or" if plain.product == "or" else "xor",
        )
        fixed = prediction.FixedColumns(model, log_odds(plain.columns[:, columns]), marginal=True)
        return sigmoid(prediction.fold_in(seen, fixed, self.n_jobs)[1]).astype(np.float32)


def _prior_of(rows: NDArray[np.float32]) -> Doubles:
    """Log-odds of the mean of P(x = 1), (M, K), over rows: (K,)."""
    mean = rows.mean(axis=0, dtype=np.float64)
    return log_odds(np.clip(mean, LEAST_PRIOR, 1 - LEAST_PRIOR))


def _with_rows(
    member: Member,
    factor_prior: Doubles,
    lines: Lines,
    columns: NDArray[np.intp],
    features: Features,
    cuts: Doubles,
) -> Member:
    """A member with new rows instead of its own."""
    coefficients, variance = member.priors[:2]
    n_rows, D = features.here.shape[0], len(variance)
    n_layers, n_factors = factor_prior.shape
    chance = np.zeros((len(columns), n_layers, n_factors), dtype=np.float32)
    for i, layer in enumerate(member.layers):
        chance[:, i] = layer.columns[:, columns].T
    strengths = np.array([layer.strength for layer in member.layers], dtype=np.float64)
    known = member.columns[columns], member.column_variance[columns]
    fixed = FixedColumns(*known, chance, strengths)
    found = FoldedRows(
        np.empty((n_rows, D)), np.empty((n_rows, D)), np.empty((n_rows, n_layers, n_factors))
    )
    prior = Prior(features.here @ coefficients, np.asarray(variance))
    # Number of rounds of Newton's method and of messages.
    n_rounds = 3
    fold_rows(lines, Link(cuts, SLOPES, LOGS), prior, factor_prior, fixed, n_rounds, found)
    rows = found.lines + (features.elsewhere - features.here) @ coefficients
    layers = tuple(
        replace(layer, rows=sigmoid(found.factors[:, i]).astype(np.float32))
        for i, layer in enumerate(member.layers)
    )
    return member._replace(
        rows=rows.astype(np.float32),
        row_variance=found.variance.astype(np.float32),
        layers=layers,
    )
