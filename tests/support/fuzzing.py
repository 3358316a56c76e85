"""Broken files by the thousand: a few good files of every kind, and what may happen to them.

`test_fuzz.py` runs this file as a process of its own, so that a crash in compiled code is a failed
test and not the end of all tests. By hand, some of each kind, or one again:

    python tests/support/fuzzing.py arrays=2000 text=1000
    python tests/support/fuzzing.py arrays --only 1234
"""

import argparse
import contextlib
import gzip
import io as stdio
import json
import random
import shutil
import sys
import tempfile
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np
from good_files import KINDS, codes, fitted, run, written

import boolweave
from boolweave import cli, io
from boolweave.decoding import read_alist
from boolweave.io import FileError
from boolweave.io.dialect import Dialect
from boolweave.report.page import render_report
from boolweave.runtime.archives import write_arrays

# The longest message that is still one line to read, the name of the file included.
LONGEST_MESSAGE = 1000

READ, REFUSED, WRONG = "read", "refused", "wrong"

# ---------------------------------------------------------------- what happens to them

NUMBERS = [
    b"-1", b"0", b"2", b"7", b"99", b"4294967296", b"2147483647", b"9223372036854775808", b"1e999",
    b"99999999999999999999999999", b"nan", b"-0.0", b"1_0", b"", b"\xff", "١".encode(), b'"',
    b"\x00", b"\r", b"\n", b" ", b",", b"::", b"#", b"%", b"\xed\xa0\x80", b"1" * 5000,
]  # fmt: skip
BYTES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x0A, 0x0D, 0x22, 0x2C]


def broken(content, dice):
    """The bytes after one to three accidents."""
    content = bytearray(content)
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        at = dice.randrange(len(content) + 1)
        length = min(dice.choice([1, 1, 2, 4, 8, 30, 200]), len(content) - at)
        what = dice.randrange(9)
        if what == 0 and at < len(content):
            content[at] ^= 1 << dice.randrange(8)
        elif what == 1 and at < len(content):
            content[at] = dice.choice(BYTES)
        elif what == 2:
            del content[at : at + length]
        elif what == 3:
            content[at:at] = content[at : at + length] * dice.choice([1, 1, 2, 50])
        elif what == 4:
            content[at:at] = dice.randbytes(length)
        elif what == 5:
            del content[at:]
        elif what == 6:
            content[at : at + length] = dice.choice(NUMBERS)
        elif what == 7:  # a whole number somewhere
            words = bytes(content).split(b" ")
            words[dice.randrange(len(words))] = dice.choice(NUMBERS)
            content = bytearray(b" ".join(words))
        else:
            lines = bytes(content).split(b"\n")
            dice.shuffle(lines)
            content = bytearray(b"\n".join(lines))
    return bytes(content)


EXTREMES = [
    0, 1, -1, 2, 7, 127, 255, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63), 0.5, np.nan,
    np.inf, -np.inf, 1e300, 1e-300,
]  # fmt: skip
TYPES = ["?", "u1", "i1", "i4", "i8", "u8", "f2", "f4", "f8", ">f8", "c16", "U3", "S3", "M8[s]"]


def altered(array, dice):
    """An array that is none of the author's: other numbers, another shape or type."""
    array = np.array(array)
    what = dice.randrange(8)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if what <= 1 and array.size and array.dtype.kind in "biuf":
                array.flat[dice.randrange(array.size)] = array.dtype.type(dice.choice(EXTREMES))
            elif what == 2:
                return array.astype(dice.choice(TYPES))
            elif what == 3 and array.ndim:
                axis = dice.randrange(array.ndim)
                return np.concatenate([array] * dice.choice([2, 3]), axis)
            elif what == 4 and array.ndim:
                return array[: dice.randrange(len(array) + 1)] if dice.random() < 0.5 else array[0]
            elif what == 5:
                return dice.choice([array.T, array.ravel(), array[None], array[::-1]])
            elif what == 6:
                return np.array(dice.choice(EXTREMES))
            else:
                dice.shuffle(flat := array.ravel().tolist())
                return np.array(flat, dtype=array.dtype).reshape(array.shape)
        except (ValueError, TypeError, OverflowError, IndexError):
            pass
    return array


def edited(text, dice):
    """JSON with one of its values exchanged, left out or put in twice."""
    tree = json.loads(text)
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return json.dumps(tree)
        key = dice.choice(keys)
        if not isinstance(node[key], dict | list) or dice.random() < 0.3:
            break
        node = node[key]
    what = dice.randrange(4)
    if what == 0:
        del node[key]
    elif what == 1 and isinstance(node, dict):
        node[dice.choice(["value", "x", "array", "channel", ""])] = node[key]
    else:
        node[key] = dice.choice(
            [
                None,
                True,
                0,
                -1,
                1,
                2,
                1e400,
                10**30,
                "",
                "learn",
                "auto",
                [],
                {},
                [[]],
                0.5,
                "x" * 500,
            ]
        )
    return json.dumps(tree)


