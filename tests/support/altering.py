"""Model files in which one array, or one value of the JSON header, was altered and sealed again."""

import io
import json
import math
import zipfile
from contextlib import suppress
from itertools import islice

import numpy as np

import boolweave
from boolweave.io import FileError
from boolweave.runtime import archives
from boolweave.runtime.archives import write_arrays

VALUES = (None, True, "x", "", -1, 0, 1.5, 10**9, 2**70, 10**400, 1e300, float("nan"),
          float("inf"), [], [1], {}, {"x": 1})  # fmt: skip
REMOVED = object()
NUMBERS = (-1, 0, 2, 255, 10**9, 2**62, 1e12, 1e300, float("nan"), float("inf"), -float("inf"))


def arrays_of(path):
    """The arrays of a model file, without its checksum."""
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files if name != "checksum"}


def sealed(arrays):
    """The bytes of a model file with a checksum that is right."""
    file = io.BytesIO()
    write_arrays(file, arrays)
    return file.getvalue()


def altered_files(path):
    """Yield what was altered, and the arrays of the file."""
    arrays = arrays_of(path)
    header = json.loads(str(arrays["header"]))
    for name in arrays:
        for what, array in _altered_arrays(arrays[name]):
            yield f"{name} {what}", arrays | {name: array}
        yield f"{name} missing", {n: a for n, a in arrays.items() if n != name}
    yield "another array", arrays | {"more": np.zeros(2)}
    for place, value in _altered_values(header):
        changed = _put(header, place, value)
        yield f"{place} = {value!r:.30}", arrays | {"header": np.array(json.dumps(changed))}


def declare_shapes(path, shapes):
    """Give arrays other shapes in their headers, and sizes in the directory of the archive."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    del members["checksum.npy"]
    sizes = {}
    for name, shape in shapes.items():
        file = io.BytesIO()
        dtype = np.lib.format.read_array_header_1_0(_after_magic(members[f"{name}.npy"]))[2]
        described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, described)
        sizes[f"{name}.npy"] = file.tell() + math.prod(shape) * dtype.itemsize
        members[f"{name}.npy"] = file.getvalue() + bytes(1000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        for info in archive.infolist():
            info.file_size = sizes.get(info.filename, info.file_size)
        seal = io.BytesIO()
        np.save(seal, np.array(archives._digest(archive.infolist())))
        archive.writestr("checksum.npy", seal.getvalue())


def _after_magic(content):
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    return file


def _altered_arrays(array):
    for kind in ("u1", "i8", "f4", "f8", "c16", "U3"):
        if array.dtype != np.dtype(kind):
            with np.errstate(all="ignore"), suppress(ValueError):  # text that is no number
                yield f"as {kind}", array.astype(kind)
    yield "in a list", array[None]
    yield "empty", array.reshape(-1)[:0]
    yield "of no rows", array[:0] if array.ndim else array
    if array.ndim:
        yield "without its first row", array[1:]
        yield "with a row twice", np.concatenate([array, array[:1]])
        yield "turned", np.ascontiguousarray(array.T)
        yield "reversed", array[::-1]
        yield "without its last column", array[..., :-1]
    if array.size and array.dtype.kind in "uif":
        for number in NUMBERS:
            with np.errstate(all="ignore"):
                put = np.array(number).astype(array.dtype)
            for place in (0, -1):
                other = array.copy()
                other.reshape(-1)[place] = put
                yield f"with {number} at {place}", other
            yield f"of {number}", np.full_like(array, put)


def _altered_values(inside, place=()):
    """Yield the places in nested dicts and lists, and what is put there."""
    if isinstance(inside, dict):
        steps = list(inside)
        yield (*place, "more"), 1
    else:
        steps = range(len(inside)) if isinstance(inside, list) else ()
    for step in steps:
        there = (*place, step)
        for value in (*VALUES, REMOVED):
            yield there, value
        yield from _altered_values(inside[step], there)


def _put(header, place, value):
    inside = other = json.loads(json.dumps(header))
    for step in place[:-1]:
        inside = inside[step]
    if value is REMOVED:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return other


def refused_or_used(path, used, first=0, step=19):
    """Try some of the altered files: `FileError`, or all answers are right. How many were refused.

    `used` says whether the answers of a model are right.
    """
    n_refused = 0
    for what, arrays in islice(altered_files(path), first, None, step):
        path.write_bytes(sealed(arrays))
        try:
            model = boolweave.load(path)
        except FileError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error), what
            n_refused += 1
        else:
            assert used(model), what
    return n_refused
