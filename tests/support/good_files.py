"""Small files of every kind that boolweave reads, to be broken by `fuzzing.py`.

`corpus` is the exception: files that once ended in a crash, a traceback or a wrong answer.
"""

import contextlib
import gzip
import io as stdio
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from altering import arrays_of
from crashing import Crash, fail_at

import boolweave
import boolweave.datasets
from boolweave import BooleanMatrixFactorization, Observations
from boolweave.runtime.archives import write_arrays
from boolweave.runtime.checkpoint import Checkpoint, Recorder

TABLE = np.array([[1, 1, 0, 0], [1, np.nan, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, np.nan, 1]])
BITS = np.nan_to_num(TABLE).astype(np.uint8)


def written(write):
    """The bytes that a function writes to an open file."""
    file = stdio.BytesIO()
    write(file)
    return file.getvalue()


def tables():
    names = ["Ann", "Bo", "Zoë", "Dee", "Eve"]
    wide = "name,tea,rum,gin,ale\n" + "".join(
        f"{name},{','.join('' if cell != cell else str(int(cell)) for cell in row)}\n"
        for name, row in zip(names, TABLE, strict=True)
    )
    triples = "user,item,value\n" + "".join(
        f"{names[i]},i{j},{BITS[i, j]}\n" for i in range(5) for j in range(4)
    )
    yield "wide.csv", wide.encode()
    yield "wide.csv.gz", gzip.compress(wide.encode(), mtime=0)
    yield "quoted.tsv", wide.replace(",", "\t").replace("Bo", '"B ""o"""').encode()
    yield "triples.csv", triples.encode()
    yield "pairs.txt", "".join(f"{i + 10} {j + 5}\n" for i, j in np.argwhere(BITS)).encode()
    yield "words.csv", wide.replace("1", "yes").replace("0", "no").encode("utf-8-sig")
    yield "numbers.csv", "\r\n".join(",".join(map(str, row)) for row in BITS).encode()
    ratings = [(i + 1, j + 1, 1 + (i * j) % 5, 881250949 + i) for i in range(5) for j in range(4)]
    yield "u.data", "".join("\t".join(map(str, line)) + "\n" for line in ratings).encode()
    yield "ratings.dat", "".join("::".join(map(str, line)) + "\n" for line in ratings).encode()
    head = "userId,movieId,rating,timestamp\n"
    yield "ratings.csv", (head + "".join(",".join(map(str, r)) + "\n" for r in ratings)).encode()
    lists = [" ".join(str(100 + j) for j in np.flatnonzero(row)) for row in BITS]
    yield "baskets.fimi", ("\n".join(lists) + "\n").encode()


def columnar():
    wide = pl.DataFrame({"name": list("abcde"), **{f"c{j}": BITS[:, j] for j in range(4)}})
    triples = pl.DataFrame(
        {"user": ["a", "b", "a", "c"], "item": [7, 8, 9, 7], "value": [True, False, None, True]}
    )
    for name, frame in (("wide", wide), ("triples", triples)):
        yield f"{name}.parquet", written(frame.write_parquet)
        yield f"{name}.arrow", written(lambda file, frame=frame: frame.write_ipc(file))
        yield f"{name}-stream.arrow", written(lambda f, frame=frame: frame.write_ipc_stream(f))


def markets():
    head = "%%MatrixMarket matrix"
    entries = "".join(f"{i + 1} {j + 1} 1\n" for i, j in np.argwhere(BITS))
    yield (
        "a.mtx",
        f"{head} coordinate integer general\n% a comment\n5 4 {BITS.sum()}\n{entries}".encode(),
    )
    yield "b.mtx", f"{head} coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n".encode()
    yield "c.mtx", f"{head} array integer general\n2 2\n1\n0\n1\n1\n".encode()
    yield "d.mtx", f"{head} array real symmetric\n3 3\n1\n0\n1.0\n1\n0\n1\n".encode()


def arrays():
    for name, array in (
        ("u1", BITS), ("f8", TABLE), ("b1", BITS > 0), ("f4", np.asfortranarray(TABLE, "f4")),
        ("i8-other-order", BITS.astype(">i8")),
    ):  # fmt: skip
        yield f"{name}.npy", written(lambda file, array=array: np.save(file, array))
        yield f"{name}.npz", written(lambda file, array=array: np.savez(file, matrix=array))
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        matrix = scipy.sparse.coo_array(BITS[:4]).asformat(kind)
        yield f"{kind}.npz", written(lambda f, m=matrix: scipy.sparse.save_npz(f, m))


def pictures():
    from PIL import Image

    for mode in ("1", "L", "LA", "P", "I;16", "RGBA"):
        if mode == "I;16":
            picture = Image.fromarray(BITS.astype(np.uint16) * 60000)
        else:
            picture = Image.fromarray(255 * (1 - BITS)).convert(mode)
        name = mode.replace(";", "-")
        yield f"{name}.png", written(lambda f, picture=picture: picture.save(f, format="PNG"))


