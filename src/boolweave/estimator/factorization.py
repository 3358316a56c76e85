"""`BooleanMatrixFactorization`: its parameters, and the call of a fit."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from boolweave import cautions
from boolweave.data.frames import Frame
from boolweave.engine.result import Ending, numbered
from boolweave.estimator import fewest_errors
from boolweave.estimator.fitted import FittedFactorization, here
from boolweave.estimator.parameters import (
    CONSTRAINTS,
    Constraints,
    check_fit_parameters,
    check_objective,
    settings_of,
)
from boolweave.fit import learn, rank
from boolweave.fit.resuming import whole_number
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.deadline import Deadline
from boolweave.runtime.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result
    from boolweave.fit.machine import Machine
    from boolweave.fit.settings import Settings
    from boolweave.model.channel import Channel
    from boolweave.runtime.checkpoint import Checkpoint

    # What was found, how its rank was chosen, and how many useless factors were dropped.
    Found: TypeAlias = tuple[Result, rank.RankSelection | None, int]


class BooleanMatrixFactorization(FittedFactorization):
    """Boolean matrix factorization and completion by message passing.

    Finds X (M, K) and Y (K, N) of zeros and ones whose Boolean product explains a noisy matrix of
    which only some entries are seen.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors K; it may exceed both sides of the matrix. "auto": by description length.
    product : {"or", "xor"}, default="or"
        How the K terms of an entry are joined.
    method : {"auto", "max-sum", "sum-product"}, default="auto"
        "auto": short max-sum starts, the best finished by sum-product with learned channel and
        priors. With a given `n_components` and fewer than 5% of the entries missing, some starts
        are also finished by max-sum; if sum-product has over 1% more wrong entries, the answer is
        that of max-sum. "max-sum": the algorithm of Ravanbakhsh, Póczos and Greiner (2016) and
        nothing else. "sum-product": marginals from a random start.
    noise : float, Channel or "learn", optional
        Probability that an entry is flipped, or a whole `Channel`. Left out: "learn", but 0.1 with
        method="max-sum".
    row_prior, column_prior : float, array or "learn", optional
        P(x = 1) and P(y = 1), numbers or arrays that broadcast to (M, K) and (K, N); 0 and 1 mean
        known. Left out: "learn", but 0.5 with method="max-sum".
    absent : {"zero", "missing"}, default="zero"
        What the entries are that a sparse matrix does not store.
    damping : float, default=0.4
        Share of the new message in each update, in (0, 1].
    max_iter : int, default=200
        Most iterations of one run.
    tol : float, default=1e-3
        Convergence tolerance. A run ends when no message changes by more than this in an iteration:
        in max-sum as a share of its bound |L|, in sum-product in log-odds.
    n_init : int or "auto", default="auto"
        Number of random starts; the one with the highest log-posterior is kept. "auto": 1 with
        method="max-sum" and with collective `zeros`, otherwise at most 6, fewer where they agree.
    messages : {"auto", "uint8", "float32"}, default="auto"
        How messages are stored: in 8 bits (max-sum) and 16 bits (sum-product), or as floats.
        "auto": "uint8" wherever the channel is the same for every entry and not next to certain;
        with a given `n_components`, max-sum that runs to the end does the last 30% of its
        iterations with floats where these take at most 300 MB.
    n_jobs : int, optional
        Number of threads; −1 for all cores. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the random starts. The rank that "auto" finds does not depend on it.
    verbose : int, default=0
        Show progress on standard error.
    checkpoint : path, URL or Checkpoint, optional
        A directory in which a long run keeps what it needs to go on after a crash, every two
        minutes. A `fit` of the same data with the same parameters goes on from there, to the same
        end; when it is finished, the directory is empty again.
    max_memory : int or str, optional
        Bytes, or "2GiB" and the like, that a fit may take beside its input. Messages that would
        take more are kept in files in the directory for temporary files (TMPDIR) and brought to
        memory block by block. The result is the same.
    decimation : float, optional
        With sum-product: then fix this share of the undecided entries of X and Y, those with the
        strongest beliefs, run on, and so forth until all are decided. It breaks ties between
        equally good solutions.
    max_time : float, optional
        Seconds after which the run ends with its best answer so far.
    objective : {"posterior", "errors"}, default="posterior"
        "posterior": the most probable factors and their probabilities, for what is not seen.
        "errors": the factors whose product has the fewest wrong entries, for what is seen. They
        are searched for, without `method`, `noise`, `row_prior`, `column_prior`, `damping`,
        `max_iter`, `tol`, `messages` and `decimation`.
    false_one_weight : float, default=1.0
        With objective="errors": what a one of the product costs where a zero was observed, beside
        a zero where a one was observed; infinity allows none.
    zeros : {"auto", "exact", "collective"}, default="auto"
        How observed zeros are treated where absent entries of a sparse matrix are zeros. "exact":
        each has messages of its own. "collective": all zeros of a row at once, so that time and
        memory go with the ones; for the OR product and one channel for all entries. "auto":
        "collective" for a sparse matrix of 50 million cells or more of which at most a tenth are
        ones.

    Attributes
    ----------
    result_ : Result
        What the fit found. The attributes without another source are views on it, read-only.
    components_ : (K, N) array of uint8
        Y, the decoded factors, the largest tile (rows × columns) first; in the order of the priors
        if these were given factor by factor; with objective="errors", the one that explains most
        first. Texts, tables, pictures and the names of features
        number them alike, from 1: factor 1 is ``components_[0]``.
    row_factors_ : (M, K) array of uint8
        X, the decoded row factor that was found together with the components.
    row_log_odds_, column_log_odds_ : (M, K) and (K, N) arrays
        Log-odds that an entry of X and of Y is 1.
    marginal_ : bool
        Whether these are marginals, the answer of sum-product, so that they make probabilities;
        False if the answer is that of max-sum.
    noise_ : Channel
        The channel, given or learned.
    row_prior_, column_prior_ : array
        The priors, given or learned: one number, one per factor, or one per row or column.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether its messages settled within `tol`. On many tables they never do, while the decoded
        factors hardly change any more; a `ConvergenceWarning` comes only if these still do.
    interrupted_ : bool
        Whether Ctrl-C ended the run; the best result so far is kept.
    history_ : dict of arrays
        "residual", "log_posterior" and "changes" (entries of the decoded factors that changed), a
        number per iteration.
    log_posterior_ : float
        log p(X, Y, O) of the decoded factors.
    factor_stability_ : (K,) array
        Share of the starts in which each factor came back.
    error_ : float or None
        With objective="errors": the missed ones and `false_one_weight` times the false ones of the
        product, each times the weight of its entry.
    error_bound_ : float or None
        With objective="errors": no factors of this number have a smaller error, which is proven. If
        it equals `error_`, the factors are optimal.
    redundancy_ : (K,) array or None
        With objective="errors": by how much the error rises if a factor is left out.
    rank_selection_ : RankSelection or None
        With n_components="auto": the description length of every rank tried.
    n_dropped_ : int
        With n_components="auto": how many factors were dropped, being empty or repeated.
    observations_ : Observations
        What the model was fitted to.
    provenance_ : dict
        Of a model that the command line made: "command", and "hold_out", the share kept aside.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import BooleanMatrixFactorization
    >>> table = np.array([[1, 1, 0, 0], [1, np.nan, 0, 0], [0, 0, 1, 1], [0, 0, 1, np.nan]])
    >>> model = BooleanMatrixFactorization(n_components=2, random_state=0).fit(table)
    >>> model.predict([1, 3], [1, 3])
    array([1, 1], dtype=uint8)
    """

    _parameter_constraints: ClassVar[Constraints] = CONSTRAINTS

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        product: Literal["or", "xor"] = "or",
        method: Literal["auto", "max-sum", "sum-product"] = "auto",
        noise: float | Channel | Literal["learn"] | None = None,
        row_prior: ArrayLike | Literal["learn"] | None = None,
        column_prior: ArrayLike | Literal["learn"] | None = None,
        absent: Literal["zero", "missing"] = "zero",
        damping: float = 0.4,
        max_iter: int = 200,
        tol: float = 1e-3,
        n_init: int | Literal["auto"] = "auto",
        messages: Literal["auto", "uint8", "float32"] = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        checkpoint: str | Path | Checkpoint | None = None,
        max_memory: int | str | None = None,
        decimation: float | None = None,
        max_time: float | None = None,
        objective: Literal["posterior", "errors"] = "posterior",
        false_one_weight: float = 1.0,
        zeros: Literal["auto", "exact", "collective"] = "auto",
    ) -> None:
        self.n_components = n_components
        self.product = product
        self.method = method
        self.noise = noise
        self.row_prior = row_prior
        self.column_prior = column_prior
        self.absent = absent
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.messages = messages
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.max_memory = max_memory
        self.decimation = decimation
        self.max_time = max_time
        self.objective = objective
        self.false_one_weight = false_one_weight
        self.zeros = zeros

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> BooleanMatrixFactorization:
        """Find the factors of a partly observed Boolean matrix.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null where nothing was observed.
        y : ignored
        **fit_params
            With objective="errors" there may be a `sample_weight`: what an error costs in each
            entry, an array or a sparse matrix of shape (M, N), or in each row, shape (M,). Weights
            are finite and at least 0. An entry of weight 0 counts as missing; one whose weight a
            sparse matrix does not store has weight 1.
        """
        found = self._find(X, **fit_params)
        self.result_, self.rank_selection_, self.n_dropped_ = found
        self._frame = Frame.of(X)
        self.provenance_: dict[str, Any] = {}
        return self

    def _find(self, X: Any, **fit_params: Any) -> Found:
        """Check data and parameters, and fit."""
        check_fit_parameters(self, fit_params)
        observations = self._checked(X)
        if self.objective == "errors":
            return fewest_errors.fit(self, observations.to_local(), **fit_params)
        return self._run(observations)

    def _checked(self, X: Any) -> ObservedEntries:
        """The data of a fit, data and parameters checked."""
        self._validate_params()
        return self._observe(X, reset=True)

    def _validate_params(self) -> None:
        super()._validate_params()
        check_objective(self)

    def _run(
        self,
        observations: ObservedEntries,
        first_seed: int | None = None,
        machine: Machine | None = None,
    ) -> Found:
        """Fit, and choose the rank if asked to; also how many useless factors were dropped."""
        settings = settings_of(self, observations)
        cautions.about_data(observations, self)
        selection, n_dropped = None, 0
        with (
            self._recording(observations, settings, first_seed) as (recorder, random),
            progress(learn.most_iterations(settings), self.verbose) as on_iteration,
        ):
            deadline = Deadline(self.max_time, on_iteration)
            how: dict[str, Any] = {
                "on_iteration": deadline, "recorder": recorder, "machine": machine
            }  # fmt: skip
            if self.n_components == "auto":
                selection, best = rank.search(observations, settings, random, **how)
                assert best is not None
                result, n_dropped = rank.drop_useless(best)
            else:
                result = learn.fit(observations, settings, random, **how)
            if deadline.passed:
                result = replace(result, ending=Ending.OUT_OF_TIME)
                selection = selection and replace(selection, interrupted=False)
            if not result.interrupted:
                recorder.finish()
        cautions.about_changes(result, self)
        return numbered(result, self.row_prior, self.column_prior), selection, n_dropped

    @contextmanager
    def _recording(
        self,
        observations: ObservedEntries,
        settings: Settings,
        first_seed: int | None = None,
        **more: Any,
    ) -> Iterator[tuple[Recorder, np.random.Generator]]:
        """What keeps a run, and its random numbers: those it began with, where it goes on."""
        parameters = {**vars(settings), "n_components": self.n_components, **more}
        del parameters["n_jobs"]  # does not change the result
        if isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = int(self.random_state)
        drawn = self._first_seed() if first_seed is None else first_seed
        recorder = Recorder(self.checkpoint, observations, parameters)
        recorder.checks["seed"] = whole_number
        with recorder.frame("seed", lambda: [drawn]) as seed:
            yield recorder, np.random.default_rng(seed[0])

    def _first_seed(self) -> int:
        """Drawn from `random_state`, once a fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.uint8]:
        """Fit, and return row factors (M, K) of zeros and ones, as `transform` would.

        With objective="errors" these are `row_factors_`. Otherwise they are decoded once more: only
        a `row_prior` that was given row by row is used here as it is; `transform`, which cannot
        know which rows it is given, takes its mean.
        """
        result = self.fit(X, **fit_params).result_
        if self.objective == "errors":
            return result.X
        by_row = np.asarray(self.row_prior).ndim == 2
        prior = result.model.row_prior if by_row else None
        return self._fold_in.transform(here(result.observations), prior)