def broken_archive(content, dice):
    """An .npz file whose arrays were altered and which is a good archive all the same."""
    with zipfile.ZipFile(stdio.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    found = {
        name.removesuffix(".npy"): np.load(stdio.BytesIO(raw)) for name, raw in members.items()
    }
    sealed = found.pop("checksum", None) is not None
    for _ in range(dice.choice([1, 1, 2])):
        name = dice.choice(list(found))
        what = dice.randrange(8)
        if what == 0:
            del found[name]
        elif what == 1:
            found[name] = found[dice.choice(list(found))]
        elif what == 2:
            found[dice.choice(["extra", "format", "a/b", "observations/shape", "coords"])] = found[
                name
            ]
        elif name == "header":
            found[name] = np.array(edited(str(found[name]), dice))
        else:
            found[name] = altered(found[name], dice)
        if not found:
            break
    if sealed and dice.random() < 0.7:
        return written(lambda file: write_arrays(file, found))
    out = written(lambda file: np.savez(file, **found))
    if dice.random() < 0.3:  # what is inside is broken, and the archive is not
        with zipfile.ZipFile(stdio.BytesIO(out)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        if members:
            name = dice.choice(list(members))
            members[name] = broken(members[name], dice)
        return written(lambda file: _zip(file, members))
    return out


def _zip(file, members):
    with zipfile.ZipFile(file, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)


def mutant(good, number, kind):
    """The name and the bytes of a broken file; always the same for the same number."""
    dice = random.Random(f"{kind} {number}")
    name, content = dice.choice(good)
    if name.endswith(".npz") and dice.random() < 0.7:
        return name, broken_archive(content, dice), dice
    if name.endswith(".gz") and dice.random() < 0.7:
        return name, gzip.compress(broken(gzip.decompress(content), dice), mtime=0), dice
    if kind not in ("model", "checkpoint", "alist") and dice.random() < 0.1:
        suffix = dice.choice([".csv", ".npz", ".png", ".mtx", ".parquet", ".fimi"])
        name = f"{Path(name).stem}{suffix}"
    return name, broken(content, dice), dice


# ---------------------------------------------------------------- what is done with them


def use(model, dice):
    """Whatever was loaded must do its work."""
    seen = model.observations_
    rows, columns = np.arange(min(2, seen.n_rows)), np.arange(min(2, seen.n_rows)) % seen.n_columns
    model.predict(rows, columns)
    assert not np.isnan(model.predict_proba(rows, columns)).any()
    model.transform(seen)
    model.recommend(rows, 2)
    if dice.random() < 0.2:
        render_report(model)


def read(path, kind, dice):
    """Read a file as its kind is read, in one of the ways there are."""
    if path.suffix == ".alist":
        read_alist(path)
    elif kind == "checkpoint":
        place = path.parent / "place"
        place.mkdir(exist_ok=True)
        path.rename(place / "checkpoint-000001.npz")
        try:
            run(path.stem, place)
        except ValueError as error:  # several files in a place: it is the place that is named
            raise FileError(path.name, str(error)) from None
        finally:
            shutil.rmtree(place)
    elif (kind == "model" and dice.random() > 0.1) or path.name.startswith("model"):
        use(boolweave.load(path), dice)
    elif path.suffix == ".parquet" and dice.random() < 0.2:  # as parts of one table
        io.read([path, path], duplicates="majority")
    else:
        options = {}
        if dice.random() < 0.1:  # most kinds of files refuse most options
            options["absent"] = dice.choice(["zero", "missing"])
        if dice.random() < 0.1:
            options["above"] = dice.choice(["mean", "median", 0.5])
        if dice.random() < 0.1:
            options["dialect"] = Dialect(layout=dice.choice(["wide", "triples", "pairs"]))
        if dice.random() < 0.1:
            options["duplicates"] = "majority"
        io.read(path, **options)


class Plain(random.Random):
    """Dice that choose the first of everything and nothing out of the ordinary."""

    def random(self):
        return 0.99

    def choice(self, things):
        return things[0]


def command(path, kind, dice):
    """Arguments of the command line that read a file."""
    name, at = path.name, path.parent
    one = ["--row", "1", "--column", "1"]
    if kind == "alist":
        return ["decode", name, at / "llr.txt"]
    if kind == "model":
        return dice.choice(
            [["predict", name, *one], ["recommend", name, "-n", "1"], ["explain", name, "1", "1"]]
        )
    if kind == "text" and dice.random() < 0.3:
        return dice.choice(
            [
                ["predict", at / "good.npz", name],
                ["decode", at / "good.alist", name],
                ["group-test", name, at / "outcomes.csv", "--prevalence", "0.1"],
                ["report", at / "good.npz", "--held-out", name, "-o", at / "page.html"],
            ]
        )
    if kind == "arrays" and name.endswith(".npy") and dice.random() < 0.3:
        return ["decode", at / "good.alist", name]
    if dice.random() < 0.5:
        return ["info", name]
    return ["factorize", name, "-k", "1", "--method", "max-sum", "--max-iter", "2", "-q"]


def complaint_of_command(path, kind, dice):
    """What is wrong with how the command line took a file: exit code 0, or 2 and one line."""
    arguments = [str(word) for word in command(path, kind, dice)]
    streams = [stdio.TextIOWrapper(stdio.BytesIO(), encoding="utf-8") for _ in range(2)]
    kept = sys.argv, sys.stdout, sys.stderr
    sys.argv, sys.stdout, sys.stderr = ["boolweave", *arguments], *streams
    try:
        with contextlib.chdir(path.parent):
            cli.main()
        code = None
    except SystemExit as end:
        code = end.code
    except BaseException:
        code = traceback.format_exc()
    finally:
        sys.argv, sys.stdout, sys.stderr = kept
    streams[1].flush()
    said = streams[1].buffer.getvalue().decode()
    if code == 0:
        return READ
    lines = [line for line in said.splitlines() if line.startswith("boolweave: ")]
    others = [line for line in said.splitlines() if "Traceback" in line or line.startswith("  ")]
    if code == 2 and len(lines) == 1 and not others and len(said) < LONGEST_MESSAGE:
        return REFUSED
    return f"{' '.join(arguments)}\nexit code {code}\n{said[:3000]}"


def complaint(path, kind, dice):
    """What is wrong with how a file was taken, if it was not read or refused as it should."""
    try:
        read(path, kind, dice)
    except FileError as error:
        message = str(error)
        if path.name not in message:
            return f"the message does not name the file: {message}"
        if "\n" in message or len(message) > LONGEST_MESSAGE:
            return f"the message is not one line: {message[:2000]}"
        return REFUSED
    except BaseException:
        return traceback.format_exc()
    return READ


def beside(folder):
    """Good files that some commands need beside the broken one."""
    _, content = next(iter(codes()))
    (folder / "good.alist").write_bytes(content)
    (folder / "llr.txt").write_text("1.5 -0.5 2\n")
    (folder / "outcomes.csv").write_text("pool,outcome\nAnn,1\nBo,0\n")
    next(fitted())[1].save(folder / "good.npz")


def look_at(kind, numbers, *, through_commands):
    """Break files of a kind, read them and say of which that went wrong: how many of each."""
    good = list(KINDS[kind]())
    counts = {READ: 0, REFUSED: 0, WRONG: 0}
    with tempfile.TemporaryDirectory() as folder:
        if through_commands:
            beside(Path(folder))
        for number in numbers(len(good)):
            if number < 0:  # as they are
                (name, content), dice = good[number], Plain()
            else:
                name, content, dice = mutant(good, number, kind)
            path = Path(folder) / name
            path.write_bytes(content)
            print(f"{kind} {number} {name}", file=sys.stderr, flush=True)
            found = (complaint_of_command if through_commands else complaint)(path, kind, dice)
            if number < 0 and found == (READ if kind == "corpus" else REFUSED):
                found = f"was {found}"
            counts[found if found in counts else WRONG] += 1
            if found not in counts:
                print(f"--- {kind} {number}: {name}\n{found}", flush=True)
            path.unlink(missing_ok=True)
    print(f"{kind}: {', '.join(f'{count} {what}' for what, count in counts.items())}", flush=True)
    return counts[WRONG]


def main():
    """Do so for some kinds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="+", metavar="KIND=COUNT", help=", ".join(KINDS))
    parser.add_argument("--first", type=int, help="of each kind; by default the good files")
    parser.add_argument("--only", type=int)
    parser.add_argument("--commands", action="store_true", help="through the command line")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    cli.process.leave, cli.process.end_on_signals = sys.exit, lambda: None
    n_wrong = 0
    for word in asked.kinds:
        kind, _, count = word.partition("=")

        def numbers(n_good, count=int(count or 0)):
            if asked.only is not None:
                return [asked.only]
            return range(-n_good if asked.first is None else asked.first, count)

        n_wrong += look_at(kind, numbers, through_commands=asked.commands)
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
