"""Problems whose factor graph is a tree, where message passing is exact."""

import numpy as np
from hypothesis import strategies as st
from problems import random_small

# Certain log-odds (±∞) show as a sum of capped evidence; far above what finite ones reach here.
CERTAIN = 250.0

# Largest number of rows and columns for each K: few enough bits to enumerate quickly.
MATCHING_SIDE = {1: 5, 2: 3, 3: 2, 4: 1, 5: 1}
FOREST_SIDE = 6


@st.composite
def trees(draw, hard=True):
    """Ω a matching with any K, or K = 1 and Ω a forest."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        K = draw(st.integers(1, 5))
        most = MATCHING_SIDE[K]
        M, N = draw(st.integers(1, most)), draw(st.integers(1, most))
        where = random_matching(rng, M, N)
    else:
        K = 1
        M, N = draw(st.integers(1, FOREST_SIDE)), draw(st.integers(1, FOREST_SIDE))
        where = random_forest(rng, M, N)
    share_hard = st.sampled_from([0.0, 0.25]) if hard else st.just(0.0)
    return random_small(
        int(rng.integers(2**32)),
        (M, N, K),
        where=where,
        hard_prior=draw(share_hard),
        hard_noise=draw(share_hard),
        product=draw(st.sampled_from(["or", "xor"])),
    )


def random_matching(rng, M, N):
    where = np.zeros((M, N), dtype=bool)
    size = rng.integers(0, min(M, N) + 1)
    where[rng.permutation(M)[:size], rng.permutation(N)[:size]] = True
    return where


def random_forest(rng, M, N):
    """Add random entries as long as they close no cycle of rows and columns."""
    where = np.zeros((M, N), dtype=bool)
    component = np.arange(M + N)
    for entry in rng.permutation(M * N):
        m, n = divmod(int(entry), N)
        if component[m] != component[M + n] and rng.random() < 0.8:
            component[component == component[m]] = component[M + n]
            where[m, n] = True
    return where


def assert_same_log_odds(found, expected, atol=1e-8):
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], atol=atol, rtol=0)
    certain = ~finite
    assert (found[certain] * np.sign(expected[certain]) > CERTAIN).all()
