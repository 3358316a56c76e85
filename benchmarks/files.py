"""Time and memory of reading files and of making the report, compared with their targets.

    python benchmarks/files.py

The script writes a CSV file of triples of about 100 MB to a temporary folder. In separate
processes, it measures `boolweave info` with this file (time, and peak memory relative to the size
of the file), `boolweave --help` (CPU time), and the report of the 107th Senate, which is opened in
headless browser if one is installed. The table is written to standard output, and the numbers to
benchmarks/results/files.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from processes import record

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "files.json"
N_TRIPLES = 8_000_000
SHAPE = 60_000, 8_000


def write_triples(path: Path) -> None:
    """Make random triples without duplicates."""
    import polars as pl

    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, SHAPE[0] * SHAPE[1], N_TRIPLES + N_TRIPLES // 50))
    rng.shuffle(cells)
    row, column = np.divmod(cells[:N_TRIPLES], SHAPE[1])
    values = rng.integers(0, 2, len(row), dtype=np.int8)
    pl.DataFrame({"user": row, "item": column, "like": values}).write_csv(path)


def measure(*arguments: str) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory in MB of one run of the command."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "boolweave", *arguments], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"boolweave {' '.join(arguments)} failed")
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss * 1024 / 1e6,
    }


def report_of_the_senate(folder: Path) -> dict[str, float]:
    from boolweave import BooleanMatrixFactorization
    from boolweave.datasets import load_senate
    from boolweave.report.page import write_report

    kept, *held_out = load_senate(107).observations.hide(0.2, random_state=0)
    model = BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(kept)
    page = folder / "senate.html"
    start = time.perf_counter()
    write_report(model, page, title="107th Senate", held_out=tuple(held_out))
    answer = {"making": time.perf_counter() - start, "size_mb": page.stat().st_size / 1e6}
    if find_spec("playwright"):
        sys.path.insert(0, str(ROOT / "tests" / "support"))
        from browsers import launch
        from playwright.sync_api import sync_playwright

        with sync_playwright() as play:
            browser = launch(play)
            if browser is None:
                return answer
            tab = browser.new_page()
            start = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]", timeout=60_000)
            answer["opening"] = time.perf_counter() - start
            browser.close()
    return answer


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        triples = folder / "triples.csv"
        # In a separate process, because the peak memory of a child begins with that of its parent.
        subprocess.run([sys.executable, __file__, str(triples)], check=True)
        size = triples.stat().st_size / 1e6
        measure("--help")  # the first run compiles the modules to bytecode
        info = measure("info", str(triples))
        help_ = measure("--help")
        report = report_of_the_senate(folder)
    made = report["making"] + report.get("opening", float("nan"))
    rows = [
        (f"info on a CSV of triples, {size:.0f} MB", f"{info['seconds']:.2f} s", "5 s"),
        ("  its CPU time", f"{info['cpu_seconds']:.2f} s", ""),
        ("  its peak memory", f"{info['peak_mb'] / size:.1f} x the file", "6 x the file"),
        ("--help, CPU time", f"{help_['cpu_seconds']:.2f} s", "0.5 s"),
        ("report of the 107th Senate, made and opened", f"{made:.2f} s", "10 s"),
        ("  its size", f"{report['size_mb']:.1f} MB", "8 MB"),
    ]
    load = os.getloadavg()[0]
    print(f"{'':46}{'measured':>18}{'at most':>14}")
    for what, measured, most in rows:
        print(f"{what:46}{measured:>18}{most:>14}")
    if load > (os.cpu_count() or 1):
        print(f"The machine is busy (load {load:.1f}), so that times are too long.")
    RESULTS.parent.mkdir(exist_ok=True)
    numbers = {"file_mb": size, "info": info, "help": help_, "report": report, "load": load}
    RESULTS.write_text(json.dumps(numbers, indent=2) + "\n")
    record(RESULTS, ("io", "report", "cli"))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_triples(Path(sys.argv[1]))
    else:
        main()
