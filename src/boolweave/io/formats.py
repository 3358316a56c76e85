"""Everything that is not a text table: Parquet, Arrow, Matrix Market, NumPy, FIMI, pictures."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import Observations
from boolweave.io.delimited import MISSING, bits_above, threshold
from boolweave.io.dialect import CODES, Dialect, Layout
from boolweave.io.files import FileError, bare_return, by_value, listed, magic
from boolweave.io.market import read_market
from boolweave.io.options import BY_LAYOUT, Above, Options
from boolweave.io.sparse import check_rows, from_arrays
from boolweave.io.triples import check_size, observe
from boolweave.runtime.archives import Archive, read_array

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

MIDDLE_GREY = 127.5


# ---------------------------------------------------------------- Parquet and Arrow


def read_columnar(path: Path, name: str, kind: str, options: Options) -> tuple[Observations, str]:
    """A Parquet or Arrow table, wide, triples or pairs; also says which of them it was."""
    import polars as pl

    try:
        if kind == "parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            with path.open("rb") as file:
                is_file = file.read(6) == b"ARROW1"
            frame = pl.read_ipc(path) if is_file else pl.read_ipc_stream(path)
        layout = options.dialect.layout or _layout_of(frame, options)
        options.check(name, f"a {kind} file of {layout} layout", *BY_LAYOUT[layout])
        if layout == "wide":
            return _wide_frame(frame, name, options), f"{kind}, wide"
        return _long_frame(frame, name, layout, options), f"{kind}, {layout}"
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileError(
            name, f"expected a {kind} file, but it cannot be read ({first_line(error)})"
        ) from None


def first_line(error: BaseException) -> str:
    """What an error of another library says first."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _layout_of(frame: pl.DataFrame, options: Options) -> Layout:
    if options.dialect.columns:
        return "pairs" if len(options.dialect.columns) == 2 else "triples"
    if not 2 <= frame.width <= 4:
        return "wide"
    keys = [not _all_cells(frame[column]) for column in frame.columns[:2]]
    if frame.width == 2:  # pairs have no ratings: if some are asked for, numbers are those
        ratings = options.above is not None and frame.to_series(1).dtype.is_numeric()
        return "pairs" if all(keys) and not ratings else "wide"
    return "triples" if keys[1] else "wide"


def _long_frame(frame: pl.DataFrame, name: str, layout: Layout, options: Options) -> Observations:
    """Triples or pairs."""
    picked = Dialect(
        layout=layout, columns=options.dialect.columns, names=tuple(frame.columns),
        n_fields=frame.width,
    ).checked(name).picked()  # fmt: skip
    (row, row_labels), (column, column_labels) = (
        _number(frame.to_series(at), name) for at in picked[:2]
    )
    bits = np.ones(frame.height, np.uint8)
    absent = options.unnamed
    if layout == "triples":
        bits = frame_codes(frame.to_series(picked[2]), name, options.above)
        absent = options.absent or "missing"
    return observe(
        row, column, bits, row_labels, column_labels, name,
        duplicates=options.duplicates, absent=absent,
    )  # fmt: skip


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


def _ratings(series: pl.Series, name: str) -> NDArray[np.float64]:
    """The numbers of a typed column, NaN where there is none."""
    import polars as pl

    if not series.dtype.is_numeric():
        raise FileError(name, f"expected numbers, got {series.dtype}", column=repr(series.name))
    numbers: NDArray[np.float64] = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return numbers


def frame_codes(series: pl.Series, name: str, above: Above | None) -> NDArray[np.uint8]:
    """0, 1 or MISSING for the cells of a typed column."""
    if above is not None:
        return bits_above(_ratings(series, name), above)
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


def _wide_frame(frame: pl.DataFrame, name: str, options: Options) -> Observations:
    import polars as pl

    row_labels, labels, above = None, options.dialect.labels, options.above
    if frame.width and labels != "no":
        first = frame.to_series(0)
        if labels or (first.dtype in (pl.String, pl.Categorical) and not _all_cells(first)):
            row_labels = None if labels == "ignore" else [str(label) for label in first.to_list()]
            frame = frame[:, 1:]
    codes = np.empty(frame.shape, np.uint8)
    if isinstance(above, str):  # one number for all columns
        everything = [_ratings(column, name) for column in frame.iter_columns()]
        above = threshold(np.concatenate([*everything, np.empty(0)]), above)
    for j, column in enumerate(frame.iter_columns()):
        codes[:, j] = frame_codes(column, name, above)
    try:
        return Observations.from_dense(
            np.ma.masked_equal(codes, MISSING), row_labels=row_labels, column_labels=frame.columns
        )
    except ValueError as error:
        raise FileError(name, str(error)) from None


# ---------------------------------------------------------------- matrices


def read_matrix_market(path: Path, name: str, options: Options) -> tuple[Observations, str]:
    """A Matrix Market file, coordinates or array."""
    try:
        matrix = read_market(path)
    except ValueError as error:
        raise FileError(
            name, f"expected a Matrix Market file, but it cannot be read ({error})"
        ) from None
    return from_matrix(matrix, name, "Matrix Market", options)