def fitted():
    seen = Observations.from_dense(TABLE, row_labels=list("abcdé"), column_labels=list("wxyz"))
    for name, parameters, data in (
        ("plain", {"method": "max-sum"}, TABLE),
        ("labels", {"row_prior": [0.5, 0.25], "noise": boolweave.Channel(0.1, 0.8)}, seen),
        ("xor", {"product": "xor", "method": "sum-product", "decimation": 0.5}, seen),
        ("auto", {"n_components": "auto", "n_init": 2}, seen),
    ):
        estimator = BooleanMatrixFactorization(
            **{"n_components": 2, "max_iter": 20, "random_state": 0, **parameters}
        )
        yield name, estimator.fit(data)


def models():
    with tempfile.TemporaryDirectory() as folder:
        for name, model in fitted():
            path = Path(folder) / f"{name}.npz"
            model.save(path)
            yield path.name, path.read_bytes()


RUNS = {
    "max-sum": {"method": "max-sum", "n_init": 3},
    "auto": {"n_init": 2},
    "floats": {"messages": "float32", "n_init": 2},
    "decimation": {"method": "sum-product", "n_init": 2, "decimation": 0.5},
    "learning": {"method": "max-sum", "n_init": 2, "noise": "learn"},
    "rank": {"n_components": "auto", "n_init": 1},
}


def run(name, place):
    """A fit that keeps checkpoints, or goes on from them."""
    estimator = BooleanMatrixFactorization(
        **{"n_components": 2, "max_iter": 30, "random_state": 0, **RUNS[name]},
        checkpoint=Checkpoint(place, interval=1e9),
    )
    estimator.fit(PLANTED)


PLANTED = boolweave.datasets.make_boolean(12, 10, 2, flip=0.1, random_state=0).observations


def checkpoints():
    for name in RUNS:
        for crash in (7, 45):
            with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
                patch.setattr(Recorder, "save_if_due", Recorder.save)
                fail_at(patch, [crash])
                with contextlib.suppress(Crash):
                    run(name, folder)
                    continue
                newest = max(Path(folder).iterdir()).read_bytes()
            yield f"{name}.npz", newest


def codes():
    yield "padded.alist", b"3 2\n2 2\n1 2 1\n2 2\n1 0\n1 2\n2 0\n1 2\n2 3\n"
    yield "ragged.alist", b"3 2 # a comment\n2 2\n1 2 1\n2 2\n1\n1 2\n2\n1 2\n2 3\n"


# ---------------------------------------------------------------- what once broke something


def model_with(content, name, change):
    """The model file with another array, and the right checksum."""
    found = arrays_of(stdio.BytesIO(content))
    found[name] = change(found[name])
    return written(lambda file: write_arrays(file, found))


def sparse_with(kind, **changes):
    """A sparse matrix of SciPy with other arrays."""
    found = arrays_of(stdio.BytesIO(dict(arrays())[f"{kind}.npz"]))
    for name, change in changes.items():
        found[name] = change(found[name])
    return written(lambda file: np.savez(file, **found))


def far(array):
    """The last index far out of range."""
    return np.concatenate([array[:-1], [90_000_000]])


def corpus():
    head = b"%%MatrixMarket matrix "
    yield "twice.mtx", head + b"array integer symmetric\n2 300\n" + b"1\n" * 600
    yield "cut.mtx", head + b"coordinate pattern symmetric\n3 3 2\n2 1\x0e3 \x00"
    yield "short.mtx", head + b"array integer symmetric\n3 3\n1\n"
    for kind in ("csr", "csc", "bsr"):
        yield f"{kind}-indices.npz", sparse_with(kind, indices=far)
        yield f"{kind}-indptr.npz", sparse_with(kind, indptr=far)
    yield "coo.npz", sparse_with("coo", row=far)
    model = dict(models())["labels.npz"]
    for name, part, change in (
        ("longer", "column_log_odds", lambda a: np.vstack([a, a])),
        ("nan", "row_log_odds", lambda a: a * np.nan),
        ("text", "row_log_odds", lambda a: a.astype(str)),
    ):
        yield f"model-{name}.npz", model_with(model, f"result/{part}", change)
    array = dict(arrays())["u1.npy"]
    yield "vast.npy", array.replace(b"(5, 4)", b"(9999999999999, 4)")
    yield "head.npy", array.replace(b"'shape'", b"'shap''")
    yield "tail.npy", array + b"more"
    yield "negative.npy", array.replace(b"(5, 4)", b"(-5, -4)")
    yield "booleans.npy", array.replace(b"|u1", b"|b1")[:-1] + b"\x07"
    yield "return.csv", b"a,b\r1,0\r0,1\r1,x\r"
    yield "digits.fimi", b"1 2 3\n" + b"9" * 30 + b" x\x00\n"
    yield "bytes.alist", b"3 2\n2 2\n1 \xff 1\n"
    yield "long.alist", b"3 2\n2 2\n" + b"1" * 9999 + b" 1\n"
    picture = dict(pictures())["L.png"]
    yield "cut.png", picture[: len(picture) // 2]
    yield "head.png", picture[:20] + b"\xff" * 8 + picture[28:]


KINDS = {
    "text": tables, "columnar": columnar, "market": markets, "arrays": arrays,
    "picture": pictures, "model": models, "checkpoint": checkpoints, "alist": codes,
    "corpus": corpus,
}  # fmt: skip
