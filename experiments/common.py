"""Common parts of the experiments: sizes, resumable parallel runs, and the files they write.

Every script writes these files to experiments/results/quick, to experiments/results/full, or to the
directory given by --output:

    name.jsonl   one line for each run, with its task and its answer; an interrupted script
                 continues from this file and does not repeat these runs, unless --fresh is given
                 or the code has changed
    name.csv     the numbers of the picture
    name.png     the picture
    name.txt     one line of full sentences that sums up the result
    made.json    what made each result: see scripts/provenance.py

With --minutes, a script stops after that time and writes its results so far; the next call
continues. With --only, it runs some of the methods and keeps the lines of the others in name.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))
import provenance

# Linear algebra uses one thread in each process, because several processes run in parallel.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

RESULTS = Path(__file__).resolve().parent / "results"
SCALES = {
    "tiny": "small sizes for tests (seconds)",
    "quick": "medium sizes (minutes; the default)",
    "full": "the sizes of the paper",
}


@dataclass(frozen=True)
class Run:
    """The options of an experiment."""

    name: str
    scale: str
    output: Path
    jobs: int
    deadline: float  # of time.monotonic()
    options: argparse.Namespace
    measures: tuple[str, ...]  # folders and modules of the library

    def pick(self, tiny: Any, quick: Any, full: Any) -> Any:
        """Choose one of three sizes: seconds for tests, minutes, or the size in the paper."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.scale]

    def path(self, suffix: str) -> Path:
        return self.output / f"{self.name}.{suffix}"

    def chosen(self, methods: Sequence[str]) -> list[str]:
        """The methods that --only names, in the order of the script; all of them without it."""
        only = self.options.only or methods
        unknown = sorted(set(only) - set(methods))
        if unknown:
            names = "; ".join(methods)
            sys.exit(f"--only: no method is named {', '.join(unknown)}; choose from: {names}")
        return [method for method in methods if method in only]


