"""Six campaigns of random cases: each must give a right answer or one clear error.

A campaign is a module with `case(dice)`, which draws one case: a description, and a function that
runs it and raises `Wrong` if the answer is not right. The number of a case is its seed, so that
each can be repeated alone. Cases run in child processes, so that a crash or a hang is noticed:

    python tests/fuzz/campaigns.py                       all, as `make fuzz` does
    python tests/fuzz/campaigns.py calls --cases 1000    one campaign
    python tests/fuzz/campaigns.py calls --only 17       one case, with its traceback
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from verdicts import ABORT, CRASH, FINE, HANG, OUTCOMES, REFUSED, outcome_of

HERE = Path(__file__).parent
CAMPAIGNS = ("files", "tables", "models", "calls", "broken", "plans")

# Seconds of processor time, and of waiting, that a case may take, compiling included. One that
# takes longer is tried once more, with compiled kernels.
LIMIT = 40
LONGEST_WAIT = 300
MEMORY = 12 << 30  # of a child process, so that a runaway allocation is a crash at once
BATCH = 250


def one_case(campaign: str, number: int):
    """The description of a case, and the function that runs it."""
    sys.path[:0] = [
        str(path) for path in (HERE, HERE.parent, HERE.parent / "support")
        if str(path) not in sys.path
    ]  # fmt: skip
    return importlib.import_module(f"fuzz_{campaign}").case(random.Random(f"{campaign} {number}"))


# ---------------------------------------------------------------- a child process


def child(campaign: str, numbers: range, end: float) -> None:
    """Run cases one after the other; a line before and after each goes to the parent."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.register(signal.SIGPROF, chain=True)  # which then ends the process
    shorten(pytest.MonkeyPatch())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in numbers:
            if time.time() > end:
                break
            print(f"begin {number}", file=out, flush=True)
            signal.setitimer(signal.ITIMER_PROF, LIMIT)
            faulthandler.dump_traceback_later(LONGEST_WAIT, exit=True)
            description, run = one_case(campaign, number)
            outcome, text = outcome_of(run)
            faulthandler.cancel_dump_traceback_later()
            signal.setitimer(signal.ITIMER_PROF, 0)
            last = (text.strip().splitlines() or [""])[-1]
            print(f"end {number} {outcome}\t{description}\t{last}"[:2000], file=out, flush=True)
        os.chdir("/")


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Searches, chains and covers with little work."""
    sys.path.insert(0, str(HERE.parent))
    import short

    short.shorten_searches(patch)
    short.shorten_chains(patch)
    short.shorten_covers(patch)


# ---------------------------------------------------------------- the parent


class Tally:
    """How many cases had each outcome, and which were bad."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.bad: list[str] = []

    def add(self, campaign: str, number: int, outcome: str, text: str) -> None:
        self.counts.setdefault(campaign, Counter())[outcome] += 1
        if outcome not in (FINE, REFUSED, ABORT):
            self.bad.append(f"{campaign} {number}: {outcome}: {text}")
            print(self.bad[-1], flush=True)

    def __str__(self) -> str:
        lines = ["".join(f"{name:>13}" for name in ("campaign", "cases", *OUTCOMES))]
        total = sum(self.counts.values(), Counter())
        for name, counts in [*self.counts.items(), ("all", total)]:
            numbers = [sum(counts.values()), *(counts[outcome] for outcome in OUTCOMES)]
            lines.append(f"{name:>13}" + "".join(f"{number:>13,}" for number in numbers))
        return "\n".join(lines)


def run_batch(campaign: str, numbers: range, end: float, tally: Tally) -> None:
    """Run cases in child processes: a new one after each crash or hang."""
    retried = None
    while numbers and time.time() < end:
        command = [sys.executable, __file__, campaign, "--child", *map(str, (numbers.start,
                   numbers.stop)), "--end", str(end)]  # fmt: skip
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}
        begun = None
        with (
            tempfile.TemporaryFile() as kept,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=kept, env=environment,
                encoding="utf-8", errors="replace",
            ) as process,
        ):  # fmt: skip
            for line in process.stdout:
                word, number, *rest = line.rstrip("\n").split(" ", 2)
                begun = int(number) if word == "begin" else None
                if word == "end":
                    outcome, _, text = rest[0].partition("\t")
                    tally.add(campaign, int(number), outcome, text)
            process.wait()
            kept.seek(0)
            said = kept.read().decode(errors="replace")
        tail = f"exit code {process.returncode}: {' | '.join(said.strip().splitlines()[-12:])}"
        if begun is None:
            if process.returncode:
                tally.add(campaign, numbers.stop, CRASH, f"between or after the cases: {tail}")
            return
        too_long = process.returncode == -signal.SIGPROF or "Timeout (" in said
        numbers = range(begun, numbers.stop)
        if too_long and retried != begun:
            retried = begun
            continue
        ended = HANG if too_long else ABORT if "memory allocation of" in said else CRASH
        tally.add(campaign, begun, ended, tail)
        numbers = numbers[1:]


def run_all(campaigns, n_cases, seconds, jobs, first=0, batch=BATCH) -> Tally:
    """Run so many cases of each campaign, or as many as there is time for."""
    tally, end = Tally(), time.time() + seconds
    batches = [
        (campaign, range(start, min(start + batch, first + n_cases)))
        for start in range(first, first + n_cases, batch)
        for campaign in campaigns
    ]
    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(run_batch, *batch, end, tally) for batch in batches]:
            future.result()
    return tally


def main() -> None:
    """Run campaigns, and print how many cases had which outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=", ".join(CAMPAIGNS))
    parser.add_argument("--cases", type=int, default=50_000, help="of all campaigns together")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", type=int, help="one case, in this process, with its traceback")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    campaigns = asked.campaigns or CAMPAIGNS
    if asked.child:
        child(campaigns[0], range(*asked.child), asked.end)
    elif asked.only is not None:
        shorten(pytest.MonkeyPatch())
        description, run = one_case(campaigns[0], asked.only)
        print(description, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            outcome, text = outcome_of(run)
            os.chdir("/")
        print(f"{text}\n{outcome}")
    else:
        begun = time.time()
        tally = run_all(
            campaigns, -(-asked.cases // len(campaigns)), asked.seconds, asked.jobs, asked.first
        )
        print(f"{tally}\nin {time.time() - begun:.0f} s")
        sys.exit(bool(tally.bad))


if __name__ == "__main__":
    main()
