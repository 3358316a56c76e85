"""Files of golden results: answers by name, and hashes of every bit of them."""

import hashlib
import json
from pathlib import Path

import numpy as np


def stored_in(path):
    """The stored answers, by name."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def store(path, names, name, value):
    """Store an answer, a line for each, in the order of `names`."""
    kept = stored_in(path) | {name: value}
    lines = (f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in names if name in kept)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def compare_bits(request, name, answer):
    """With --golden-bits FILE, compare an answer with the one before, or note it."""
    if not (file := request.config.getoption("--golden-bits")):
        return
    bits = hashlib.sha256()
    for part, value in answer.items():
        whole = value.encode() if isinstance(value, str) else np.asarray(value).tobytes()
        bits.update(part.encode() + whole)
    before = stored_in(Path(file))
    if name in before:
        assert bits.hexdigest() == before[name], "other bits than in the run that stored them"
    else:
        store(Path(file), [*before, name], name, bits.hexdigest())
