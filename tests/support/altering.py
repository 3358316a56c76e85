"""Stored files, models and checkpoints, of which a part is altered and which are sealed again."""

import io
import json
import math
import zipfile

import numpy as np
import pytest

import boolweave
from boolweave.io import FileError
from boolweave.runtime import archives
from boolweave.runtime.archives import write_arrays


def arrays_of(file):
    """The arrays of a stored file, without its checksum."""
    with np.load(file) as stored:
        return {name: stored[name] for name in stored.files if name != "checksum"}


def parts_of(path):
    """Arrays and header of a stored file."""
    arrays = arrays_of(path)
    return arrays, json.loads(str(arrays.pop("header")))


def seal(path, arrays, header):
    """Write a file of these parts, with the right checksum."""
    with open(path, "wb") as file:
        write_arrays(file, {**arrays, "header": np.array(json.dumps(header))})


def rewrite(path, change):
    """Write a file again after `change` of its arrays and header."""
    arrays, header = parts_of(path)
    change(arrays, header)
    seal(path, arrays, header)


def put_checkpoint(place, arrays, header):
    """Let a directory hold this checkpoint and no other."""
    for old in place.iterdir():
        old.unlink()
    seal(place / "checkpoint-000001.npz", arrays, header)


def unreadable(path):
    """What is said about a model that cannot be loaded, in one line."""
    with pytest.raises(FileError, match=r"model\.npz: ") as caught:
        boolweave.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    return str(caught.value)


# ---------------------------------------------------------------- changes


def put(name, value):
    """A change that puts something in the place of an array."""
    return lambda arrays, header: arrays.update(
        {name: value(arrays[name]) if callable(value) else np.asarray(value)}
    )


def part_of(header, place):
    """The fields of an object, or the items of a dictionary or list, in the tree of a header."""
    part = header["tree"]
    for step in ["", *filter(None, place.split("/"))]:
        if step:
            part = part[int(step) if isinstance(part, list) else step]
        if isinstance(part, dict):
            ((_, part),) = part.items()
    return part


def say(place, **values):
    """A change of some values in the tree of the header."""
    return lambda arrays, header: part_of(header, place).update(values)


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
