"""Codes: alist files, encoding, channels, decoding."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from decoding_reference import HAMMING, regular_code
from hypothesis import given, settings
from hypothesis import strategies as st

from boolweave.decoding import (
    ParityCheckCode,
    awgn_llr,
    bec_llr,
    bsc_llr,
    ebn0_to_sigma,
    infer_factor,
    read_alist,
    write_alist,
)
from boolweave.decoding.parity_check import eliminate

REPETITION = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]])


@pytest.fixture(scope="module")
def regular():
    return ParityCheckCode(regular_code(300, 3, 6))


def sent_and_received(code, n_words, flip, seed=0):
    rng = np.random.default_rng(seed)
    sent = code.encode(rng.integers(0, 2, (n_words, code.k)))
    return sent, sent ^ (rng.random(sent.shape) < flip)


# ---------------------------------------------------------------- encoding


@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 12),
    n_columns=st.integers(1, 140),
    density=st.sampled_from([0.05, 0.3, 0.9]),
)
@settings(max_examples=60)
def test_elimination(seed, n_rows, n_columns, density):
    rng = np.random.default_rng(seed)
    matrix = (rng.random((n_rows, n_columns)) < density).astype(np.uint8)
    matrix[rng.integers(n_rows)] = matrix[0]  # often of lower rank
    found = eliminate(matrix)
    assert sorted([*found.pivots, *found.free]) == list(range(n_columns))
    words = np.zeros((len(found.free), n_columns), dtype=np.uint8)
    words[:, found.free] = np.eye(len(found.free))
    words[:, found.pivots] = found.parity.T
    assert not (words.astype(int) @ matrix.T % 2).any()
    # No more words than these: all 2^rank sums of the rows are different from each other.
    reduced = matrix[:, found.pivots]
    assert len(eliminate(reduced).pivots) == len(found.pivots)


@pytest.mark.parametrize(
    "H", [HAMMING, REPETITION, np.vstack([HAMMING, HAMMING]), [[0, 1], [0, 0]]]
)
def test_all_words_of_small_codes(H):
    code = ParityCheckCode(H)
    H = np.asarray(H)
    wanted = {word for word in itertools.product((0, 1), repeat=code.n) if not (H @ word % 2).any()}
    messages = np.array(list(itertools.product((0, 1), repeat=code.k)))
    words = code.encode(messages)
    assert {tuple(word) for word in words.tolist()} == wanted
    np.testing.assert_array_equal(words[:, code.information_positions], messages)
    np.testing.assert_array_equal(code.generator @ H.T % 2, 0)
    assert code.rate == code.k / code.n
    np.testing.assert_array_equal(code.encode(messages[-1]), words[-1])


def test_the_message_comes_first_where_it_can():
    np.testing.assert_array_equal(ParityCheckCode(HAMMING).information_positions, [0, 1, 2, 3])


def test_syndromes(regular):
    sent, received = sent_and_received(regular, 5, 0.1)
    assert not regular.syndrome(sent).any()
    wanted = received @ regular.parity_check.toarray().T.astype(int) % 2
    np.testing.assert_array_equal(regular.syndrome(received), wanted)
    np.testing.assert_array_equal(regular.syndrome(received[0]), wanted[0])


# ---------------------------------------------------------------- decoding


@pytest.mark.parametrize("method", ["sum-product", "max-sum", "min-sum", "product-sum"])
@pytest.mark.parametrize("schedule", ["flooding", "serial"])
def test_a_noisy_batch(regular, method, schedule):
    sent, received = sent_and_received(regular, 60, 0.035)
    found = regular.decode(bsc_llr(received, 0.035), method=method, schedule=schedule)
    right = (found.bits == sent).all(axis=1)
    assert right.mean() > 0.9
    np.testing.assert_array_equal(found.converged, found.syndrome_weight == 0)
    np.testing.assert_array_equal(found.syndrome_weight, regular.syndrome(found.bits).sum(axis=1))
    assert found.bits.dtype == np.uint8 and found.bits.shape == (60, 300)
    assert (found.n_iter <= 50).all() and found.llr.shape == (60, 300)
    names = {"min-sum": "max-sum", "product-sum": "sum-product"}
    same = regular.decode(
        bsc_llr(received, 0.035), method=names.get(method, method), schedule=schedule, n_jobs=2
    )
    np.testing.assert_array_equal(same.llr, found.llr)


def test_the_serial_schedule_takes_fewer_iterations(regular):
    _, received = sent_and_received(regular, 50, 0.03)
    iterations = [
        regular.decode(bsc_llr(received, 0.03), schedule=schedule).n_iter.mean()
        for schedule in ("flooding", "serial")
    ]
    assert iterations[1] < 0.75 * iterations[0]


def test_scaling_helps_min_sum(regular):
    sent, received = sent_and_received(regular, 100, 0.045)
    wrong = [
        (regular.decode(bsc_llr(received, 0.045), method="min-sum", scale=s).bits != sent)
        .any(axis=1)
        .mean()
        for s in (None, 1.0)
    ]
    assert wrong[0] < wrong[1]


def test_one_word_and_right_words(regular):
    sent, _ = sent_and_received(regular, 1, 0)
    found = regular.decode(bsc_llr(sent[0], 0.05))
    assert found.bits.shape == (300,) and found.llr.shape == (300,)
    assert (found.converged, found.n_iter, found.syndrome_weight) == (True, 0, 0)
    batch = regular.decode(bsc_llr(sent, 0.05))
    assert batch.bits.shape == (1, 300) and batch.converged.shape == (1,)
    assert regular.decode(np.zeros((0, 300))).bits.shape == (0, 300)


def test_a_word_that_cannot_be_decoded_says_so(regular):
    llr = np.random.default_rng(0).normal(0, 1, 300)
    found = regular.decode(llr, max_iter=5)
    assert not found.converged and found.n_iter == 5 and found.syndrome_weight > 0


def test_the_sign_of_coding():
    code = ParityCheckCode(REPETITION)
    np.testing.assert_array_equal(code.decode([3, 1, -1, 2, 1]).bits, 0)
    np.testing.assert_array_equal(code.decode([-3, 1, -1, -2, 1]).bits, 1)


def test_the_repetition_code_adds_up():
    """All bits are equal, so that the sum of the ratios decides, as messages on a tree find out."""
    llr = np.random.default_rng(0).normal(0, 2, (200, 5))
    ones = llr.sum(axis=1) < 0
    for how in ({"method": "sum-product"}, {"method": "max-sum", "scale": 1.0}):
        found = ParityCheckCode(REPETITION).decode(llr, max_iter=20, **how)
        assert found.converged.all()
        np.testing.assert_array_equal(found.bits, np.repeat(ones[:, None], 5, axis=1))


@pytest.mark.parametrize("method", ["sum-product", "max-sum"])
@pytest.mark.parametrize("schedule", ["flooding", "serial"])
def test_erasures_are_peeled(regular, method, schedule):
    rng = np.random.default_rng(2)
    sent = regular.encode(rng.integers(0, 2, (30, regular.k)))
    received = np.where(rng.random(sent.shape) < 0.38, np.nan, sent)
    found = regular.decode(bec_llr(received), method=method, schedule=schedule, max_iter=100)
    H = regular.parity_check.toarray()
    for word in range(30):
        gone = np.isnan(received[word])
        while True:  # a check with one erased bit tells it
            single = H[:, gone].sum(axis=1) == 1
            if not single.any():
                break
            gone &= ~H[single].any(axis=0)
        known = ~gone
        np.testing.assert_array_equal(found.bits[word, known], sent[word, known])
        np.testing.assert_array_equal(found.llr[word] == 0, gone)
        assert found.converged[word] == (not gone.any())


def test_gaussian_channel(regular):
    sigma = ebn0_to_sigma(3.5, regular.rate)
    rng = np.random.default_rng(3)
    sent = regular.encode(rng.integers(0, 2, (40, regular.k)))
    received = 1.0 - 2.0 * sent + sigma * rng.normal(size=sent.shape)
    found = regular.decode(awgn_llr(received, sigma))
    assert (found.bits == sent).all(axis=1).mean() > 0.9
    assert ((received < 0) != sent).any(axis=1).all()
    # min-sum does not care about the scale of the ratios
    a, b = (regular.decode(awgn_llr(received, s), method="min-sum") for s in (sigma, 8 * sigma))
    np.testing.assert_array_equal(a.bits, b.bits)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "min-sum", "schedule": "serial", "max_iter": 9, "scale": 0.8, "damping": 0.9,
         "n_jobs": 2},
    ],
)  # fmt: skip
def test_syndrome_decoding_is_decoding(regular, how):
    _, received = sent_and_received(regular, 30, 0.04)
    by_word = regular.decode(bsc_llr(received, 0.04), **how)
    by_syndrome = regular.decode_syndrome(regular.syndrome(received), 0.04, **how)
    done = by_word.converged
    np.testing.assert_array_equal((by_word.bits ^ received)[done], by_syndrome.bits[done])
    np.testing.assert_array_equal(by_word.n_iter, by_syndrome.n_iter)
    np.testing.assert_array_equal(by_word.syndrome_weight, by_syndrome.syndrome_weight)
    one = regular.decode_syndrome(regular.syndrome(received[0]), np.full(300, 0.04), **how)
    np.testing.assert_array_equal(one.bits, by_syndrome.bits[0])


def test_known_bits_stay_known():
    code = ParityCheckCode(HAMMING)
    word = code.encode([1, 1, 0, 1])
    llr = bsc_llr(word, 0.2)
    llr[:4] = np.where(word[:4], -np.inf, np.inf)
    llr[4:] *= -1  # all the rest is wrong
    found = code.decode(llr, max_iter=20)
    np.testing.assert_array_equal(found.bits, word)
    assert np.isinf(found.llr[:4]).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("llr", "error", "says"),
    [
        (np.zeros(6), ValueError, r"shape \(words, 7\)"),
        (np.zeros((2, 8)), ValueError, r"got \(2, 8\)"),
        (np.zeros((1, 1, 7)), ValueError, "one row per word"),
        (np.full(7, np.nan), ValueError, "NaN at word 0, bit 0"),
        (["a"] * 7, TypeError, "numbers"),
        (np.zeros(7, complex), TypeError, "numbers"),
    ],
)
def test_bad_ratios(llr, error, says):
    with pytest.raises(error, match=says):
        ParityCheckCode(HAMMING).decode(llr)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "bp"}, "sum-product"),
        ({"scale": 0.5}, "leave it out"),
        ({"method": "min-sum", "scale": 2}, "scale must be above 0"),
        ({"schedule": "layers"}, "serial"),
        ({"max_iter": 0}, "max_iter"),
        ({"damping": -1}, "damping"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_options(options, says):
    with pytest.raises(ValueError, match=says):
        ParityCheckCode(HAMMING).decode(np.ones(7), **options)


def test_other_bad_input():
    code = ParityCheckCode(HAMMING)
    with pytest.raises(ValueError, match="number of message bits"):
        code.encode([1, 0])
    with pytest.raises(ValueError, match="only 0 and 1"):
        code.encode([1, 0, 2, 1])
    with pytest.raises(ValueError, match="length of a code word"):
        code.syndrome(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="number of checks"):
        code.decode_syndrome([1], 0.1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        code.decode_syndrome([1, 0, 0], 1.1)
    with pytest.raises(ValueError, match="shape"):
        code.decode_syndrome([1, 0, 0], [0.1, 0.2])
    with pytest.raises(ValueError, match="parity_check must hold only 0 and 1"):
        ParityCheckCode([[3]])
    with pytest.raises(ValueError, match="flip"):
        bsc_llr([0, 1], 1.5)
    with pytest.raises(ValueError, match="awgn_llr"):
        bsc_llr([0.3], 0.1)
    with pytest.raises(ValueError, match="sigma"):
        awgn_llr([1.0], 0.0)
    with pytest.raises(ValueError, match="rate"):
        ebn0_to_sigma(1.0, 0.0)
    assert bsc_llr([np.nan], 0.1)[0] == 0


# ---------------------------------------------------------------- alist


def test_alist_round_trip(tmp_path):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        matrix = (rng.random((6, 9)) < 0.3).astype(np.uint8)
        matrix[2] = 0
        write_alist(tmp_path / "H.alist", scipy.sparse.coo_array(matrix))
        np.testing.assert_array_equal(read_alist(tmp_path / "H.alist").toarray(), matrix)
    code = ParityCheckCode.from_alist(tmp_path / "H.alist")
    assert (code.n_checks, code.n) == (6, 9)


RAGGED = """# columns, rows
3 2   # sizes
2 2
1 2 1
2 2
1
1 2
2
1 2
2 3
"""


def test_alist_without_padding_and_with_comments(tmp_path):
    (tmp_path / "H.alist").write_text(RAGGED)
    np.testing.assert_array_equal(
        read_alist(tmp_path / "H.alist").toarray(), [[1, 1, 0], [0, 1, 1]]
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("3 2   #", "3 x   #", "line 2: expected whole numbers, got 'x'"),
        ("3 2   #", "0 2   #", "at least 1"),
        ("1 2 1\n", "1 5 1\n", "column 2 has weight 5"),
        ("\n2 3\n", "\n2\n", "ends within the list of row 2"),
        ("\n2 3\n", "\n2 4\n", "row 2 must hold 2 different numbers from 1 to 3"),
        ("\n2 3\n", "\n2 2\n", "different"),
        ("\n2 3\n", "\n1 3\n", "row 2 does not agree"),
        ("\n2 3\n", "\n2 3\n7\n", "more numbers after the last row"),
        (RAGGED, "", "the file ends"),
        (RAGGED, "PNG", "is this an alist file"),
    ],
)
def test_bad_alist(tmp_path, old, new, says):
    (tmp_path / "H.alist").write_text(RAGGED.replace(old, new))
    with pytest.raises(ValueError, match=says):
        read_alist(tmp_path / "H.alist")


@pytest.mark.parametrize("content", [b"3 2\n\xff\xfe 2\n", b"3 2\n" + b"9" * 5000 + b"\n"])
def test_an_alist_that_is_no_text_or_goes_on_and_on(tmp_path, content):
    (tmp_path / "H.alist").write_bytes(content)
    with pytest.raises(ValueError, match=r"H\.alist, line 2: expected") as caught:
        read_alist(tmp_path / "H.alist")
    assert len(str(caught.value)) < 500


def test_missing_alist(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_alist(tmp_path / "none.alist")


@pytest.mark.parametrize("option", ["method", "product"])
@pytest.mark.parametrize("value", [np.array(1), np.zeros((0, 0)), np.ones((2, 2))])
def test_an_array_is_not_an_option(option, value):
    with pytest.raises(ValueError, match=f"{option} must be "):
        infer_factor([[1, 0]], [[1]], **{option: value})
