"""Which problems get integer messages, and that their answers are as good as with floats."""

from types import SimpleNamespace

import numpy as np
import pytest
from engines import beliefs, init, make_problem, step, to_sum_product

from boolweave import BooleanMatrixFactorization, Channel, Observations
from boolweave.datasets import make_boolean
from boolweave.engine import integers, quantization
from boolweave.engine.floats import FloatBackend
from boolweave.engine.integers import IntegerBackend
from boolweave.fit import learn
from boolweave.fit.stages import LocalBackends
from boolweave.model.model import Model

# ---------------------------------------------------------------- which problems

NOT_POSSIBLE = {
    "differs from entry to entry": {"channel": Channel.symmetric(np.full((3, 4), 0.1))},
    "missing entry is evidence": {
        "channel": Channel(
            one_given_zero=0.1,
            one_given_one=0.6,
            missing_given_zero=0.2,
            missing_given_one=0.3,
        )
    },
    "is not evidence for": {"channel": Channel(one_given_zero=0.6, one_given_one=0.4)},
    "differs too much": {"channel": Channel(one_given_zero=0.0001, one_given_one=0.5)},
    "almost certain": {"channel": Channel.symmetric(1e-6)},
    "more than 120 factors": {"n_components": 121},
}


@pytest.mark.parametrize("reason", NOT_POSSIBLE)
def test_reasons(reason):
    options = {"n_components": 2, "channel": Channel.symmetric(0.1)} | NOT_POSSIBLE[reason]
    found = quantization.quantization_for(Model(**options))
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    ("flip", "reason"), [(0.0, "almost certain"), (1.0, "not evidence"), (0.5, "not evidence")]
)
def test_no_code_without_noise_or_evidence(flip, reason):
    assert reason in quantization.quantization_for(Model(2, Channel.symmetric(flip)))


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("channel", [(0.1, 0.9), (0.01, 0.6), (0.49, 0.51), (1e-5, 1 - 1e-5)])
def test_codes(product, channel):
    model = Model(3, Channel(one_given_zero=channel[0], one_given_one=channel[1]), product=product)
    code = quantization.quantization_for(model)
    assert isinstance(code, quantization.Quantization)
    assert code.bounds.max() == code.steps == (255 if product == "or" else 127)
    assert code.bounds.min() >= 1
    zero, one, nothing = code.levels
    assert zero < 0 < one and nothing == 0
    np.testing.assert_allclose(
        code.bounds * code.unit, [-zero, one], atol=0.5 * code.unit, rtol=1e-9
    )
    np.testing.assert_allclose(code.small, np.exp([zero, -one]), rtol=1e-6)


class Begun(Exception):
    """The fit begins, with this back end."""


class Watched(LocalBackends):
    """Says which back end was chosen."""

    def make(self, *arguments):
        raise Begun(type(super().make(*arguments)))


def backend_of_fit(**options):
    settings = learn.Settings(n_components=options.pop("n_components", 2), **options)
    with pytest.raises(Begun) as begun:
        random = np.random.default_rng(0)
        learn.fit(Observations.from_data(SEEN), settings, random, backends=Watched())
    return begun.value.args[0]


SEEN = np.array([[1.0, 0.0, np.nan, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, np.nan]])


@pytest.mark.parametrize(
    "options",
    [
        {"noise": Channel.symmetric(np.full((3, 4), 0.1))},
        {"noise": Channel.symmetric(0.0)},
        {"n_components": 121},
    ],
)
def test_auto_falls_back_to_floats(options):
    assert backend_of_fit(**options) is FloatBackend
    settings = learn.Settings(**{"n_components": 2} | options, messages="uint8")
    with pytest.raises(ValueError, match=r'messages="uint8" is not possible here: .*"float32"'):
        learn.fit(Observations.from_data(SEEN), settings, np.random.default_rng(0))


