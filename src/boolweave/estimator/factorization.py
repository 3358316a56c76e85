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
from boolweave.estimator.fitted import FittedFactorization, with_local_entries
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
from boolweave.runtime.progress import Deadline, progress

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

    # The result, how its rank was chosen, and how many useless factors were dropped.
    Found: TypeAlias = tuple[Result, rank.RankSelection | None, int]


class BooleanMatrixFactorization(FittedFactorization):
    """Boolean matrix factorization and completion by message passing.

    The estimator finds matrices X (M, K) and Y (K, N) of zeros and ones whose Boolean product
    explains a noisy matrix of which only some entries may be observed.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors K, which may exceed both sides of the matrix. "auto" chooses it by
        description length.
    product : {"or", "xor"}, default="or"
        How the K terms of an entry are combined.
    method : {"auto", "max-sum", "sum-product"}, default="auto"
        "auto" runs short max-sum starts and finishes the best of them by sum-product with a learned
        channel and learned priors. If `n_components` is given and fewer than 5% of the entries are
        missing, some starts are also finished by max-sum; if sum-product has over 1% more wrong
        entries, the answer is that of max-sum. "max-sum" is the algorithm of Ravanbakhsh, Póczos
        and Greiner (2016) and nothing else. "sum-product" computes marginals from a random start.
    noise : float, Channel or "learn", optional
        Probability that an entry is flipped, or a whole `Channel`. The default is "learn", or 0.1
        with method="max-sum".
    row_prior, column_prior : float, array or "learn", optional
        P(x = 1) and P(y = 1), numbers or arrays that broadcast to (M, K) and (K, N); with 0 and 1
        an entry is known. The default is "learn", or 0.5 with method="max-sum".
    absent : {"zero", "missing"}, default="zero"
        How to treat the entries that a sparse matrix does not store.
    damping : float, default=0.4
        Weight of the new message in each update, in (0, 1].
    max_iter : int, default=200
        Maximum number of iterations of one run.
    tol : float, default=1e-3
        Convergence tolerance. A run ends when no message changes by more than this in an iteration:
        in max-sum relative to its bound |L|, in sum-product in log-odds.
    n_init : int or "auto", default="auto"
        Number of random starts; the one with the highest log-posterior is kept. "auto" means 1 with
        method="max-sum" and with collective `zeros`, otherwise at most 6, and fewer if they agree.
        With objective="errors", it is the number of independent searches; "auto" means until three
        of them find the lowest error, and without `max_time` at most 8.
    messages : {"auto", "uint8", "float32"}, default="auto"
        How messages are stored: in 8 bits (max-sum) and 16 bits (sum-product), or as floats. "auto"
        means "uint8" if the channel is the same for every entry and not nearly certain; if
        `n_components` is given, max-sum that runs to the end does the last 30% of its iterations
        with floats, provided that these take at most 300 MB.
    n_jobs : int, optional
        Number of threads; −1 uses all cores. The result does not depend on it.
    random_state : int, RandomState or None
        Random seed of the starts. The rank that "auto" finds does not depend on it.
    verbose : int, default=0
        Whether to show progress on standard error.
    checkpoint : path, URL or Checkpoint, optional
        A directory in which a long run saves its state every two minutes, so that it can continue
        after a crash. A `fit` of the same data with the same parameters continues from there, with
        the same result. When it is finished, the directory is empty again.
    max_memory : int or str, optional
        Memory limit of a fit in addition to its input, in bytes or as text such as "2GiB". Messages
        that exceed it are kept in files in the directory for temporary files (TMPDIR) and loaded
        block by block. The result is the same.
    decimation : float, optional
        With sum-product: fix this fraction of the undecided entries of X and Y, those with the
        strongest beliefs, continue to iterate, and repeat this until all entries are decided. This
        breaks ties between equally good solutions.
    max_time : float, optional
        Time limit in seconds, after which the run ends with its best answer so far. The time to
        compile code, when the package is first used on a machine, does not count.
    objective : {"posterior", "errors"}, default="posterior"
        "posterior" finds the most probable factors and their probabilities, to predict unobserved
        entries. "errors" finds the factors whose product has the fewest wrong entries, to describe
        observed ones. It is a search that does not use `method`, `noise`, `row_prior`,
        `column_prior`, `damping`, `max_iter`, `tol`, `messages`, `decimation` and `zeros`.
    false_one_weight : float, default=1.0
        With objective="errors": the cost of a false one (the product is 1, a zero was observed)
        relative to a missed one (the product is 0, a one was observed); infinity allows no false
        ones.
    bound : bool, default=True
        With objective="errors": whether to compute `error_bound_`, which takes up to two seconds,
        on a small table more than the search. If False, it is 0.
    zeros : {"auto", "exact", "collective"}, default="auto"
        How observed zeros are treated if absent entries of a sparse matrix are zeros. With "exact",
        each zero has messages of its own. With "collective", all zeros of a row are treated at
        once, so that time and memory are proportional to the number of ones; this needs the OR
        product and one channel for all entries. "auto" means "collective" for a sparse matrix of at
        least 50 million cells of which at most a tenth are ones.

    Attributes
    ----------
    result_ : Result
        The result of the fit. Most other attributes are read-only views of it.
    components_ : (K, N) array of uint8
        Y, the decoded factors. The largest tile (rows × columns) comes first; with
        objective="errors", the factor that explains most comes first; if priors were given factor
        by factor, the factors keep their order. Texts, tables, pictures and the names of features
        number them from 1: factor 1 is ``components_[0]``.
    row_factors_ : (M, K) array of uint8
        X, the decoded row factors that were found together with the components.
    row_log_odds_, column_log_odds_ : (M, K) and (K, N) arrays
        Log-odds that an entry of X and of Y is 1.
    marginal_ : bool
        Whether these are marginals from sum-product, which yield probabilities; False if the answer
        is that of max-sum.
    noise_ : Channel
        The channel, given or learned.
    row_prior_, column_prior_ : array
        The priors, given or learned: one number, one per factor, or one per row or column.
    n_iter_ : int
        Number of iterations of the best start; with objective="errors", of rounds of the search.
    converged_ : bool
        Whether its messages converged within `tol`. On many tables they never do, although the
        decoded factors hardly change any more; a `ConvergenceWarning` is issued only if the factors
        still change.
    interrupted_ : bool
        Whether Ctrl-C ended the run; the best result so far is kept.
    history_ : dict of arrays
        "residual", "log_posterior" and "changes" (the number of entries of the decoded factors that
        changed), with one number per iteration; with objective="errors", only "error", the lowest
        error after each round.
    log_posterior_ : float
        log p(X, Y, O) of the decoded factors.
    factor_stability_ : (K,) array or None
        Fraction of the starts in which each factor was found again; None if the time limit or
        Ctrl-C ended the only search.
    error_ : float or None
        With objective="errors": the number of missed ones plus `false_one_weight` times the number
        of false ones of the product, each multiplied by the weight of its entry.
    error_bound_ : float or None
        With objective="errors": a proven lower bound of the error of this number of factors. If it
        equals `error_`, the factors are optimal. It is 0 if none is known.
    redundancy_ : (K,) array or None
        With objective="errors": the increase of the error if a factor is left out.
    rank_selection_ : RankSelection or None
        With n_components="auto": the description length of every rank tried.
    n_dropped_ : int
        With n_components="auto": the number of factors that were dropped because they were empty or
        repeated.
    observations_ : Observations
        The data to which the model was fitted.
    provenance_ : dict
        For a model made by the command line: "command", and "hold_out", the fraction of held-out
        entries.

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
        bound: bool = True,
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
        self.bound = bound
        self.zeros = zeros

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> BooleanMatrixFactorization:
        """Find the factors of a partly observed Boolean matrix.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null for missing entries.
        y : ignored
        **fit_params
            With objective="errors", `sample_weight` may be given: the cost of an error in each
            entry, an array or a sparse matrix of shape (M, N), or in each row, shape (M,). Weights
            are finite and non-negative. An entry of weight 0 counts as missing; an entry whose
            weight a sparse matrix does not store has the weight 1.

        Returns
        -------
        BooleanMatrixFactorization
            The fitted estimator.
        """
        found = self._find(X, **fit_params)
        self.result_, self.rank_selection_, self.n_dropped_ = found
        self._frame = Frame.of(X)
        self.provenance_: dict[str, Any] = {}
        return self

    def _find(self, X: Any, **fit_params: Any) -> Found:
        """Check the data and the parameters, and fit."""
        check_fit_parameters(self, fit_params)
        observations = self._checked(X)
        if self.objective == "errors":
            return fewest_errors.fit(self, observations.to_local(), **fit_params)
        return self._run(observations)

    def _checked(self, X: Any) -> ObservedEntries:
        """Check the parameters and the data, and return the data."""
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
        """Fit, choose the rank if asked to, and count the useless factors that were dropped."""
        settings = settings_of(self, observations)
        cautions.about_data(observations, self)
        selection, n_dropped = None, 0
        with (
            self._recording(observations, settings, first_seed) as (recorder, random),
            progress(learn.most_iterations(settings), self.verbose) as on_iteration,
            Deadline(self.max_time, on_iteration) as deadline,
        ):
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
        """Open the recorder of a run and its random numbers; a resumed run gets its first ones."""
        parameters = {**vars(settings), "n_components": self.n_components, **more}
        del parameters["n_jobs"]  # it does not change the result
        if isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = int(self.random_state)
        drawn = self._first_seed() if first_seed is None else first_seed
        recorder = Recorder(self.checkpoint, observations, parameters)
        recorder.checks["seed"] = whole_number
        with recorder.frame("seed", lambda: [drawn]) as seed:
            yield recorder, np.random.default_rng(seed[0])

    def _first_seed(self) -> int:
        """Draw a seed from `random_state`, once per fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.uint8]:
        """Fit, and return the row factors, as `transform` would.

        With objective="errors", these are `row_factors_`. Otherwise they are decoded again. A
        `row_prior` that was given row by row is used here as it is, while `transform`, which cannot
        know which rows it is given, uses its mean.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        (M, K) array of uint8
        """
        result = self.fit(X, **fit_params).result_
        if self.objective == "errors":
            return result.X
        by_row = np.asarray(self.row_prior).ndim == 2
        prior = result.model.row_prior if by_row else None
        return self._fold_in.transform(with_local_entries(result.observations), prior)
