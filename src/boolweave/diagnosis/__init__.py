"""Cognitive diagnosis: which skills the items of a test need, and which skills each person has.

In the DINO model, a person answers an item correctly if he has at least one of its skills, and in
the DINA model if he has all of them, apart from slips and guesses. Both are Boolean factorizations
with noise rates of each item: people are rows, skills are factors, and the column factor is the
transposed Q-matrix. For DINA, all answers and skills are complemented: an item is answered wrongly
if the person lacks at least one of its skills.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from boolweave.data.observations import Observations
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.fit.learn import UninformativeWarning
from boolweave.model.odds import sigmoid
from boolweave.runtime.types import Bits, Doubles

if TYPE_CHECKING:
    from typing import Self

    from numpy.random import RandomState

Rule = Literal["dino", "dina"]

# Up to so many skills, all 2^K profiles of skills are enumerated.
MOST_SKILLS = 12

# Up to so many skills, all 2^K − 1 rows of a Q-matrix are compared for every item.
MOST_COMPARED = 8

# The number of skills is chosen among those up to this one.
MOST_CHOSEN = 8


class _Responses(NamedTuple):
    """Right answers, and answers at all, as numbers, each (people, items)."""

    right: Doubles
    given: Doubles

    @classmethod
    def of(cls, observations: Observations) -> _Responses:
        table = observations.to_dense().astype(np.float64)
        given = ~np.isnan(table)
        return cls(np.where(given, table, 0.0), given.astype(np.float64))


class CognitiveDiagnosis(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Skills of people and of items from right and wrong answers (DINO and DINA models).

    A Boolean factorization finds the Q-matrix. The slip and guess rates, the frequencies of the
    profiles of skills and the rows of the Q-matrix then follow from expectation-maximization over
    all 2^K profiles, so that the likelihood is exact.

    Parameters
    ----------
    n_skills : int or "auto", default="auto"
        Number of skills K, at most 12; "auto" chooses the number up to 8 with the lowest BIC. If
        `q` is given, it has a column for each skill, and this may be left out.
    rule : {"dino", "dina"}, default="dino"
        Whether one skill of an item is enough to answer it ("dino"), or all are needed ("dina").
    q : array of shape (items, K), optional
        What is known of the Q-matrix: 1 where an item needs a skill, 0 where it does not, NaN where
        that is to be found out.
    max_iter : int, default=500
        Maximum number of iterations of expectation-maximization.
    tol : float, default=1e-6
        They end when the log-likelihood of a person rises by less than this.
    random_state : int, RandomState or None, default=None
        Random seed.
    n_jobs : int, optional
        Number of threads of the factorization.

    Attributes
    ----------
    q_ : (items, K) array of uint8
        The Q-matrix.
    q_probability_ : (items, K) array
        P(an item needs a skill), given the skills of the people. With more than 8 skills, it is
        that of the factorization.
    skill_probability_ : (people, K) array
        P(a person has a skill).
    skills_ : (people, K) array of uint8
        The skills that a person has with a probability above one half.
    slip_, guess_ : (items,) arrays
        P(wrong, although the skills suffice) and P(right, although they do not).
    profiles_ : (2^K, K) array of uint8
        All profiles of skills.
    profile_frequency_ : (2^K,) array
        Their frequencies in the population.
    log_likelihood_ : float
        The log-likelihood of all answers, summed over all profiles.
    aic_, bic_ : float
        Information criteria with two rates for each item and a frequency for each profile.
    n_skills_ : int
        Number of skills K.
    n_iter_ : int
        Number of iterations of expectation-maximization.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.diagnosis import CognitiveDiagnosis
    >>> random = np.random.default_rng(0)
    >>> skills = random.integers(0, 2, (400, 2))
    >>> q = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [1, 1]])
    >>> able = (skills @ q.T) == q.sum(axis=1)
    >>> answers = random.random((400, 7)) < np.where(able, 0.9, 0.1)
    >>> model = CognitiveDiagnosis(2, rule="dina", random_state=0).fit(answers)
    >>> sorted(model.q_.T.tolist())
    [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 1]]
    """

    def __init__(
        self,
        n_skills: int | Literal["auto"] = "auto",
        *,
        rule: Rule = "dino",
        q: ArrayLike | None = None,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: int | RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_skills = n_skills
        self.rule = rule
        self.q = q
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the Q-matrix, the skills of the people and the rates of the items.

        Parameters
        ----------
        X : array, table or Observations, shape (people, items)
            1 for a right answer, 0 for a wrong one; NaN or null for a missing one.
        y : ignored

        Returns
        -------
        self
            The fitted estimator.
        """
        observations = Observations.from_data(X, absent="missing")
        known = self._known(observations.n_columns)
        if observations.n_rows == 0 or observations.n_observed == 0:
            raise ValueError("expected at least one answer, got none")
        if known is not None or self.n_skills != "auto":
            n_skills = self.n_skills if known is None else known.shape[1]
            best = self._fit(observations, int(n_skills), known)
        else:
            best = self._with_lowest_bic(observations)
        self.__dict__.update(best.__dict__)
        self.n_features_in_ = observations.n_columns
        return self

    def _known(self, n_items: int) -> Doubles | None:
        """Check the parameters; return the given Q-matrix, with NaN where it is unknown."""
        if self.rule not in ("dino", "dina"):
            raise ValueError(f'rule must be "dino" or "dina", got {self.rule!r}')
        n = self.n_skills
        whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if n != "auto" and not (whole and 1 <= int(n) <= MOST_SKILLS):
            raise ValueError(
                f'n_skills must be "auto" or a whole number from 1 to {MOST_SKILLS}, got {n!r}'
            )
        if self.q is None:
            return None
        known = np.asarray(self.q, dtype=np.float64)
        if known.ndim != 2 or len(known) != n_items or not 1 <= known.shape[1] <= MOST_SKILLS:
            raise ValueError(
                f"q must have a line for each of {n_items} items and a column for each of at most "
                f"{MOST_SKILLS} skills, got an array of shape {known.shape}"
            )
        if n != "auto" and n != known.shape[1]:
            raise ValueError(
                f"q has {known.shape[1]} skills, but n_skills is {n}; leave out n_skills"
            )
        if not np.isin(known[~np.isnan(known)], (0, 1)).all():
            raise ValueError("q must hold 0, 1 and NaN (unknown)")
        empty = np.flatnonzero((known == 0).all(axis=1))
        if len(empty):
            raise ValueError(
                f"q says that item {empty[0] + 1} needs no skill; give it a 1, or NaN where its "
                "skills are unknown"
            )
        return known

    def _with_lowest_bic(self, observations: Observations) -> _Fitted:
        """The best of 1, 2, … skills, until two more did not lower the BIC."""
        best, n_worse = None, 0
        for n_skills in range(1, min(MOST_CHOSEN, observations.n_columns) + 1):
            fitted = self._fit(observations, n_skills, None)
            if best is None or fitted.bic_ < best.bic_:
                best, n_worse = fitted, 0
            else:
                n_worse += 1
            if n_worse == 2:
                break
        assert best is not None
        return best

    def _fit(self, observations: Observations, n_skills: int, known: Doubles | None) -> _Fitted:
        flips = observations if self.rule == "dino" else _complement(observations)
        prior = None if known is None else np.where(np.isnan(known), 0.5, known).T
        model = BooleanMatrixFactorization(
            n_skills,
            noise="learn-columns",
            column_prior=prior,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        with warnings.catch_warnings():
            # Expectation-maximization goes on from there.
            for kind in (UninformativeWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", kind)
            model.fit(flips)
        chance = sigmoid(model.column_log_odds_.T)
        free = np.full((observations.n_columns, n_skills), np.nan) if known is None else known
        return _Fitted(self, _Responses.of(observations), chance, free)

    # ------------------------------------------------------------ people

    def transform(self, X: Any) -> Doubles:
        """P(a person has a skill), of people who need not be those of the fit.

        Parameters
        ----------
        X : as in `fit`, shape (people, items)

        Returns
        -------
        (people, K) array
        """
        return self._posterior(X) @ self.profiles_

    def predict_proba(self, X: Any) -> Doubles:
        """P(right) of every person and item, given the answers of the person.

        Parameters
        ----------
        X : as in `fit`, shape (people, items)

        Returns
        -------
        (people, items) array
        """
        return self._posterior(X) @ self._right().T

    def _right(self) -> Doubles:
        """P(right) of every item by people of every profile, (items, 2^K)."""
        able = _able(self.q_, self.profiles_, self.rule)
        return np.where(able, 1 - self.slip_[:, None], self.guess_[:, None])

    def _posterior(self, X: Any) -> Doubles:
        """P(profile) of every person, (people, 2^K)."""
        check_is_fitted(self)
        observations = Observations.from_data(X, absent="missing")
        if observations.n_columns != self.n_features_in_:
            raise ValueError(f"expected {self.n_features_in_} items, got {observations.n_columns}")
        responses = _Responses.of(observations)
        return _posterior(responses, self._right(), self.profile_frequency_)[0]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns of `transform`: skill1, skill2 and so on."""
        check_is_fitted(self)
        return np.array([f"skill{k + 1}" for k in range(self.n_skills_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class _Fitted:
    """The attributes of a fit with a given number of skills."""

    def __init__(
        self, options: CognitiveDiagnosis, responses: _Responses, chance: Doubles, known: Doubles
    ) -> None:
        n_items, K = chance.shape
        self.n_skills_ = K
        self.profiles_: Bits = _patterns(K)
        self.q_probability_ = chance
        self.q_: Bits = _with_a_skill(np.where(np.isnan(known), chance, known))
        rule, n_people = options.rule, len(responses.right)
        compared = _candidates(known) if K <= MOST_COMPARED else None
        self.slip_, self.guess_ = np.full(n_items, 0.2), np.full(n_items, 0.2)
        frequency = np.full(2**K, 2.0**-K)
        before = -np.inf
        for self.n_iter_ in range(1, options.max_iter + 1):
            able = _able(self.q_, self.profiles_, rule)
            right = np.where(able, 1 - self.slip_[:, None], self.guess_[:, None])
            posterior, total = _posterior(responses, right, frequency)
            # A person more for each profile, in equal parts, prevents frequencies of zero.
            frequency = (posterior.sum(axis=0) + 2.0**-K) / (n_people + 1)
            n_right, n_given = responses.right.T @ posterior, responses.given.T @ posterior
            if compared is not None and self.n_iter_ > 5:
                self._choose_rows(n_right, n_given, compared, rule)
                able = _able(self.q_, self.profiles_, rule)
            self.slip_, self.guess_ = _rates(n_right, n_given, able)
            if self.n_iter_ > 6 and total - before < options.tol * n_people:
                break
            before = total
        self.log_likelihood_ = total
        self.profile_frequency_ = frequency
        self.skill_probability_: Doubles = posterior @ self.profiles_
        self.skills_: Bits = (self.skill_probability_ > 0.5).astype(np.uint8)
        n_numbers = 2 * n_items + 2**K - 1
        self.aic_ = 2 * n_numbers - 2 * total
        self.bic_ = n_numbers * float(np.log(n_people)) - 2 * total

    def _choose_rows(
        self, n_right: Doubles, n_given: Doubles, compared: list[Bits], rule: Rule
    ) -> None:
        """Give each item the row of the Q-matrix that explains its answers best."""
        for j, rows in enumerate(compared):
            able = _able(rows, self.profiles_, rule)
            score = _log_likelihood(n_right[j : j + 1], n_given[j : j + 1], able)
            if score.max() == -np.inf:  # nobody answers better for any skills
                continue
            self.q_[j] = rows[score.argmax()]
            weight = np.exp(score - score.max())
            self.q_probability_[j] = weight @ rows / weight.sum()


def _complement(observations: Observations) -> Observations:
    """The same with ones for zeros, and zeros for ones."""
    return Observations(
        observations.shape, observations.indptr, observations.indices, 1 - observations.values
    )


def _patterns(K: int) -> Bits:
    """All vectors of K bits, (2^K, K)."""
    return ((np.arange(2**K)[:, None] >> np.arange(K)) & 1).astype(np.uint8)


def _candidates(known: Doubles) -> list[Bits]:
    """The rows that each item may have: at least one skill, and those that are known."""
    rows = _patterns(known.shape[1])[1:]
    return [rows[((rows == line) | np.isnan(line)).all(axis=1)] for line in known]


def _with_a_skill(chance: Doubles) -> Bits:
    """The probable skills of each item, at least one."""
    q = (chance > 0.5).astype(np.uint8)
    none = ~q.any(axis=1)
    q[none, chance[none].argmax(axis=1)] = 1
    return q


def _able(rows: Bits, profiles: Bits, rule: Rule) -> NDArray[np.bool_]:
    """Whether the skills of each profile suffice for each row of a Q-matrix, (rows, profiles)."""
    shared = rows.astype(np.int64) @ profiles.T.astype(np.int64)
    return shared > 0 if rule == "dino" else shared == rows.sum(axis=1, keepdims=True)


def _posterior(responses: _Responses, right: Doubles, frequency: Doubles) -> tuple[Doubles, float]:
    """P(profile) of every person, (people, 2^K), and the log-likelihood of all answers."""
    wrong = responses.given - responses.right
    log = responses.right @ np.log(right) + wrong @ np.log1p(-right) + np.log(frequency)
    highest = log.max(axis=1, keepdims=True)
    weight = np.exp(log - highest)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, float(np.sum(highest + np.log(total)))


def _rates(n_right: Doubles, n_given: Doubles, able: NDArray[np.bool_]) -> tuple[Doubles, Doubles]:
    """Slip and guess rates of items, given expected numbers of answers by profile.

    Half a right and half a wrong answer are added, so that no rate is 0 or 1.
    """
    of_able = [(n * able).sum(axis=1) for n in (n_right, n_given)]
    of_others = [(n * ~able).sum(axis=1) for n in (n_right, n_given)]
    slip = 1 - (of_able[0] + 0.5) / (of_able[1] + 1)
    guess = (of_others[0] + 0.5) / (of_others[1] + 1)
    return slip, guess


def _log_likelihood(n_right: Doubles, n_given: Doubles, able: NDArray[np.bool_]) -> Doubles:
    """The log-likelihood of the answers with these rates; low if the able answer worse."""
    slip, guess = _rates(n_right, n_given, able)
    right = np.where(able, 1 - slip[:, None], guess[:, None])
    total = np.sum(n_right * np.log(right) + (n_given - n_right) * np.log1p(-right), axis=1)
    return np.where(1 - slip > guess, total, -np.inf)