def test_which_messages():
    assert backend_of_fit() is IntegerBackend
    assert backend_of_fit(messages="uint8") is IntegerBackend
    assert backend_of_fit(messages="float32") is FloatBackend


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the factors contradict")
def test_the_estimator_says_why_not():
    model = BooleanMatrixFactorization(2, noise=0.0, messages="uint8", random_state=0)
    with pytest.raises(ValueError, match="not possible here"):
        model.fit(SEEN)
    BooleanMatrixFactorization(2, noise=0.0, max_iter=5, random_state=0).fit(SEEN)


# ---------------------------------------------------------------- memory and overflow


def test_messages_take_a_byte_each():
    rng = np.random.default_rng(0)
    seen = Observations.from_dense(rng.integers(0, 2, (60, 512)))
    model = Model(4, Channel.symmetric(0.1))
    problem = make_problem(seen, model, code=quantization.quantization_for(model))
    state = init(problem, rng)
    used = sum(a.nbytes for a in (*state.messages.to_row, *state.messages.to_column))
    assert used == 2 * 4 * seen.n_observed
    state = to_sum_product(problem, state)
    used = sum(a.nbytes for a in (*state.messages.to_row, *state.messages.to_column))
    assert used == 4 * 4 * seen.n_observed
    block = problem.blocks[0]
    assert np.shares_memory(block.codes, seen.values)  # the input is not copied


def test_sums_that_need_more_than_32_bits(monkeypatch):
    """A column of many strong messages: 64 bits where 32 might not do, with the same numbers."""
    few, many, short = (
        SimpleNamespace(
            blocks=[SimpleNamespace(indptr=np.array([0, n]))],
            most_in_column=n,
            shape=(n_rows, n),
            n_components=4,
        )
        for n, n_rows in ((20, 20), (10**6, 1), (20, 10**6))
    )
    assert integers._sum_types(few, "max-sum") == (np.int32, np.int32)
    assert integers._sum_types(short, "max-sum") == (np.int16, np.int32)
    assert integers._sum_types(short, "sum-product") == (np.int32, np.int32)
    assert integers._sum_types(many, "max-sum") == (np.int64, np.int64)
    rng = np.random.default_rng(0)
    seen = Observations.from_dense(rng.integers(0, 2, (30, 40)))
    model = Model(2, Channel.symmetric(0.1))
    found = []
    for kind in (np.int32, np.int64):
        monkeypatch.setattr(integers, "_sum_types", lambda *_, kind=kind: (kind, kind))
        problem = make_problem(seen, model, code=quantization.quantization_for(model))
        state = init(problem, np.random.default_rng(1))
        for _ in range(3):
            step(problem, state, 0.4)
        state = to_sum_product(problem, state)
        sums = state.messages.sums
        assert sums.rows[0].sums.dtype == sums.columns.sums.dtype == kind
        for _ in range(3):
            step(problem, state, 0.4)
        found.append(beliefs(problem, state))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


# ---------------------------------------------------------------- as good as floats


def error_of(messages, method, product, seed):
    K = 3 if product == "or" else 2
    planted = make_boolean(120, 100, K, product=product, flip=0.1, observed=0.7, random_state=seed)
    model = BooleanMatrixFactorization(
        K, product=product, method=method, messages=messages, n_init=4, random_state=seed
    ).fit(planted.observations)
    found = model.inverse_transform((model.row_log_odds_ > 0).astype(np.uint8))
    return float(np.mean(found != planted.Z)), model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("method", "product"),
    [("max-sum", "or"), ("sum-product", "or"), ("auto", "or"), ("max-sum", "xor"), ("auto", "xor")],
)
def test_as_good_as_floats(method, product):
    errors = {}
    for messages in ("uint8", "float32"):
        errors[messages] = np.mean([error_of(messages, method, product, s)[0] for s in range(3)])
    assert errors["uint8"] <= errors["float32"] + 0.01


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_learned_channels_are_alike():
    for seed in range(2):
        flips = []
        for messages in ("uint8", "float32"):
            _, model = error_of(messages, "auto", "or", seed)
            noise = model.noise_
            flips.append((float(noise.one_given_zero), float(noise.one_given_one)))
        np.testing.assert_allclose(*flips, atol=0.01)
