"""Decoding of parity-check codes and group testing, compared with other programs.

1. Codes, compared with the `ldpc` package: the same words and the same iterations of min-sum (plain
   and scaled) and product-sum over a binary symmetric channel. Word error rates with their standard
   errors, and decoded bits per second in batches of 1000 words. `ldpc` decodes one word at a time
   on one core; boolweave is timed with one thread and with all cores. Both are timed alternately,
   so that other load on the machine affects both.
2. The CCSDS (128, 64) code over the Gaussian channel, compared with published word error rates:
   AFF3CT, error rate references, LDPC_N128_K64_hlayered_SPA_i50_CCSDS.txt (sum-product, layered, 50
   iterations; simulated with about 100 word errors a point),
   https://github.com/aff3ct/error_rate_references. The same for the (2048, 1723) code of 10G
   Ethernet, LDPC_N2048_K1723_flooding_SPA_i100_eth_10Gbps.txt.
3. Group testing: 1000 items, 1% positive, sensitivity 0.95, specificity 0.99, with several numbers
   of pools, compared with COMP, DD and SCOMP.
4. Calibration of the probabilities of the same tests, with 80 and 120 pools: the mean probability
   of the items and the share of positive ones, in three ranges.
5. Size: 100,000 items in 10,000 pools, time of 100 iterations.

The codes are read from the folder `ldpc` in $BOOLWEAVE_DATA, as alist files. Results are stored in
results/decoding.json; `scripts/decoding_table.py` puts them into the documentation.

    python benchmarks/decoding.py                      # some minutes
    python benchmarks/decoding.py --quick              # a tenth of the words and trials
    python benchmarks/decoding.py --only calibration   # this part; the others stay as they are
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from boolweave.decoding import (
    ParityCheckCode,
    awgn_llr,
    bsc_llr,
    design_pools,
    ebn0_to_sigma,
    group_testing,
    simulate,
)
from processes import record

RESULTS = Path(__file__).resolve().parent / "results" / "decoding.json"

PARTS = ("against_ldpc", "against_published", "sweep_of_pools", "calibration", "large_problem")
MACKAY = ("MacKay 504×1008", "MACKAY_504_1008.alist")
ETHERNET = ("10G Ethernet 384×2048", "10GBPS-ETHERNET_1723_2048.alist")
CCSDS = ("CCSDS 64×128", "CCSDS_64_128.alist")

MAX_ITER = 30
# Code, method of boolweave, method of ldpc, scale, flip rates at which only some words fail.
AGAINST_LDPC = [
    (MACKAY, "product-sum", "product_sum", None, (0.06, 0.065, 0.07)),
    (MACKAY, "min-sum", "minimum_sum", 0.75, (0.06, 0.065, 0.07)),
    (MACKAY, "min-sum", "minimum_sum", 1.0, (0.03, 0.035, 0.04)),
    (ETHERNET, "product-sum", "product_sum", None, (0.010, 0.011, 0.012)),
    (ETHERNET, "min-sum", "minimum_sum", 0.75, (0.010, 0.011, 0.012)),
    (ETHERNET, "min-sum", "minimum_sum", 1.0, (0.004, 0.005, 0.006)),
]

# Eb/N0 in decibels, number of words in the published simulation, and number of word errors.
PUBLISHED = [
    (CCSDS, "serial", 50, [(3.0, 2137, 106), (3.5, 9799, 101), (4.0, 65735, 100)]),
    (ETHERNET, "flooding", 100, [(3.2, 576, 142), (3.4, 1798, 120)]),
]

POOLS = (40, 60, 80, 100, 120, 140, 160, 200)  # the smallest are too few for any rule


def timed(function, *arguments, **options) -> tuple[float, object]:
    start = time.perf_counter()
    value = function(*arguments, **options)
    return time.perf_counter() - start, value


def within_error_bars(a: float, n_a: int, b: float, n_b: int) -> tuple[float, bool]:
    """Return the difference of two rates in standard errors, and whether it is below 2."""
    error = np.sqrt(max(a * (1 - a), 1e-12) / n_a + max(b * (1 - b), 1e-12) / n_b)
    z = abs(a - b) / error
    return float(z), bool(z <= 2)


# ---- codes


def against_ldpc(folder: Path, n_words: int, seed: int) -> list[dict]:
    from ldpc import BpDecoder

    rows = []
    print(
        f"\nAgainst ldpc, binary symmetric channel, {n_words} words, {MAX_ITER} iterations\n"
        f"{'code':22}{'method':18}{'flip':>6}{'WER':>8}{'± ':>7}{'ldpc':>8}{'σ apart':>9}"
        f"{'Mbit/s':>9}{'ldpc':>8}{'ratio':>7}{'all cores':>11}"
    )
    for (name, file), method, theirs, scale, flips in AGAINST_LDPC:
        code = ParityCheckCode.from_alist(folder / file)
        H = code.parity_check.toarray()
        for flip in flips:
            rng = np.random.default_rng(seed)
            sent = code.encode(rng.integers(0, 2, (n_words, code.k)))
            received = sent ^ (rng.random(sent.shape) < flip).astype(np.uint8)
            llr = bsc_llr(received, flip)
            options = {"method": method, "max_iter": MAX_ITER}
            if scale is not None:
                options["scale"] = scale
            decoder = BpDecoder(
                H, error_rate=flip, max_iter=MAX_ITER, bp_method=theirs,
                ms_scaling_factor=1.0 if scale is None else scale,
                input_vector_type="received_vector",
            )  # fmt: skip
            code.decode(llr[:4], **options)  # compile the kernels
            one, many, other = [], [], 0.0
            decoded = np.empty_like(received)
            for part in np.array_split(np.arange(n_words), 3):
                seconds, found = timed(code.decode, llr, **options)
                one.append(seconds)
                many.append(timed(code.decode, llr, n_jobs=-1, **options)[0])
                start = time.perf_counter()
                for i in part:
                    decoded[i] = decoder.decode(received[i])
                other += time.perf_counter() - start
            mine = float((found.bits != sent).any(axis=1).mean())
            peer = float((decoded != sent).any(axis=1).mean())
            z, equal = within_error_bars(mine, n_words, peer, n_words)
            bits = n_words * code.n / 1e6
            row = {
                "code": name, "method": method, "scale": scale, "flip": flip, "words": n_words,
                "word_error_rate": mine, "ldpc_word_error_rate": peer,
                "standard_error": float(np.sqrt(mine * (1 - mine) / n_words)),
                "standard_errors_apart": z, "equal_within_error_bars": equal,
                "mean_iterations": float(found.n_iter.mean()),
                "mbit_per_s": bits / float(np.median(one)), "ldpc_mbit_per_s": bits / other,
                "ratio": other / float(np.median(one)),
                "ratio_all_cores": other / float(np.median(many)),
            }  # fmt: skip
            rows.append(row)
            label = method if scale is None else f"{method} × {scale:g}"
            print(
                f"{name:22}{label:18}{flip:6.3f}{mine:8.3f}{row['standard_error']:7.3f}{peer:8.3f}"
                f"{z:9.1f}{row['mbit_per_s']:9.2f}{row['ldpc_mbit_per_s']:8.2f}"
                f"{row['ratio']:7.1f}{row['ratio_all_cores']:11.1f}",
                flush=True,
            )
    return rows


def against_published(folder: Path, share: float, seed: int) -> list[dict]:
    rows = []
    print(
        f"\nAgainst published word error rates, Gaussian channel, sum-product\n"
        f"{'code':24}{'Eb/N0':>6}{'words':>8}{'WER':>10}{'±':>10}{'published':>11}{'±':>10}"
        f"{'σ apart':>9}"
    )
    for (name, file), schedule, max_iter, points in PUBLISHED:
        code = ParityCheckCode.from_alist(folder / file)
        for decibels, words_there, errors_there in points:
            sigma = ebn0_to_sigma(decibels, code.rate)
            published = errors_there / words_there
            # four times as many errors as in the publication
            n_words = int(np.clip(share * 4 * words_there, 500, 200_000))
            rng = np.random.default_rng(seed)
            wrong = 0
            for start in range(0, n_words, 5000):
                count = min(5000, n_words - start)
                sent = code.encode(rng.integers(0, 2, (count, code.k)))
                received = 1.0 - 2.0 * sent + sigma * rng.normal(size=sent.shape)
                found = code.decode(
                    awgn_llr(received, sigma), schedule=schedule, max_iter=max_iter, n_jobs=-1
                )
                wrong += int((found.bits != sent).any(axis=1).sum())
            mine = wrong / n_words
            z, equal = within_error_bars(mine, n_words, published, words_there)
            errors = [
                float(np.sqrt(rate * (1 - rate) / n)) for rate, n in
                ((mine, n_words), (published, words_there))
            ]  # fmt: skip
            rows.append(
                {"code": name, "ebn0_db": decibels, "words": n_words, "word_error_rate": mine,
                 "standard_error": errors[0], "published": published,
                 "published_standard_error": errors[1], "standard_errors_apart": z,
                 "equal_within_error_bars": equal}
            )  # fmt: skip
            print(
                f"{name:24}{decibels:6.1f}{n_words:8}{mine:10.5f}{errors[0]:10.5f}"
                f"{published:11.5f}{errors[1]:10.5f}{z:9.1f}",
                flush=True,
            )
    return rows


# ---- group testing


def sweep_of_pools(trials: int, seed: int) -> list[dict]:
    rows = []
    print(
        f"\nGroup testing: 1000 items, 1% positive, sensitivity .95, specificity .99, {trials} "
        f"trials\nexact set / wrong items (missed + false) in a trial\n"
        f"{'pools':>6}{'boolweave':>16}{'COMP':>16}{'DD':>16}{'SCOMP':>16}{'ECE':>9}{'s':>7}"
    )
    for pools in POOLS:
        design = design_pools(1000, pools, prevalence=0.01, random_state=seed)
        how = {"trials": trials, "random_state": seed, "n_jobs": -1}
        seconds, found = timed(simulate, design, 0.01, 0.95, 0.99, **how)
        rules = found.baselines
        better = all(
            found.errors.exact > rule.exact and found.errors.wrong < rule.wrong
            for rule in rules.values()
        )
        rows.append(
            {"pools": pools, "trials": trials, "exact": found.errors.exact,
             "missed": found.errors.missed, "false": found.errors.false,
             "exact_standard_error": found.errors.exact_error,
             "wrong_standard_error": found.errors.wrong_error,
             "calibration_error": found.calibration_error, "better_than_all": better,
             "rules": {name: {"exact": rule.exact, "missed": rule.missed, "false": rule.false}
                       for name, rule in rules.items()}}
        )  # fmt: skip
        cells = "".join(
            f"{each.exact:8.3f}{each.wrong:8.2f}" for each in (found.errors, *rules.values())
        )
        print(f"{pools:6}{cells}{found.calibration_error:9.4f}{seconds:7.1f}", flush=True)
    return rows


def calibration(trials: int, seed: int) -> list[dict]:
    rows = []
    print(f"\nCalibration, {trials} trials")
    print(f"{'pools':>6}{'range':>16}{'items':>9}{'mean':>9}{'positive':>10}")
    rng = np.random.default_rng(seed)
    for pools in (80, 120):
        design = design_pools(1000, pools, prevalence=0.01, random_state=seed)
        truth = rng.random((1000, trials)) < 0.01
        hit = np.asarray(design.astype(np.int64) @ truth) > 0
        outcomes = rng.random(hit.shape) < np.where(hit, 0.95, 0.01)
        found = group_testing(design, outcomes.astype(float), 0.01, 0.95, 0.99, n_jobs=-1)
        p = found.probabilities
        for low, high in ((0.0, 0.05), (0.05, 0.95), (0.95, 1.0)):
            inside = (low < p) & (p <= high)
            row = {"pools": pools, "trials": trials, "from": low, "to": high,
                   "items": int(inside.sum()), "mean": float(p[inside].mean()),
                   "positive": float(truth[inside].mean())}  # fmt: skip
            rows.append(row)
            print(f"{pools:6}{low:8g} to{high:5g}{row['items']:9}{row['mean']:9.4f}"
                  f"{row['positive']:10.4f}", flush=True)  # fmt: skip
    return rows


def large_problem(seed: int) -> list[dict]:
    rows = []
    print(
        "\n100,000 items in 10,000 pools, one vector of outcomes, 100 iterations\n"
        f"{'pools per item':>15}{'schedule':>10}{'seconds':>9}{'ns/edge':>9}"
        f"{'missed':>8}{'false':>7}{'positive':>9}"
    )
    rng = np.random.default_rng(seed)
    for weight, schedule in ((7, "serial"), (7, "flooding"), (20, "serial")):
        design = design_pools(100_000, 10_000, pools_per_item=weight, random_state=rng)
        truth = (rng.random(100_000) < np.log(2) / (10 * weight)).astype(np.int32)
        positive = design.astype(np.int32) @ truth > 0
        outcomes = rng.random(10_000) < np.where(positive, 0.95, 0.01)
        problem = design, outcomes, truth.mean(), 0.95, 0.99
        group_testing(*problem, schedule=schedule, max_iter=1)  # compile the kernels
        seconds, found = timed(group_testing, *problem, schedule=schedule, max_iter=100, tol=0)
        n_iter = max(found.n_iter, 1)
        missed = int((truth > found.positive).sum())
        false = int((truth < found.positive).sum())
        each = seconds / n_iter / design.nnz * 1e9
        rows.append(
            {"pools_per_item": weight, "schedule": schedule, "edges": int(design.nnz),
             "iterations": n_iter, "seconds": seconds,
             "seconds_per_100_iterations": 100 * seconds / n_iter, "ns_per_edge": each,
             "missed": missed, "false": false, "positive": int(truth.sum())}
        )  # fmt: skip
        print(
            f"{weight:15}{schedule:>10}{100 * seconds / n_iter:9.2f}{each:9.1f}{missed:8}{false:7}"
            f"{truth.sum():9}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the words and trials")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="some of the parts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS, help="file for the results")
    arguments = parser.parse_args()
    if "BOOLWEAVE_DATA" not in os.environ:
        parser.error("set BOOLWEAVE_DATA to the folder that holds ldpc/*.alist")
    folder = Path(os.environ["BOOLWEAVE_DATA"]) / "ldpc"
    share = 0.1 if arguments.quick else 1.0
    seed = arguments.seed
    parts = {
        "against_ldpc": lambda: against_ldpc(folder, int(1000 * share), seed),
        "against_published": lambda: against_published(folder, share, seed),
        "sweep_of_pools": lambda: sweep_of_pools(int(500 * share), seed),
        "calibration": lambda: calibration(int(600 * share), seed),
        "large_problem": lambda: large_problem(seed),
    }
    report = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    for part in arguments.only or parts:
        report[part] = parts[part]()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    record(arguments.output, ("decoding",), arguments.only or ())
    print(f"\nwritten to {arguments.output}")


if __name__ == "__main__":
    main()
