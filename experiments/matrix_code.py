"""A message sent as a low-rank XOR matrix, decoded by completion.

This is the last idea in the paper of Ravanbakhsh, Póczos and Greiner (2016). The bits of a message
form two factors X (M, K) and Y (K, N). Entries of their XOR product are sent through a channel that
flips and erases, and the receiver completes the matrix. The number of entries that are sent
determines the rate.

    message bits   K (M + N) − K², because X A and A⁻¹ Y give the same matrix (A invertible, K × K)
    rate           message bits per entry sent
    capacity       (1 − erased) (1 − h(flip)), where h is the binary entropy

A word is wrong if any entry of the completed matrix is wrong. For comparison, a regular (3, 6)
parity-check code of about the same length is sent through the same channel and decoded by
sum-product.

    python experiments/matrix_code.py            # 3 trials per point
    python experiments/matrix_code.py --full     # 20 trials per point
"""

from __future__ import annotations

import json

import numpy as np
from common import conclude, figure, listed, run_all, save, start, write_csv

from boolweave import factorize
from boolweave.decoding import ParityCheckCode, bsc_llr

MEASURES = ("model", "engine", "fit", "decoding/parity_check.py", "decoding/tanner.py")
SIZE = 60
FLIP, ERASED = 0.02, 0.1
RANKS = (1, 2, 3, 4)
RATES = (0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def capacity(flip: float, erased: float) -> float:
    entropy = -flip * np.log2(flip) - (1 - flip) * np.log2(1 - flip)
    return float((1 - erased) * (1 - entropy))


def message_bits(rank: int) -> int:
    return 2 * SIZE * rank - rank * rank


def channel(bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Flip some bits, and erase others (NaN)."""
    seen = (bits ^ (rng.random(bits.shape) < FLIP)).astype(float)
    seen[rng.random(bits.shape) < ERASED] = np.nan
    return seen


def one(task: dict) -> dict:
    """Compute the word and entry errors of a code; rank 0 means the parity-check code."""
    if task["rank"] == 0:
        return parity_check_words(task["trials"], seed=0)
    return matrix_words(task["rank"], task["rate_wanted"], task["trials"], seed=0)


def matrix_words(rank: int, rate: float, trials: int, seed: int) -> dict:
    """Compute the word and entry errors of the matrix code at one rank and rate."""
    sent_entries = round(message_bits(rank) / rate)
    wrong_words, wrong_entries = [], []
    for trial in range(trials):
        rng = np.random.default_rng([seed, rank, int(1000 * rate), trial])
        x, y = rng.integers(0, 2, (SIZE, rank)), rng.integers(0, 2, (rank, SIZE))
        z = (x @ y % 2).astype(np.uint8)
        seen = channel(z, rng).ravel()
        seen[rng.permutation(z.size)[sent_entries:]] = np.nan  # never sent
        found = factorize(
            seen.reshape(z.shape), rank, product="xor", noise=FLIP, row_prior=0.5,
            column_prior=0.5, random_state=trial,
        )  # fmt: skip
        errors = (z != found.Z).mean()
        wrong_entries.append(errors)
        wrong_words.append(errors > 0)
    word = float(np.mean(wrong_words))
    return {
        "rank": rank, "rate": message_bits(rank) / sent_entries, "trials": trials,
        "sent": sent_entries, "word_error": word, "entry_error": float(np.mean(wrong_entries)),
        "word_standard_error": float(np.sqrt(word * (1 - word) / trials)),
    }  # fmt: skip


def regular_code(n: int, rng: np.random.Generator) -> ParityCheckCode:
    """Make a code with three ones in each column, from three random assignments to the checks."""
    matrix = np.zeros((n // 2, n), dtype=np.uint8)
    for _ in range(3):
        matrix[rng.permutation(n) % (n // 2), np.arange(n)] = 1
    return ParityCheckCode(matrix)


def parity_check_words(trials: int, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    code = regular_code(SIZE * SIZE, rng)
    sent = code.encode(rng.integers(0, 2, (trials, code.k)))
    found = code.decode(bsc_llr(channel(sent, rng), FLIP))
    wrong = (found.bits != sent).any(axis=1)
    return {"rate": code.rate, "trials": trials, "word_error": float(wrong.mean())}


def draw(run, report: dict, ranks: tuple[int, ...]) -> None:
    drawn, axes = figure(10, 4, 1, 2, sharex=True)
    for axis, kind, label in (
        (axes[0, 0], "word_error", "share of matrices with a wrong entry"),
        (axes[0, 1], "entry_error", "share of wrong entries"),
    ):
        for rank in ranks:
            rows = [row for row in report["matrix_code"] if row["rank"] == rank]
            bars = [row["word_standard_error"] for row in rows] if kind == "word_error" else None
            axis.errorbar(
                [row["rate"] for row in rows], [row[kind] for row in rows], yerr=bars,
                marker="o", markersize=4, capsize=2, label=f"K = {rank}",
            )  # fmt: skip
        axis.axvline(report["capacity"], color="black", linestyle="--", label="capacity")
        axis.set(xlabel="rate: message bits per entry sent", ylabel=label, xlim=(0, None))
    peer = report["parity_check_code"]
    name = "regular (3, 6) code"
    axes[0, 0].plot(peer["rate"], peer["word_error"], "k*", markersize=10, label=name)
    axes[0, 0].legend()
    axes[0, 0].set_title(f"{SIZE} × {SIZE}, flips {FLIP:g}, erasures {ERASED:g}")
    save(run, drawn)


def main() -> None:
    run = start(__file__, __doc__, by_method=False, measures=MEASURES)
    trials = run.pick(1, 3, 20)
    ranks, rates = run.pick((1,), RANKS, RANKS), run.pick((0.08,), RATES, RATES)
    tasks = [{"rank": 0, "rate_wanted": 0.5, "trials": run.pick(2, 20, 200)}]
    tasks += [
        {"rank": rank, "rate_wanted": rate, "trials": trials}
        for rank in ranks for rate in rates
        if message_bits(rank) / rate <= SIZE * SIZE  # not more than all entries
    ]  # fmt: skip
    peer, *rows = run_all(run, one, tasks)
    report = {
        "size": SIZE, "flip": FLIP, "erased": ERASED, "capacity": capacity(FLIP, ERASED),
        "parity_check_code": peer, "matrix_code": rows,
    }  # fmt: skip
    run.path("json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    write_csv(run, [{k: v for k, v in row.items() if k != "rate_wanted"} for row in rows])
    draw(run, report, ranks)
    words = []
    for rank in ranks:
        safe = [row["rate"] for row in rows if row["rank"] == rank and row["word_error"] == 0]
        words.append(f"{max(safe):.2f} for K = {rank}" if safe else f"none for K = {rank}")
    wrong = f"{peer['word_error']:.0%} of its words wrong at rate {peer['rate']:.2f}"
    conclude(
        run,
        f"The highest rate without a wrong matrix is {listed(words)}. A regular (3, 6) code has "
        f"{wrong}. The capacity of the channel is {report['capacity']:.2f}.",
    )


if __name__ == "__main__":
    main()
