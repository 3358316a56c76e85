"""Small problems for the tests: what is seen, the six-number channel and the priors, all as arrays.

A `Small` problem speaks to both sides: to the package as observations and model, to the slow twins
as log-odds and probabilities worked out here from the definition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import reference
from engines import init, make_problem, pack, run, state_from_messages
from hypothesis import strategies as st

from boolweave.data.observations import Observations
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import HARD_EVIDENCE


@dataclass(frozen=True, eq=False)
class Small:
    """A problem: seen (M, N) of 0, 1, NaN; row_prior (M, K); column_prior (K, N); the channel."""

    seen: np.ndarray
    row_prior: np.ndarray
    column_prior: np.ndarray
    channel: dict[str, np.ndarray] = field(default_factory=dict)
    product: str = "or"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return (*self.seen.shape, self.row_prior.shape[1])

    @property
    def observations(self) -> Observations:
        return Observations.from_dense(self.seen)

    @property
    def model(self) -> Model:
        return Model(
            self.shape[2], Channel(**self.channel), self.row_prior, self.column_prior, self.product
        )

    def problem(self, dtype=np.float64):
        return make_problem(self.observations, self.model, dtype)

    @property
    def given(self) -> np.ndarray:
        """p(o|z), (2, M, N)."""
        return reference.likelihood(self.seen, **self.channel)

    @property
    def evidence(self) -> np.ndarray:
        """L (M, N), finite."""
        with np.errstate(divide="ignore"):
            zero, one = np.maximum(np.log(self.given), -HARD_EVIDENCE)
        return one - zero

    @property
    def prior_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """a (M, K) and b (K, N), ±∞ where known."""
        with np.errstate(divide="ignore"):
            a, b = (np.log(p / (1 - p)) for p in (self.row_prior, self.column_prior))
        return a, b

    def exact(self) -> reference.Exact:
        return reference.enumerate_exactly(
            self.row_prior, self.column_prior, self.given, self.product
        )

    def random_messages(self, seed):
        """Initial Φ and Ψ (M, N, K), 0 outside Ω."""
        rng = np.random.default_rng(seed)
        inside = (self.evidence != 0)[:, :, None]
        return [np.where(inside, rng.logistic(size=self.shape), 0.0) for _ in range(2)]

    def state(self, problem, to_row, to_column):
        """The engine's state with the messages Φ and Ψ (M, N, K)."""
        inside = self.evidence != 0
        return state_from_messages(
            problem, pack(problem, to_row[inside]), pack(problem, to_column[inside])
        )

    # ------------------------------------------------------------ the same problem, otherwise

    def transposed(self) -> Small:
        return replace(
            self,
            seen=self.seen.T,
            row_prior=self.column_prior.T,
            column_prior=self.row_prior.T,
            channel={name: array.T for name, array in self.channel.items()},
        )

    def permuted(self, rows, columns, factors) -> Small:
        return replace(
            self,
            seen=self.seen[rows][:, columns],
            row_prior=self.row_prior[rows][:, factors],
            column_prior=self.column_prior[factors][:, columns],
            channel={name: array[rows][:, columns] for name, array in self.channel.items()},
        )


def posterior_of_one_entry(small: Small) -> float:
    """P(z = 1 | o) of a problem with a single entry, by Bayes' rule."""
    term = small.row_prior[0] * small.column_prior[:, 0]
    prior = 1 - np.prod(1 - term) if small.product == "or" else (1 - np.prod(1 - 2 * term)) / 2
    zero, one = small.given[:, 0, 0]
    return prior * one / (prior * one + (1 - prior) * zero)


def probabilities(rng, shape, *, hard=0.0):
    """Random probabilities, a share `hard` of them 0 or 1."""
    p = rng.uniform(0.02, 0.98, shape)
    return np.where(rng.random(shape) < hard, rng.integers(0, 2, shape), p)


def random_channel(rng, shape, *, hard=0.0, erasure=False):
    """Arrays for `Channel`, all entries different, a share `hard` of them 0 or 1."""
    channel = {
        "one_given_zero": probabilities(rng, shape, hard=hard),
        "one_given_one": probabilities(rng, shape, hard=hard),
    }
    # Noiseless the same way for both values: the observation could be impossible.
    same = channel["one_given_zero"] == channel["one_given_one"]
    channel["one_given_one"] = np.where(same, 0.5, channel["one_given_one"])
    if erasure:
        for given in ("zero", "one"):
            gone = rng.uniform(0.05, 0.95, shape)
            channel[f"missing_given_{given}"] = gone
            channel[f"one_given_{given}"] = channel[f"one_given_{given}"] * (1 - gone)
    return channel


def random_small(
    seed,
    shape,
    *,
    share=0.7,
    hard_prior=0.0,
    hard_noise=0.0,
    erasure=False,
    where=None,
    product="or",
) -> Small:
    """A problem with everything random; Ω is `where` (M, N) of bool, or a random share."""
    M, N, K = shape
    rng = np.random.default_rng(seed)
    observed = rng.random((M, N)) < share if where is None else where
    return Small(
        seen=np.where(observed, rng.integers(0, 2, (M, N)), np.nan),
        row_prior=probabilities(rng, (M, K), hard=hard_prior),
        column_prior=probabilities(rng, (K, N), hard=hard_prior),
        channel=random_channel(rng, (M, N), hard=hard_noise, erasure=erasure),
        product=product,
    )


@st.composite
def smalls(draw, max_side=6, max_factors=5, erasure=True):
    """Problems of all kinds."""
    sides = st.integers(1, max_side)
    return random_small(
        draw(st.integers(0, 2**32 - 1)),
        (draw(sides), draw(sides), draw(st.integers(1, max_factors))),
        share=draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])),
        hard_prior=draw(st.sampled_from([0.0, 0.3])),
        hard_noise=draw(st.sampled_from([0.0, 0.3])),
        erasure=erasure and draw(st.booleans()),
        product=draw(st.sampled_from(["or", "xor"])),
    )


# ---------------------------------------------------------------- runs


def run_from(small, messages, dtype=np.float64, **options):
    """Result from the messages Φ and Ψ (M, N, K)."""
    problem = small.problem(dtype)
    state = small.state(problem, *messages)
    return run(problem, state, small.observations, **options)


def random_run(observations, model, seed=0, **options):
    """Result from random messages, in the float type of the library."""
    problem = make_problem(observations, model)
    return run(problem, init(problem, np.random.default_rng(seed)), observations, **options)


def even_model(n_components, flip=0.1):
    """Symmetric noise, and no opinion about the factors."""
    return Model(n_components, Channel.symmetric(flip))