def from_matrix(matrix: Any, name: str, kind: str, options: Options) -> tuple[Observations, str]:
    """A matrix in memory, with messages that speak of the file; and how it was read."""
    words = f"{kind}, an array"
    try:
        if hasattr(matrix, "nnz"):
            options.check_matrix(name, "a sparse matrix", "above", "absent", "duplicates")
            words = f"{kind}, absent entries are {options.unnamed}"
            check_rows(matrix.shape, matrix.nnz)
            if options.unnamed == "zero":
                check_size(matrix.shape, name)
        else:
            options.check_matrix(name, "an array", "above")
        if options.above is not None:
            matrix = _ones_above(matrix, options.above)
        seen = Observations.from_data(matrix, absent=options.unnamed, duplicates=options.duplicates)
        return seen, words
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        message = str(error).replace('pass `duplicates="majority"`', "say --duplicates majority")
        raise FileError(name, message) from None


def _ones_above(matrix: Any, above: Above) -> Any:
    """The same matrix with 1 where a value that it holds is above the threshold, 0 where not."""
    import scipy.sparse

    sparse = matrix.tocoo() if hasattr(matrix, "nnz") else None
    values = np.asarray(matrix if sparse is None else sparse.data)
    if values.dtype.kind not in "buif":
        raise ValueError(f"expected numbers, got {values.dtype}")
    bits = bits_above(values.astype(np.float64).ravel(), above).reshape(values.shape)
    cells = np.where(bits == MISSING, np.float32(np.nan), bits)
    if sparse is None:
        return cells
    return scipy.sparse.coo_array((cells, (sparse.row, sparse.col)), shape=sparse.shape)


def read_numpy(path: Path, name: str, options: Options) -> tuple[Observations, str]:
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
            f"expected arrays of NumPy without Python objects ({first_line(error)}); save it again",
        ) from None
    try:
        if "observations/shape" in arrays:
            options.check_matrix(name, "a boolweave model")
            return _of_model(arrays), "the observations of a boolweave model"
        if "format" in arrays:
            matrix = from_arrays(arrays)
    except KeyError as missing:
        raise FileError(name, f"{missing.args[0]!r} is missing in it; save it again") from None
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        what = "sparse matrix of scipy" if "format" in arrays else "boolweave model"
        raise FileError(
            name, f"expected a {what}, but {first_line(error)}; save it again"
        ) from None
    if "format" in arrays:
        return from_matrix(matrix, name, "NumPy", options)
    if len(arrays) != 1:
        raise FileError(
            name,
            "expected a boolweave model, a sparse matrix of scipy or a single array, got the "
            f"arrays {listed(list(arrays)) or 'of none'}",
        )
    return from_matrix(next(iter(arrays.values())), name, "NumPy", options)


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


# ---------------------------------------------------------------- transactions


def read_fimi(path: Path, name: str, options: Options) -> tuple[Observations, str]:
    """A transaction on each line: the items in it, separated by blanks; items keep their names."""
    options.check(name, "transactions", "delimiter", "absent")
    delimiter = None if options.dialect.delimiter in (None, " ") else options.dialect.delimiter
    separator = None if delimiter is None else delimiter.encode()
    index: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    n_rows = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            items = [item for field in line.split(separator) if (item := field.strip())]
            if not items:
                continue
            if b"\x00" in line:
                raise FileError(name, "expected transactions as text, got binary data", line=number)
            if b"\r" in line.rstrip(b"\r\n"):
                raise bare_return(name, number)
            codes = {index.setdefault(item, len(index)) for item in items}
            columns.append(np.fromiter(codes, np.int64, len(codes)))
            rows.append(np.full(len(codes), n_rows))
            n_rows += 1
    if not n_rows:
        raise FileError(name, "expected a transaction on each line, got an empty file")
    try:
        names = [item.decode("utf-8") for item in index]
    except UnicodeDecodeError:
        raise FileError(name, "expected items in UTF-8; convert the file") from None
    row, column = np.concatenate(rows), np.concatenate(columns)
    if all(item.isdigit() for item in index):  # by number, as one would count them
        order = sorted(range(len(names)), key=lambda i: by_value(names[i]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        column, names = place[column], [names[i] for i in order]
    absent = options.unnamed
    seen = observe(
        row, column, np.ones(len(row), np.uint8), None, np.array(names, dtype=np.str_), name,
        shape=(n_rows, len(names)), absent=absent,
    )  # fmt: skip
    return seen, f"transactions, absent entries are {absent}"


# ---------------------------------------------------------------- pictures


def read_picture(path: Path, name: str, options: Options) -> tuple[Observations, str]:
    """A 1-bit or grey picture: dark pixels are ones, transparent ones are missing."""
    options.check_matrix(name, "a picture", "above")
    try:
        from PIL import Image
    except ImportError:
        raise FileError(
            name, "reading pictures needs Pillow: pip install 'boolweave[plot]'"
        ) from None
    try:
        with warnings.catch_warnings(), Image.open(path) as picture:
            warnings.simplefilter("ignore")  # of large ones
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
    except FileError:
        raise
    except Exception as error:  # a damaged picture fails anywhere in Pillow
        raise FileError(
            name, f"expected a PNG picture, but it cannot be read ({first_line(error)})"
        ) from None
    if options.above is None:
        bits = (grey < MIDDLE_GREY).astype(np.uint8)
        bits[alpha == 0] = MISSING
        words = "picture, dark pixels are ones"
    else:
        seen = np.where(alpha == 0, np.nan, grey)
        bits = bits_above(seen.ravel(), options.above).reshape(seen.shape)
        words = f"picture, ones are pixels brighter than {options.above}"
    return Observations.from_dense(np.ma.masked_equal(bits, MISSING)), words


def _grey_palette(picture: Any) -> bool:
    if picture.mode not in {"P", "RGB", "RGBA"}:
        return False
    colour = np.asarray(picture.convert("RGB"))
    return bool((colour == colour[..., :1]).all())
