"""What may happen to files: bytes, arrays and values of JSON that are none of the author's."""

import io as stdio
import json
import warnings
import zipfile

import numpy as np
from good_files import written

from boolweave.runtime.archives import write_arrays

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
VALUES = [None, True, 0, -1, 1, 2, 1e400, 10**30, "", "learn", "auto", [], {}, [[]], 0.5, "x" * 500]
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
                number = dice.choice(EXTREMES)
                return np.array(number) if dice.random() < 0.5 else np.full_like(array, number)
            else:
                dice.shuffle(flat := array.ravel().tolist())
                return np.array(flat, dtype=array.dtype).reshape(array.shape)
        except (ValueError, TypeError, OverflowError, IndexError):
            pass
    return array


def edited(text, dice):
    """JSON with one of its values exchanged, left out or put in twice."""
    try:
        node = tree = json.loads(text)
    except json.JSONDecodeError:  # another array was put in its place
        return "{}"
    if not isinstance(tree, dict | list):  # that array was a number
        return "{}"
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
        node[key] = dice.choice(VALUES)
    return json.dumps(tree)


OTHER_NAMES = ("extra", "format", "a/b", "observations/shape", "observations/ones/indptr", "coords")


def exchanged(arrays, dice):
    """The arrays of a file with others, or other values of the header, among them; which ones."""
    arrays, names = dict(arrays), []
    for _ in range(dice.choice([1, 1, 1, 2])):
        name = dice.choice(list(arrays))
        if dice.random() < 0.25 and "header" in arrays:
            name = "header"
        names.append(name)
        what = dice.randrange(12)
        if what == 0:
            del arrays[name]
        elif what == 1:
            arrays[name] = arrays[dice.choice(list(arrays))]
        elif what == 2:
            arrays[dice.choice(OTHER_NAMES)] = arrays[name]
        elif name == "header":
            arrays[name] = np.array(edited(str(arrays[name]), dice))
        else:
            arrays[name] = altered(arrays[name], dice)
        if not arrays:
            break
    return arrays, names


def broken_archive(content, dice):
    """An .npz file whose arrays were altered and which is a good archive all the same."""
    with np.load(stdio.BytesIO(content)) as stored:
        found = dict(stored)
    sealed = found.pop("checksum", None) is not None
    found, _ = exchanged(found, dice)
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
