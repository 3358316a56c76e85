"""Tables of every library and kind through `TableEncoder`, there and back."""

from __future__ import annotations

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from verdicts import expect, expect_numbers

from boolweave import TableEncoder
from boolweave.encoding.encoder import ColumnsLeftOutWarning

NAN, INF = float("nan"), float("inf")
NAMES = [
    "a", "b", "age", "", " ", "a = b", "x;y", "naïve", "日本", "a\nb", "0", "1", "a'b", 'a"b', "≥",
    "other", "row", "a\x00b", "\ud7ff", "x" * 300, "[40, 60)", "c\t", "#", "nan", "None", "A", "a ",
]  # fmt: skip
WORDS = [
    "yes", "no", "Yes", "NO", "true", "red", "blue", "green", "a;b", "b;a", "a|c", "a,b", "", " ",
    "NA", "?", "1", "0", "١", "²", "½", "1e5", "12.5", "1,5", "-", "x" * 200, "\x00", "é",
    "e\u0301", "2020-01-01", "31.12.2020", "2020-02-30", "12:30", "[1, 2)", "≥ 60", "other", "nan",
    "inf", "-inf", "1e999", "0x10", "1_000", "10%", "€5", "<5", "5-10", "\ud7ff", "None", "null",
]  # fmt: skip
NUMBERS = [
    0.0, 1.0, -1.0, 2.0, 3.5, 1e308, -1e308, 1.7976931348623157e308, 5e-324, 1e-300, 40.0, 60.0,
    -9.0, 99.0, 999.0, 1e16, 1e16 + 2, 0.1, 0.30000000000000004, NAN, INF, -INF,
    -0.0, 123456789.125,
]  # fmt: skip
WHOLE = [0, 1, 2, 3, 5, -1, 99, 2**31, 2**53 + 1, 2**62, -(2**63), 10**6, 40, 60]
DAYS = [
    datetime.datetime(2020, 1, 1), datetime.datetime(1900, 2, 28, 23, 59, 59),
    datetime.datetime(2262, 4, 11), datetime.datetime(1677, 9, 22),
    datetime.datetime(2020, 2, 29, 12), datetime.datetime(2021, 6, 15, 8, 30),
    datetime.datetime(2021, 6, 16, 8, 30),
]  # fmt: skip
OTHERS = [
    b"x", decimal.Decimal("1.5"), datetime.timedelta(1), datetime.time(1, 2), (1, 2), [1], {"a": 1},
    object(), 1 + 2j, 2**70, True, np.float32(0.5), datetime.date(2020, 1, 1), set(), pd.NA, pd.NaT,
]  # fmt: skip


def cells(dice, n):
    """A column of some kind: the values of its cells, None where one is missing."""
    what = dice.randrange(12)
    if what <= 1:
        values = [dice.choice(WORDS) for _ in range(dice.choice([1, 2, 3, 4]))]
    elif what <= 3:
        values = [dice.choice(NUMBERS) for _ in range(dice.choice([1, 2, 3, 9]))]
    elif what == 4:
        values = [dice.choice(WHOLE) for _ in range(dice.choice([1, 2, 3, 9]))]
    elif what == 5:
        values = [dice.choice(DAYS) for _ in range(dice.choice([1, 2, 5]))]
    elif what == 6:
        values = [True, False][: dice.choice([1, 2])]
    elif what == 7:
        values = [0, 1][: dice.choice([1, 2, 2])]
    elif what == 8:
        values = [dice.choice(WORDS + NUMBERS + WHOLE + OTHERS) for _ in range(4)]
    elif what == 9:
        return [dice.gauss(0, 10.0 ** dice.randrange(-5, 6)) for _ in range(n)]
    elif what == 10:
        return [f"name {i}" for i in range(n)]
    else:
        letters = "abcd"
        sep = dice.choice([";", "|", ","])
        values = [sep.join(dice.sample(letters, dice.randrange(1, 4))) for _ in range(5)]
    holes = dice.choice([0, 0, 0, 0.1, 0.2, 0.8, 1])
    return [None if dice.random() < holes else dice.choice(values) for _ in range(n)]


