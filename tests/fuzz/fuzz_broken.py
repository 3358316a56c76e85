"""Broken files of every kind, by the library or a command: of use, or refused in one line."""

from __future__ import annotations

import functools
import gzip
import shutil
import warnings
from pathlib import Path

import numpy as np
from commands import run_here
from fuzz_files import beside, judge
from fuzzing import broken, broken_archive
from good_files import KINDS, run
from verdicts import expect, expect_probabilities

import boolweave
from boolweave import io
from boolweave.decoding import read_alist
from boolweave.io import FileError
from boolweave.io.dialect import Dialect
from boolweave.report.page import render_report

# How often each kind is broken.
SHARES = {"text": 8, "market": 5, "arrays": 8, "picture": 4, "alist": 3, "columnar": 5, "model": 4,
          "checkpoint": 2}  # fmt: skip


@functools.cache
def good_files(kind):
    """The names and the bytes of the good files of a kind."""
    return list(KINDS[kind]())


def mutant(dice, kinds=SHARES):
    """The kind, the name and the bytes of a broken file."""
    kind = dice.choices(list(kinds), list(kinds.values()))[0]
    name, content = dice.choice(good_files(kind))
    if name.endswith(".npz") and dice.random() < 0.7:
        return kind, name, broken_archive(content, dice)
    if name.endswith(".gz") and dice.random() < 0.7:
        return kind, name, gzip.compress(broken(gzip.decompress(content), dice), mtime=0)
    if kind not in ("model", "checkpoint", "alist") and dice.random() < 0.1:
        suffix = dice.choice([".csv", ".npz", ".png", ".mtx", ".parquet", ".fimi"])
        name = f"{Path(name).stem}{suffix}"
    return kind, name, broken(content, dice)


def options_of(dice):
    """Options of how a file is read, as a rule none; most kinds of files refuse most of them."""
    every = {
        "absent": ["zero", "missing"],
        "above": ["mean", "median", 0.5],
        "dialect": [Dialect(layout=layout) for layout in ("wide", "triples", "pairs")],
        "duplicates": ["majority"],
    }
    return {name: dice.choice(values) for name, values in every.items() if dice.random() < 0.1}


def read(path, kind, dice=None):
    """Read a file as its kind is read; with dice, in one of the ways there are."""
    chance = 1.0 if dice is None else dice.random()
    if path.suffix == ".alist":
        read_alist(path)
    elif kind == "checkpoint":
        place = path.parent / "place"
        place.mkdir(exist_ok=True)
        path.rename(place / "checkpoint-000001.npz")
        try:
            run(path.stem, place)
        finally:
            shutil.rmtree(place)
    elif (kind == "model" and chance > 0.1) or path.name.startswith("model"):
        use(boolweave.load(path), with_report=chance < 0.3)
    elif path.suffix == ".parquet" and chance < 0.2:  # as parts of one table
        io.read([path, path], duplicates="majority")
    else:
        io.read(path, **({} if dice is None else options_of(dice)))


def use(model, with_report):
    """Whatever was loaded must do its work."""
    seen = model.observations_
    rows, columns = np.arange(min(2, seen.n_rows)), np.arange(min(2, seen.n_rows)) % seen.n_columns
    model.predict(rows, columns)
    expect_probabilities(model.predict_proba(rows, columns), "predict_proba")
    model.transform(seen)
    model.recommend(rows, 2)
    if with_report:
        render_report(model)


def command(dice, kind, name):
    """Arguments of the command line that read a file."""
    ways = [["info", name]]
    ways += [["factorize", name, "-k", "1", "--method", "max-sum", "--max-iter", "2", "-q"]]
    if kind == "alist":
        ways = [["decode", name, "llr.txt"]]
    elif kind == "model":
        ways = [["predict", name, "--row", "1", "--column", "1"], ["recommend", name, "-n", "1"]]
        ways += [["explain", name, "1", "1"]]
    elif name.endswith(".npy"):
        ways += [["decode", "good.alist", name]]
    elif kind == "text":
        ways += [["predict", "good.npz", name], ["decode", "good.alist", name]]
        ways += [["group-test", name, "outcomes.csv", "--prevalence", "0.1"]]
        ways += [["report", "good.npz", "--held-out", name, "-o", "page.html"]]
    return dice.choice(ways)


def case(dice):
    """One broken file, read in one of the ways there are."""
    kind, name, content = mutant(dice)
    by_command = kind != "checkpoint" and dice.random() < 0.08
    arguments = command(dice, kind, name) if by_command else []

    def run():
        path = Path(name)
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if by_command:
                    beside()
                    judge(run_here(*arguments))
                else:
                    read(path, kind, dice)
        except ValueError as error:
            # There may be several checkpoints in a place: it is the place that is named.
            named = kind == "checkpoint" or (isinstance(error, FileError) and name in str(error))
            expect(named and "\n" not in str(error), f"not one line that names the file: {error}")
            error.__cause__ = error.__context__ = None  # readers may be quoted about their files
            raise
        finally:
            path.unlink(missing_ok=True)

    return f"{kind} {name} ({len(content)}) {' '.join(arguments)}", run