def start(
    file: str,
    doc: str,
    more: Callable[[argparse.ArgumentParser], None] | None = None,
    *,
    measures: Sequence[str],
    by_method: bool = True,
) -> Run:
    """Read the command line of a script; --only exists if it runs several methods.

    `measures` are the folders and modules of the library that the results depend on.
    """
    parser = argparse.ArgumentParser(description=doc.strip().splitlines()[0])
    sizes = parser.add_mutually_exclusive_group()
    for scale, words in SCALES.items():
        kind = {"action": "store_const", "const": scale, "dest": "scale"}
        sizes.add_argument(f"--{scale}", help=words, **kind)
    parser.add_argument("--output", type=Path, help="directory for the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--fresh", action="store_true", help="ignore the results of earlier runs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="time limit in minutes")
    parser.set_defaults(only=None, scale="quick")
    if by_method:
        parser.add_argument("--only", nargs="+", metavar="METHOD", help="run only these methods")
    if more is not None:
        more(parser)
    options = parser.parse_args()
    output = options.output or RESULTS / options.scale
    output.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * options.minutes
    run = Run(
        Path(file).stem, options.scale, output, options.jobs, deadline, options, tuple(measures)
    )
    if options.fresh:
        run.path("jsonl").unlink(missing_ok=True)
    return run


def run_all(
    run: Run,
    function: Callable[[dict], dict],
    tasks: Sequence[dict],
    warm_up: Sequence[dict] = (),
) -> list[dict]:
    """Call `function` for every task, in parallel processes, unless its answer is on file.

    Each process runs the tasks of `warm_up` first, so that no time of a task includes the loading
    of kernels. Returns each task together with its answer, in the order of the tasks, without those
    that were not run because of --minutes.
    """
    log, code = run.path("jsonl"), provenance.code_of(run.measures)
    known: dict[str, dict] = {}
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            try:
                done = json.loads(line)
            except json.JSONDecodeError:  # a line that was not finished before a crash
                continue
            if done.get("code") == code:
                known[_key(done["task"])] = done["answer"]
    todo = [task for task in tasks if _key(task) not in known]
    begun = time.perf_counter()
    with log.open("a", encoding="utf-8") as file:
        for i, (task, answer) in enumerate(_answers(run, function, todo, warm_up), start=1):
            known[_key(task)] = answer
            file.write(json.dumps({"code": code, "task": task, "answer": answer}) + "\n")
            file.flush()
            if sys.stderr.isatty():
                spent = time.perf_counter() - begun
                left = spent / i * (len(todo) - i)
                print(f"\r{run.name}: {i} of {len(todo)}, {left:.0f} s left ", end="",
                      file=sys.stderr)  # fmt: skip
    if todo and sys.stderr.isatty():
        print(file=sys.stderr)
    return [{**task, **known[_key(task)]} for task in tasks if _key(task) in known]


def _answers(
    run: Run, function: Callable[[dict], dict], tasks: Sequence[dict], warm_up: Sequence[dict]
) -> Iterable[tuple[dict, dict]]:
    if run.jobs <= 1 or len(tasks) <= 1:
        if tasks:
            _begin(function, warm_up)
        for task in tasks:
            if time.monotonic() > run.deadline:
                return
            yield task, function(task)
        return
    with ProcessPoolExecutor(run.jobs, initializer=_begin, initargs=(function, warm_up)) as pool:
        waiting = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(waiting):
            if not future.cancelled():
                yield waiting[future], future.result()
            if time.monotonic() > run.deadline:
                pool.shutdown(wait=False, cancel_futures=True)  # running tasks still finish


def _begin(function: Callable[[dict], dict], warm_up: Sequence[dict]) -> None:
    warnings.filterwarnings("ignore")  # runs that do not converge count like others
    for task in warm_up:
        function(task)


def _key(task: dict) -> str:
    return json.dumps(task, sort_keys=True)


# ---------------------------------------------------------------- results


def write_csv(run: Run, rows: Sequence[dict]) -> None:
    with run.path("csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


def with_earlier(
    run: Run, rows: Sequence[dict], methods: Sequence[str], parts: Sequence[str] = ("method",)
) -> list[dict]:
    """Add the lines of name.csv whose parts were not run anew, in the order of `methods`.

    A part is a method, or what else the columns `parts` tell apart.
    """
    in_part = run.options.only or getattr(run.options, "curve", False)
    if not in_part or not run.path("csv").exists():
        return list(rows)
    with run.path("csv").open(encoding="utf-8", newline="") as file:
        lines = [{k: _number(v) for k, v in line.items()} for line in csv.DictReader(file)]
    anew = {tuple(row[part] for part in parts) for row in rows}
    every = [*rows, *(line for line in lines if tuple(line[p] for p in parts) not in anew)]
    order = {method: i for i, method in enumerate(methods)}
    return sorted(every, key=lambda row: order.get(row["method"], len(order)))


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def conclude(run: Run, line: str, extent: str = "") -> None:
    """Write the line that sums up the result to the terminal and to name.txt, and what made it.

    `extent` states how many of the runs are done, unless all of them are.
    """
    text = f"{line} ({run.scale}{extent})"
    run.path("txt").write_text(text + "\n", encoding="utf-8")
    provenance.record(run.path("csv"), run.measures, run.options.only or ())
    print(f"{run.name}: {text}")


def listed(words: Sequence[str]) -> str:
    """Join parts of a sentence; with semicolons if one of them contains a comma."""
    if len(words) == 1:
        return words[0]
    if any("," in word for word in words):
        return "; ".join([*words[:-1], f"and {words[-1]}"])
    return f"{', '.join(words[:-1])} and {words[-1]}"


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Any:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), layout="constrained", dpi=120)
    return drawn, drawn.subplots(rows, columns, squeeze=False, **options)


def save(run: Run, drawn: Any) -> None:
    drawn.savefig(run.path("png"))


def grouped(rows: Iterable[dict], *names: str) -> dict[tuple, list[dict]]:
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def mean(rows: Iterable[dict], name: str) -> float:
    values = [row[name] for row in rows]
    return sum(values) / len(values) if values else float("nan")


def standard_error(rows: Sequence[dict], name: str) -> float:
    values = [row[name] for row in rows]
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def seconds_of(function: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """The processor time of a call in seconds.

    With one thread, this is the time on an idle machine, even if the machine is busy.
    """
    begun = time.process_time()
    function(*arguments, **options)
    return time.process_time() - begun


def extent(rows: Sequence[dict], tasks: Sequence[dict]) -> str:
    """The number of runs for `conclude`; empty if all are done."""
    return "" if len(rows) == len(tasks) else f", {len(rows)} of {len(tasks)} planned runs"