def table(dice):
    """Names and columns, and a function that makes a table of them for given rows."""
    n, n_columns = dice.choice([1, 3, 8, 12, 20, 20]), dice.choice([1, 2, 3, 4])
    names = [dice.choice(NAMES) if dice.random() < 0.4 else f"c{j}" for j in range(n_columns)]
    columns = [cells(dice, n) for _ in names]
    form = dice.choice(["pandas"] * 3 + ["polars", "arrow"] * 2 + ["list", "object", "dicts"])
    dtype = dice.choice([None, None, "category", "string", "object", "Int64", "float32", "boolean"])

    def made(order):
        picked = [[column[i] for i in order] for column in columns]
        if form == "pandas":
            frame = pd.DataFrame({j: pd.Series(c, dtype=None) for j, c in enumerate(picked)})
            frame.columns = names
            if dtype is not None:
                try:
                    return frame.astype(dtype)
                except Exception:  # not every column can be of every type
                    return frame
            return frame
        if form == "polars":
            types = [pl.Series(column, strict=False).dtype for column in columns]
            return pl.DataFrame(
                {f"{name}{j}" if names.count(name) > 1 else name:
                 pl.Series(picked[j], dtype=types[j], strict=False)  # in any order of rows
                 for j, name in enumerate(names)}
            )  # fmt: skip
        if form == "arrow":
            return pa.table([pa.array(column) for column in picked], names=names)
        if form == "dicts":
            return [dict(zip(names, row, strict=True)) for row in zip(*picked, strict=True)]
        rows = [list(row) for row in zip(*picked, strict=True)]
        return rows if form == "list" else np.array(rows, dtype=object)

    return names, n, form, made


ODD = [-1, 0, 1, 2**62, 0.5, NAN, INF, "x", "", None, True, [], {}, (), [1, 0], b"x", ["a"]]


def parameters(dice, names):
    """Parameters of the encoder, of which one may be odd."""
    name = dice.choice(names * 9 + ["nothing"])
    every = {
        "numbers": dice.choice(
            ["auto", "bins", "thresholds", {name: "bins"}, {name: "thresholds"}]
        ),
        "n_bins": dice.choice([2, 3, 4, 50]),
        "bins": {
            name: dice.choice([[0], [0, 1], [1, 0], [1, 1], [NAN], [-1e308, 1e308], "ab", []])
        },
        "dates": dice.choice([("year",), ("month", "hour"), (), ["weekday"], ("century",)]),
        "separators": dice.choice([(";",), (), ("ab",), {name: ";"}, {name: 5}, {name: ""}, [","]]),
        "categories": dice.choice([None, (name,), [name, name], ("zip",)]),
        "min_frequency": dice.choice([1, 2, 0.01, 0.0, 0.99, 10**9]),
        "max_levels": dice.choice([1, 2, 30]),
        "ones": dice.choice(["x", ["red"], 2, [1, "yes"], None]),
        "zeros": dice.choice(["-", ["blue"], 3, None]),
        "missing": dice.choice([-9, [99, 999], "-", ["NA", "?"], None, NAN]),
    }
    chosen = {key: value for key, value in every.items() if dice.random() < 0.07}
    if dice.random() < 0.1:
        chosen[dice.choice(list(every))] = dice.choice(ODD)
    return chosen


def case(dice):
    """One table through an encoder."""
    names, n, form, made = table(dice)
    chosen = parameters(dice, names)
    order = list(range(n))
    shuffled = dice.sample(order, n)
    what = dice.randrange(6)

    def run():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first, other = made(order), made(shuffled)
        except Exception:  # the other library does not make such a table
            return
        encoder = TableEncoder(**chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOutWarning)
            encoded = encoder.fit_transform(first)
            titles = list(encoder.get_feature_names_out())
        expect(encoded.shape == (n, len(titles)), "a name for each encoded column")
        expect(len(set(titles)) == len(titles), "two encoded columns with one name")
        expect(np.isin(encoded[~np.isnan(encoded)], (0, 1)), "an encoded entry is not 0 or 1")
        expect(len(encoder.kinds_) == len(names), "a kind for each column")
        back = encoder.inverse_transform(encoded)
        expect(len(back) == n, "the table that comes back has other rows")
        if what == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColumnsLeftOutWarning)
                again = TableEncoder(**chosen).fit(other)
            expect(list(again.get_feature_names_out()) == titles,
                   f"columns depend on the order of rows: {titles}, "
                   f"{list(again.get_feature_names_out())}")  # fmt: skip
            expect(np.array_equal(again.transform(first), encoded, equal_nan=True),
                   "the encoding depends on the order of rows")  # fmt: skip
        elif what == 1:
            expect(np.array_equal(encoder.transform(other), encoded[shuffled], equal_nan=True),
                   "rows are not encoded one by one")  # fmt: skip
        elif what == 2:
            likely = encoder.most_probable(np.nan_to_num(encoded, nan=0.5))
            expect(len(likely) == n, "most_probable has other rows")
        elif what == 3:
            encoder.most_probable(np.full(encoded.shape, dice.choice(ODD[:6])))
        elif what == 4:
            encoder.set_output(transform=dice.choice(["pandas", "polars"]))
            expect(encoder.transform(first).shape == encoded.shape, "set_output")
        else:
            _, _, _, unlike = table(dice)
            encoder.transform(unlike([0]))
        expect_numbers(np.nan_to_num(encoded), "encoded")

    return f"{form} {names} {chosen} {what}"[:400].encode("unicode_escape").decode(), run
