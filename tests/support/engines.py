"""Problems that know their back end, so that tests can speak of a problem and a state alone."""

from contextlib import contextmanager
from weakref import WeakKeyDictionary

import numpy as np

from boolweave.engine import loop
from boolweave.engine.backend import State
from boolweave.engine.floats import FloatBackend, FloatMessages, pack, unpack
from boolweave.engine.integers import IntegerBackend, IntegerMessages
from boolweave.engine.quantization import quantization_for

__all__ = [
    "backend_of", "beliefs", "init", "init_from", "log_posterior", "make_problem", "messages_of",
    "pack", "quantization_for", "run", "state_from_messages", "step", "to_sum_product", "unpack",
    "with_model",
]  # fmt: skip

_BACKENDS = WeakKeyDictionary()


def make_problem(observations, model, dtype=np.float32, code=None, store=None):
    """A problem for float messages or, with a `code`, for integers."""
    if code is None:
        backend = FloatBackend(observations, dtype=dtype)
    else:
        backend = IntegerBackend(observations, store=store)
    return _posed(backend, model)


def _posed(backend, model):
    problem = backend.problem(model)
    _BACKENDS[problem] = backend
    return problem


def backend_of(problem):
    return _BACKENDS[problem]


def with_model(problem, model):
    return _posed(backend_of(problem), model)


def init(problem, random):
    return backend_of(problem).random_start(problem, random)


def init_from(problem, field=None):
    return backend_of(problem).start(problem, field)


def state_from_messages(problem, to_row, to_column):
    """A max-sum state with the given messages (floats)."""
    return State(FloatMessages(to_row, to_column))


def to_sum_product(problem, state):
    return backend_of(problem).to_sum_product(problem, state)


def step(problem, state, damping, pool=None):
    with _pool(problem, pool) as backend:
        backend.step(problem, state, damping)


def beliefs(problem, state):
    """Ξ (M, K) and Υ (K, N)."""
    found = backend_of(problem).beliefs(problem, state)
    return found.rows, found.columns


def log_posterior(problem, state, pool=None):
    with _pool(problem, pool) as backend:
        return backend.log_posterior(problem, state)


def messages_of(problem, state):
    """Φ and Ψ as log-odds, each (entries, K), in the order of the entries by rows."""
    sides = state.messages.to_row, state.messages.to_column
    if isinstance(state.messages, IntegerMessages):
        return tuple(_from_integers(problem, state.semiring, packed) for packed in sides)
    to_row, to_column = (unpack(problem, packed) for packed in sides)
    if state.semiring == "sum-product":
        return np.log(to_row), np.log(to_column)
    return to_row, to_column


def _from_integers(problem, semiring, packed):
    unit = np.float32(problem.quantization.unit_in(semiring))
    parts = [np.zeros((0, problem.n_components), dtype=np.float32)]
    for block, array in zip(problem.blocks, packed, strict=True):
        values = block.from_lanes(array).astype(np.float32)
        parts.append((values - problem.offsets(block, semiring)[:, None]) * unit)
    return np.concatenate(parts)


def run(problem, state, observations, n_jobs=None, **options):
    backend = backend_of(problem)
    if n_jobs is not None:
        backend = type(backend)(observations, n_jobs)
    return loop.run(backend, problem, state, observations, **options)


@contextmanager
def _pool(problem, pool):
    """The back end of a problem, with the threads of a pool."""
    backend = backend_of(problem)
    if pool is None:
        yield backend
        return
    before = backend.pool, getattr(backend, "n_jobs", None)
    backend.pool, backend.n_jobs = pool, pool._max_workers
    try:
        yield backend
    finally:
        backend.pool, backend.n_jobs = before
