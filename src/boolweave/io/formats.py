"""Everything that is not a text table: Parquet, Arrow, Matrix Market, NumPy, FIMI, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.io.arrays import Archive, read_array
from boolweave.io.delimited import MISSING, Above, bits_above
from boolweave.io.dialect import CODES, Labels, Layout
from boolweave.io.files import FileError, magic
from boolweave.io.market import read_market
from boolweave.io.sparse import check_rows, from_arrays
from boolweave.io.triples import check_size, observe
from boolweave.observations import Absent, Duplicates, Observations

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

MIDDLE_GREY = 127.5


# ---------------------------------------------------------------- Parquet and Arrow


def read_columnar(
    path: Path, name: str, kind: str, *, layout: Layout | None, columns: tuple[str, ...],
    labels: Labels | None, above: Above | None, duplicates: Duplicates, absent: Absent,
) -> tuple[Observations, str]:  # fmt: skip
    """A Parquet or Arrow table, wide or triples; also says which of them it was."""
    import polars as pl

    try:
        if kind == "parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            with path.open("rb") as file:
                is_file = file.read(6) == b"ARROW1"
            frame = pl.read_ipc(path) if is_file else pl.read_ipc_stream(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).splitlines()[0]
        raise FileError(name, f"expected a {kind} file, but it cannot be read ({first})") from None
    if layout is None:
        layout = _layout_of(frame, columns)
    if layout == "wide":
        return _wide_frame(frame, name, labels, above), layout
    wanted = 2 if layout == "pairs" else 3
    picked = list(columns or frame.columns)[:wanted]
    for column in picked:
        if column not in frame.columns:
            raise FileError(
                name, f"there is no column {column!r}; it has {', '.join(frame.columns)}"
            )
    if len(picked) < wanted:
        raise FileError(name, f"expected {wanted} columns for {layout}, got {len(picked)}")
    numbered = [_number(frame[column], name) for column in picked[:2]]
    bits = np.ones(frame.height, np.uint8)
    if wanted == 3:
        bits = frame_codes(frame[picked[2]], name, above)
    (row, row_labels), (column_, column_labels) = numbered
    return observe(
        row, column_, bits, row_labels, column_labels, name,
        duplicates=duplicates, absent=absent if layout == "pairs" else "missing",
    ), layout  # fmt: skip


def _layout_of(frame: pl.DataFrame, columns: tuple[str, ...]) -> Layout:
    if columns:
        return "pairs" if len(columns) == 2 else "triples"
    if not 2 <= frame.width <= 4:
        return "wide"
    keys = [not _all_cells(frame[column]) for column in frame.columns[:2]]
    if frame.width == 2:
        return "pairs" if all(keys) else "wide"
    return "triples" if keys[1] else "wide"


def _all_cells(series: pl.Series) -> bool:
    import polars as pl

    if series.dtype == pl.Boolean:
        return True
    if series.dtype.is_float():
        return bool(series.drop_nulls().drop_nans().is_in([0.0, 1.0]).all())
    if series.dtype.is_integer():
        return bool(series.drop_nulls().is_in([0, 1]).all())
    if series.dtype == pl.String:
        return all(text is None or text.strip().lower() in CODES for text in series.unique())
    return False


def _number(series: pl.Series, name: str) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    import polars as pl

    if series.null_count():
        at = int(series.is_null().arg_max() or 0)
        raise FileError(
            name, f"expected a name in row {at}, got null; fill it in", column=repr(series.name)
        )
    distinct = series.unique(maintain_order=True)
    table = pl.DataFrame({"key": distinct, "code": np.arange(len(distinct))})
    joined = pl.DataFrame({"key": series}).join(table, on="key", how="left", maintain_order="left")
    labels = np.array([str(key) for key in distinct.to_list()], dtype=np.str_)
    return joined["code"].to_numpy(), labels


def frame_codes(series: pl.Series, name: str, above: Above | None) -> NDArray[np.uint8]:
    """0, 1 or MISSING for the cells of a typed column."""
    import polars as pl

    if above is not None:
        if not series.dtype.is_numeric():
            raise FileError(name, f"expected numbers, got {series.dtype}", column=repr(series.name))
        return bits_above(series.cast(pl.Float64).fill_null(np.nan).to_numpy(), above)
    codes = np.full(len(series), MISSING, np.uint8)
    for cell in series.unique().to_list()[:1000]:
        if cell is None or cell != cell:
            continue
        code = CODES.get(str(cell).strip().lower())
        if code is None:
            at = series.to_list().index(cell)
            raise FileError(
                name,
                f"expected 0, 1 or null, got {cell!r} in row {at}; if these are ratings, say which "
                "are ones with --above mean, median or NUMBER",
                column=repr(series.name),
            )
        if code != MISSING:
            codes[(series == cell).fill_null(False).to_numpy()] = code
    return codes


def _wide_frame(
    frame: pl.DataFrame, name: str, labels: Labels | None, above: Above | None
) -> Observations:
    import polars as pl

    row_labels = None
    if frame.width and labels != "no":
        first = frame.to_series(0)
        if labels or (first.dtype in (pl.String, pl.Categorical) and not _all_cells(first)):
            row_labels = None if labels == "ignore" else [str(label) for label in first.to_list()]
            frame = frame[:, 1:]
    codes = np.empty(frame.shape, np.uint8)
    for j, column in enumerate(frame.iter_columns()):
        codes[:, j] = frame_codes(column, name, above)
    try:
        return Observations.from_dense(
            np.ma.masked_equal(codes, MISSING), row_labels=row_labels, column_labels=frame.columns
        )
    except ValueError as error:
        raise FileError(name, str(error)) from None


# ---------------------------------------------------------------- matrices


def read_matrix_market(
    path: Path, name: str, absent: Absent, duplicates: Duplicates
) -> Observations:
    """A Matrix Market file, coordinates or array."""
    try:
        matrix = read_market(path)
    except ValueError as error:
        raise FileError(
            name, f"expected a Matrix Market file, but it cannot be read ({error})"
        ) from None
    return from_matrix(matrix, name, absent, duplicates)


def from_matrix(matrix: Any, name: str, absent: Absent, duplicates: Duplicates) -> Observations:
    """A matrix in memory, with messages that speak of the file."""
    try:
        if hasattr(matrix, "nnz"):
            check_rows(matrix.shape, matrix.nnz)
            if absent == "zero":
                check_size(matrix.shape, name)
        return Observations.from_data(matrix, absent=absent, duplicates=duplicates)
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        message = str(error).replace('pass duplicates="majority"', "say --duplicates majority")
        raise FileError(name, message) from None


def read_numpy(path: Path, name: str, absent: Absent, duplicates: Duplicates) -> Observations:
    """A model of ours, a sparse matrix of scipy, or one array."""
    try:
        if magic(path) == "npy":
            arrays = {"array": read_array(path)}
        else:
            with Archive(path) as stored:
                arrays = {key: stored[key] for key in stored.names}
    except OSError as error:
        raise FileError(name, f"it cannot be read ({error.strerror or error})") from None
    except Exception as error:  # damage shows anywhere: in zip, zlib, the arrays' headers
        raise FileError(
            name,
            f"expected arrays of NumPy without Python objects ({_brief(error)}); save it again",
        ) from None
    try:
        if "observations/shape" in arrays:
            return _of_model(arrays)
        if "format" in arrays:
            matrix = from_arrays(arrays)
    except KeyError as missing:
        raise FileError(name, f"{missing.args[0]!r} is missing in it; save it again") from None
    except (ValueError, TypeError) as error:
        what = "sparse matrix of scipy" if "format" in arrays else "boolweave model"
        raise FileError(name, f"expected a {what}, but {_brief(error)}; save it again") from None
    if "format" in arrays:
        return from_matrix(matrix, name, absent, duplicates)
    if len(arrays) != 1:
        raise FileError(
            name,
            "expected a boolweave model, a sparse matrix of scipy or a single array, got the "
            f"arrays {', '.join(arrays)[:200] or 'of none'}",
        )
    return from_matrix(next(iter(arrays.values())), name, absent, duplicates)


def _of_model(arrays: dict[str, NDArray[Any]]) -> Observations:
    """The observations in a model file."""
    shape = arrays["observations/shape"]
    kept = {
        field: arrays.get(f"observations/{field}")
        for field in ("indptr", "indices", "values", "row_labels", "column_labels")
    }
    for field in ("indptr", "indices", "values"):
        if arrays[f"observations/{field}"].dtype.kind not in "iu":
            raise ValueError(f"its {field} are not whole numbers")
    return Observations(tuple(shape.tolist()), **kept)  # type: ignore[arg-type]


def _brief(error: Exception) -> str:
    """What an error says, in one line that is not too long."""
    return " ".join(str(error).split())[:200] or type(error).__name__


# ---------------------------------------------------------------- transactions


def read_fimi(path: Path, name: str, absent: Absent) -> Observations:
    """A transaction on each line: the items in it, separated by blanks; items keep their names."""
    index: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    n_rows = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            items = line.split()
            if not items:
                continue
            if b"\x00" in line:
                raise FileError(name, "expected transactions as text, got binary data", line=number)
            codes = {index.setdefault(item, len(index)) for item in items}
            columns.append(np.fromiter(codes, np.int64, len(codes)))
            rows.append(np.full(len(codes), n_rows))
            n_rows += 1
    if not n_rows:
        raise FileError(name, "expected a transaction on each line, got an empty file")
    try:
        labels = np.array([item.decode("utf-8") for item in index], dtype=np.str_)
    except UnicodeDecodeError:
        raise FileError(name, "expected items in UTF-8; convert the file") from None
    row, column = np.concatenate(rows), np.concatenate(columns)
    if all(label.isdigit() for label in labels):  # by number, as one would count them
        order = np.argsort(labels.astype(np.int64), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        column, labels = place[column], labels[order]
    return observe(
        row, column, np.ones(len(row), np.uint8), None, labels, name,
        shape=(n_rows, len(labels)), absent=absent,
    )  # fmt: skip


# ---------------------------------------------------------------- pictures


def read_picture(path: Path, name: str, above: Above | None) -> Observations:
    """A 1-bit or grey picture: dark pixels are ones, transparent ones are missing."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise FileError(
            name, "reading pictures needs Pillow: pip install 'boolweave[plot]'"
        ) from None
    try:
        with Image.open(path) as picture:
            mode = picture.mode
            if mode not in {"1", "L", "LA", "I", "I;16"} and not _grey_palette(picture):
                raise FileError(
                    name, f"expected a 1-bit or grey picture, got a coloured one (mode {mode}); "
                    "turn it grey first"
                )  # fmt: skip
            full = picture.convert("LA")
            if mode in {"I", "I;16"}:
                grey = np.asarray(picture, dtype=np.float64) / 257
            else:
                grey = np.asarray(full.getchannel(0), dtype=np.float64)
            alpha = np.asarray(full.getchannel(1))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(name, f"expected a PNG picture, but it cannot be read ({error})") from None
    seen = np.where(alpha == 0, np.nan, grey)
    if above is None:
        bits = (grey < MIDDLE_GREY).astype(np.uint8)
        bits[alpha == 0] = MISSING
    else:
        bits = bits_above(seen.ravel(), above).reshape(seen.shape)
    return Observations.from_dense(np.ma.masked_equal(bits, MISSING))


def _grey_palette(picture: Any) -> bool:
    if picture.mode not in {"P", "RGB", "RGBA"}:
        return False
    colour = np.asarray(picture.convert("RGB"))
    return bool((colour == colour[..., :1]).all())
