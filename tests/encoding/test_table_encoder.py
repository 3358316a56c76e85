"""Any table as named columns of zeros and ones, and back."""

import datetime
import warnings
from datetime import time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from boolweave import BooleanMatrixFactorization, Observations, TableEncoder
from boolweave.encoding.encoder import CodesTakenAsMissingWarning, ColumnsLeftOutWarning
from boolweave.encoding.rules import parse_rules

NAN = np.nan
PEOPLE = {
    "colour": ["red", "blue", None, "red", "blue", "red"],
    "age": [31, 47, 62, None, 20, 55],
    "visits": [0, 1, 2, 2, 1, 0],
    "hobby": ["chess;tea", "tea", "chess; rum", "rum;tea", None, "tea"],
    "joined": [datetime.date(2020 + i % 2, 1 + i % 3, 5) for i in range(5)] + [None],
    "member": ["yes", "no", "Yes", None, "no", "yes"],
    "paid": [True, False, None, True, True, False],
}


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{check.func.__name__}-{estimator.numbers}")
        for made in (TableEncoder(), TableEncoder(numbers="thresholds", n_bins=2))
        for estimator, check in estimator_checks_generator(made)
        if check.func.__name__ != "check_array_api_input"  # an option of SciPy that is not set
    ],
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(params=["pandas", "polars", "array"])
def people(request):
    if request.param == "pandas":
        return pd.DataFrame(PEOPLE, index=list("uvwxyz"))
    if request.param == "polars":
        return pl.DataFrame(PEOPLE)
    return np.array([list(row) for row in zip(*PEOPLE.values(), strict=True)], dtype=object)


def twin():
    """The encoding written out: a function of the cell for each column."""
    yes = {"yes": 1, "Yes": 1, "no": 0}
    return {
        "colour = blue": ("colour", lambda c: c == "blue"),
        "colour = red": ("colour", lambda c: c == "red"),
        "age < 31": ("age", lambda c: c < 31),
        "31 ≤ age < 47": ("age", lambda c: 31 <= c < 47),
        "47 ≤ age < 55": ("age", lambda c: 47 <= c < 55),
        "age ≥ 55": ("age", lambda c: c >= 55),
        "visits ≥ 1": ("visits", lambda c: c >= 1),
        "visits ≥ 2": ("visits", lambda c: c >= 2),
        "hobby: chess": ("hobby", lambda c: "chess" in c),
        "hobby: rum": ("hobby", lambda c: "rum" in c),
        "hobby: tea": ("hobby", lambda c: "tea" in c),
        "joined year ≥ 2021": ("joined", lambda c: c.year >= 2021),
        "joined month = January": ("joined", lambda c: c.month == 1),
        "joined month = February": ("joined", lambda c: c.month == 2),
        "joined month = March": ("joined", lambda c: c.month == 3),
        **{
            f"joined weekday = {day}": ("joined", lambda c, day=day: f"{c:%A}" == day)
            for day in (
                "Monday",
                "Tuesday",
                "Wednesday",
                "Thursday",
                "Friday",
                "Saturday",
                "Sunday",
            )
            if day in {f"{date:%A}" for date in PEOPLE["joined"][:5]}
        },
        "member": ("member", yes.get),
        "paid": ("paid", int),
    }


def test_each_kind_of_column(people):
    age = "x1" if isinstance(people, np.ndarray) else "age"
    encoder = TableEncoder(n_bins=4, numbers={age: "bins"}).fit(people)
    bits, names = encoder.transform(people), encoder.get_feature_names_out(list(PEOPLE)).tolist()
    expected = twin()
    assert names == list(expected)
    for j, name in enumerate(names):
        column, function = expected[name]
        cells = [NAN if cell is None else float(function(cell)) for cell in PEOPLE[column]]
        np.testing.assert_array_equal(bits[:, j], cells, err_msg=name)
    assert encoder.kinds_ == [
        "category", "number", "number", "choices", "date", "yes/no", "yes/no"
    ]  # fmt: skip


def test_back_again(people):
    encoder = TableEncoder(n_bins=6).fit(people)
    back = encoder.inverse_transform(encoder.transform(people))
    assert type(back) is type(people)
    if isinstance(back, pd.DataFrame):
        rows = back.astype(object).where(back.notna(), None).values.tolist()
    else:
        rows = back.rows() if isinstance(back, pl.DataFrame) else back.tolist()
    for i, row in enumerate(rows):
        found = dict(zip(PEOPLE, row, strict=True))
        assert found["colour"] == PEOPLE["colour"][i]
        assert found["age"] == PEOPLE["age"][i] and found["visits"] == PEOPLE["visits"][i]
        if PEOPLE["hobby"][i] is not None:
            split = [part.strip() for part in PEOPLE["hobby"][i].split(";")]
            assert set(found["hobby"].split(";")) == set(split)
        assert found["member"] == (PEOPLE["member"][i] or "").lower() or not found["member"]
        assert found["paid"] == PEOPLE["paid"][i]
        if PEOPLE["joined"][i] is not None:
            assert f"year {PEOPLE['joined'][i].year}, {PEOPLE['joined'][i]:%B}" in found["joined"]


def test_back_to_an_arrow_table():
    table = pl.DataFrame({"colour": ["red", "blue", "red"], "member": ["yes", None, "no"]})
    encoder = TableEncoder().fit(table.to_arrow())
    back = encoder.inverse_transform(encoder.transform(table.to_arrow()))
    assert type(back) is pa.Table
    assert pl.from_arrow(back).equals(table)


def test_contradictions_are_missing():
    table = pl.DataFrame({"colour": ["red", "blue", "red"], "age": [1.5, 47, 62]})
    encoder = TableEncoder(bins={"age": [40, 60]}, numbers="thresholds").fit(table)
    assert encoder.get_feature_names_out().tolist() == [
        "colour = blue", "colour = red", "age ≥ 40", "age ≥ 60"
    ]  # fmt: skip
    bits = [[1, 1, 0, 1], [0, 0, NAN, 1], [NAN, 1, 1, NAN], [0, 1, 1, 1], [1, 0, 1, 0]]
    assert encoder.inverse_transform(bits).rows() == [
        (None, None), (None, None), (None, None), ("red", "≥ 60"), ("blue", "[40, 60)")
    ]  # fmt: skip
    assert encoder.inverse_transform([[0, 1, 0, 0]]).rows() == [("red", "< 40")]
    bins = TableEncoder(bins={"age": [40, 60]}).fit(table)
    assert bins.get_feature_names_out().tolist()[2:] == ["age < 40", "40 ≤ age < 60", "age ≥ 60"]
    assert bins.inverse_transform([[0, 1, 0, 1, 0], [0, 1, 1, 1, 0]])["age"].to_list() == [
        "[40, 60)", None,
    ]  # fmt: skip


@given(
    st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=4, max_size=40),
    st.sampled_from(["bins", "thresholds"]),
    st.integers(2, 6),
)
def test_a_number_lies_in_its_interval(numbers, kind, n_bins):
    known = {n for n in numbers if n is not None}
    if len(known) < 2:
        return
    table = pl.DataFrame({"n": pl.Series(numbers, dtype=pl.Int64)})
    encoder = TableEncoder(numbers={"n": kind}, n_bins=n_bins).fit(table)
    bits = encoder.transform(table)
    assert bits.shape[1] <= n_bins + 1
    if kind == "bins":
        assert set(np.nansum(bits, axis=1)[[n is not None for n in numbers]]) == {1.0}
    for number, said in zip(numbers, encoder.inverse_transform(bits)["n"].to_list(), strict=True):
        if number is None:
            assert said is None
        elif str(said).startswith("["):
            low, high = map(float, said.strip("[)").split(","))
            assert low <= number < high
        elif str(said).startswith(("<", "≥")):
            edge = float(said[2:])
            assert number < edge if said[0] == "<" else number >= edge
        else:
            assert float(said) == number
    likely = encoder.most_probable(np.nan_to_num(bits, nan=0.4))["n"].to_list()
    assert all(isinstance(value, int | float) for value in likely)


def test_rare_levels_are_pooled():
    levels = ["a"] * 50 + ["b"] * 40 + ["c"] * 6 + ["d"] * 3 + ["other"]
    table = pl.DataFrame({"x": levels})
    encoder = TableEncoder(min_frequency=5).fit(table)
    names = ["x = a", "x = b", "x = c", "x = any other"]
    assert encoder.get_feature_names_out().tolist() == names
    np.testing.assert_array_equal(encoder.transform(table).sum(axis=0), [50, 40, 6, 4])
    few = TableEncoder(max_levels=1, min_frequency=1).fit(table)
    assert few.get_feature_names_out().tolist() == ["x = a", "x = any other"]
    assert encoder.inverse_transform([[0, 0, 0, 1]])["x"].to_list() == ["any other"]
    assert encoder.most_probable([[0.1, 0.2, 0.1, 0.9]])["x"].to_list() == ["b"]


def test_levels_that_fit_did_not_see():
    fit, new = pl.DataFrame({"x": list("abab")}), pl.DataFrame({"x": ["a", "z", None]})
    encoder = TableEncoder().fit(fit)
    np.testing.assert_array_equal(encoder.transform(new), [[1, 0], [0, 0], [NAN, NAN]])
    assert encoder.inverse_transform(encoder.transform(new))["x"].to_list() == ["a", None, None]


def test_what_is_left_out_is_said_once():
    table = pl.DataFrame(
        {
            "name": ["Ann", "Bo", "Cy", "Di"],
            "number": [7, 8, 9, 10],
            "same": ["x"] * 4,
            "nothing": [None, "", "NA", "?"],
            "colour": ["red", "red", "blue", "blue"],
        }
    )
    with pytest.warns(ColumnsLeftOutWarning) as said:
        encoder = TableEncoder().fit(table)
    assert len(said) == 1
    assert encoder.left_out_ == {
        "name": "all values differ",
        "number": "it counts the rows",
        "same": "always 'x'",
        "nothing": "no value is known",
    }
    for name, why in encoder.left_out_.items():
        assert f"{name} ({why})" in str(said[0].message)
    assert encoder.transform(table).shape == (4, 2)
    with pytest.raises(ValueError, match="no column is left to encode"):
        TableEncoder().fit(table[["name", "same"]])


@pytest.mark.parametrize("codes", [[9], [99], [98, 99], [-9], [-99, -1], [8, 9]])
def test_codes_for_no_answer_are_missing_and_said(codes):
    answers = [1, 2, 3, 4, 5] * 4 + codes
    table = pl.DataFrame(
        {"q": answers, "colour": ["red", "blue", "red"] * 7 + ["red"] * (len(codes) - 1)}
    )
    with pytest.warns(CodesTakenAsMissingWarning, match=rf"q .*{codes[0]}.*pass a `plan`"):
        encoder = TableEncoder().fit(table)
    assert set(encoder.plan_["q"].missing) == set(map(str, codes))
    assert np.isnan(encoder.transform(table)[20:, 0]).all()
    assert "q ≥ 5" in encoder.get_feature_names_out().tolist()
    told = TableEncoder(numbers={"q": "bins"}).fit(table)  # a rule of its own: it is a number
    assert not np.isnan(told.transform(table)).any()


def test_other_types_are_left_out():
    """Times of day, durations, lists and records are no levels, and no reason for a traceback."""
    cells = {
        "opens": [time(8), time(9), None, time(8)],
        "lasts": [timedelta(1), timedelta(2), None, timedelta(1)],
        "marks": [[1, 2], [1], None, [2]],
        "place": [{"x": 1}, {"x": 2}, None, {"x": 1}],
        "bytes": [b"x", b"y", None, b"x"],
    }
    with pytest.warns(ColumnsLeftOutWarning, match="marks .its cells have the type List"):
        encoder = TableEncoder().fit(pl.DataFrame({**cells, "open": [1, 0, 1, 0]}))
    assert set(encoder.left_out_) == set(cells)
    assert encoder.get_feature_names_out().tolist() == ["open"]
    lasts = pd.Series(cells["lasts"], dtype="timedelta64[ns]")
    frame = pd.DataFrame({k: cells[k] for k in ("opens", "lasts")} | {"ns": lasts, "open": 1})
    frame.loc[0, "open"] = 0
    with pytest.warns(ColumnsLeftOutWarning, match="opens .its cells have the type Time"):
        encoder = TableEncoder().fit(frame)
    assert set(encoder.left_out_) == {"opens", "lasts", "ns"}
    levels = TableEncoder(categories=["opens"]).fit(pl.DataFrame({"opens": cells["opens"]}))
    assert levels.get_feature_names_out().tolist() == ["opens = 08:00:00", "opens = 09:00:00"]


@pytest.mark.parametrize(
    ("word", "other"), [("YES", "NO"), ("Yes", "No"), ("y", "n"), ("FALSE", "TRUE"), ("1", "0")]
)
def test_counterparts(word, other):
    """A column of yes alone is filled in with yes and no, in the same spelling."""
    encoder = TableEncoder().fit(pl.DataFrame({"a": [word, None, word]}))
    is_one = word.lower() in ("yes", "y", "1")
    said = encoder.most_probable(np.array([[0.1], [0.9]]))["a"].to_list()
    assert said == ([other, word] if is_one else [word, other])


def test_words_for_ones_and_zeros():
    table = pd.DataFrame({"a": ["ja", "nein", "-", "JA"], "b": [1, 2, 99, 2]})
    encoder = TableEncoder(ones=["ja", 1], zeros=["nein", 2], missing=["-", 99])
    bits = encoder.fit_transform(table)
    np.testing.assert_array_equal(bits, [[1, 1], [0, 0], [NAN, NAN], [1, 0]])
    assert encoder.inverse_transform(bits)["a"].to_list()[:2] == ["ja", "nein"]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_in_a_pipeline(kind):
    rng = np.random.default_rng(0)
    old = rng.random(60) < 0.5
    table = pl.DataFrame({"age": np.where(old, 70, 20) + rng.integers(0, 9, 60), "tea": old})
    table = table.to_pandas() if kind == "pandas" else table
    steps = [
        ("encode", TableEncoder(n_bins=2)),
        ("factors", BooleanMatrixFactorization(2, random_state=0)),
    ]
    pipeline = Pipeline(steps).set_output(transform=kind)
    found = pipeline.fit(table)["factors"]
    assert found.observations_.column_labels[-1] == "tea"
    assert "age ≥ " in found.observations_.column_labels[1]
    assert np.asarray(pipeline.transform(table)).shape == (60, 2)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output(kind):
    table = pd.DataFrame({"x": list("abab")}, index=list("pqrs"))
    made = TableEncoder().set_output(transform=kind).fit_transform(table)
    assert list(made.columns) == ["x = a", "x = b"]
    assert type(made).__module__.startswith(kind)
    if kind == "pandas":
        assert Observations.from_data(made).row_labels.tolist() == list("pqrs")


@pytest.mark.parametrize(
    ("options", "table", "words"),
    [
        ({"bins": {"agee": [1]}}, {"age": [1, 2]}, "no column 'agee'"),
        ({"bins": {"age": "x"}}, {"age": [1, 2]}, "bins must give increasing numbers for 'age'"),
        *(
            ({"bins": {"age": edges}}, {"age": [1, 2]}, "bins must give increasing numbers")
            for edges in ([1, 0], [1, 1], [NAN], [np.inf], [10**400], "12", [], None, [[1, 2]])
        ),
        *(
            ({"separators": given}, {"age": ["1", "2"]}, "separators must be texts")
            for given in ({"age": 5}, {"age": ""}, {"age": None}, [5], (";", ""))
        ),
        ({}, {"day": pl.Series([2**30, 0], dtype=pl.Int32).cast(pl.Date)}, "years 0 and 9999"),
        ({}, {"day": pl.Series([2**62, 0]).cast(pl.Datetime("ms"))}, "years 0 and 9999"),
        ({"bins": {"c": [1]}}, {"c": ["a", "b"]}, "does not hold only numbers"),
        ({"numbers": {"age": "log"}}, {"age": [1, 2]}, '"bins" or "thresholds"'),
        ({"numbers": "log"}, {"age": [1, 2]}, "numbers"),
        ({"n_bins": 1}, {"age": [1, 2]}, "n_bins"),
        ({"dates": ("century",)}, {"age": [1, 2]}, "century"),
        ({"ones": "x", "zeros": "X"}, {"age": [1, 2]}, "only one meaning"),
        ({}, {"age": []}, "n_samples=0"),
        ({}, {"age": [1.0, np.inf, 2.0]}, "column 'age' contains infinity"),
    ],
)
def test_one_clear_error(options, table, words):
    with pytest.raises(ValueError, match=words):
        TableEncoder(**options).fit(pl.DataFrame(table))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame([[1, 0], [0, 1]], columns=["a", "a"]), "'a' occurs 2 times; rename"),
        (pa.table([[1, 0], [0, 1]], names=["a", "a"]), "'a' occurs 2 times; rename"),
        (np.array([[10**400, 1], [1, 0]], dtype=object), r"a number beyond 1\.8e\+308"),
        (np.array([["299999-01-01"], ["2000-01-01"]], dtype="M8[s]"), "years 0 and 9999"),
    ],
)
def test_one_clear_error_for_other_tables(table, words):
    with pytest.raises(ValueError, match=words):
        TableEncoder().fit(table)


def test_a_lazy_table_is_to_be_collected():
    with pytest.raises(TypeError, match="call its method `collect`"):
        TableEncoder().fit(pl.LazyFrame({"a": [1, 0]}))
    made = TableEncoder().fit_transform(pd.DataFrame({"collect": [1, 0]}))  # not a method
    assert made.tolist() == [[1], [0]]


@pytest.mark.parametrize("digits", ["١٢٣", "１２３", "²³¹"])
def test_digits_of_other_scripts_are_levels(digits):
    one, two, three = digits
    table = pl.DataFrame({"a": [one, two, three, one], "b": [f"{one},{two}", one] * 2})
    encoder = TableEncoder().fit(table)
    assert f"a = {one}" in encoder.get_feature_names_out()
    assert encoder.inverse_transform(encoder.transform(table)).rows() == table.rows()
    days = pl.DataFrame({"a": [f"{one}{one}{one}{one}-{one}-{one}", "2020-01-01"] * 2})
    assert TableEncoder().fit(days).kinds_ == ["category"]


@pytest.mark.parametrize("kind", ["bins", "thresholds"])
@pytest.mark.parametrize(
    "numbers",
    [
        [-1.7e308, 1.7e308, 0, 1, 2, 3, 4, 5],
        [-1.7e308, 1.7e308, -1.6e308, 1.6e308, -1e308, 1e308, 9e307, -9e307],
        [5e-324 * k for k in range(8)],
        [1e308 + 1e300 * k for k in range(8)],
    ],
)
def test_numbers_as_far_apart_as_there_are(numbers, kind):
    table = pl.DataFrame({"a": numbers}, schema={"a": pl.Float64})
    encoder = TableEncoder(numbers=kind).fit(table)
    bits = encoder.transform(table)
    assert bits.shape == (8, 4 if kind == "bins" else 3)
    assert (bits.sum(axis=0) >= 1).all()
    again = encoder.most_probable(bits)
    np.testing.assert_array_equal(encoder.transform(again), bits)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "objects"])
def test_clocks_show_the_time_of_their_zone(library):
    plain = [datetime.datetime(2020, 1, 1), datetime.datetime(2021, 5, 1), None]
    zoned = pl.Series("a", plain).dt.replace_time_zone("Europe/Berlin")
    tables = {
        "polars": lambda: zoned.to_frame(),
        "pandas": lambda: pd.DataFrame({"a": pd.Series(plain).dt.tz_localize("Europe/Berlin")}),
        "pyarrow": lambda: zoned.to_frame().to_arrow(),
        "objects": lambda: np.array([[cell] for cell in zoned.to_list()], dtype=object),
    }
    expected = TableEncoder(dates=("year", "hour", "month")).fit_transform(np.array([plain]).T)
    made = TableEncoder(dates=("year", "hour", "month")).fit_transform(tables[library]())
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("kind", ["bins", "thresholds"])
def test_decimal_commas_stay(kind):
    sizes = ["1,75", "1,62", None, "1,9", "2", "1,81", "1,7", "1,66"]
    table = pl.DataFrame({"size": sizes, "grade": ["1,5", "2", "1,5", "2", "2", "1,5", None, "2"]})
    encoder = TableEncoder(numbers={"size": kind}, bins={"size": [1.7, 1.85]}).fit(table)
    bits = encoder.transform(table)
    back = encoder.inverse_transform(bits)
    assert back["grade"].to_list() == table["grade"].to_list()
    assert back["size"].to_list()[:4] == ["[1,7; 1,85)", "< 1,7", None, "≥ 1,85"]
    likely = encoder.most_probable(np.nan_to_num(bits))
    assert set(likely["size"]) <= set(sizes) and set(likely["grade"]) == {"1,5", "2"}
    points = TableEncoder().fit(pl.DataFrame({"size": ["1.75", "1.62", "1.9"]}))
    assert points.inverse_transform([[1, 0]])["size"].to_list() == [1.75]


def test_dates_and_times_in_one_column():
    cells = [datetime.date(2020, 1, 1), datetime.datetime(2021, 1, 1, 5)] * 2
    encoder = TableEncoder().fit(np.array([cells], dtype=object).T)
    assert "x0 hour = 5" in encoder.get_feature_names_out()


@pytest.mark.parametrize("name", ["a\0b", "a"])
def test_names_with_any_character(name):
    table = pa.table({name: ["x", "y", "x"], "c": [0, 1, 0]})
    encoder = TableEncoder().fit(table)
    assert encoder.inverse_transform(encoder.transform(table)).column_names == [name, "c"]
    seen = pa.table({name: [1, 0, 1], "c": [0, 1, 0]})
    fitted = BooleanMatrixFactorization(1, method="max-sum", random_state=0).fit(seen)
    assert fitted.predict(seen).column_names[-2:] == [name, "c"]


@given(st.data())
def test_the_order_of_rows_does_not_matter(data):
    """Also if levels are equally frequent: which of them get columns depends on their names."""
    n = data.draw(st.integers(4, 12))
    letters = st.sampled_from(["a", "A", "b", "B", "c", "ä", "10", "9", "x y"])
    cells = {
        "level": data.draw(st.lists(letters, min_size=n, max_size=n)),
        "choices": [
            "; ".join(each)
            for each in data.draw(st.lists(st.lists(letters, min_size=1), min_size=n, max_size=n))
        ],
        "yes": data.draw(
            st.lists(st.sampled_from(["yes", "Yes", "no", "NO"]), min_size=n, max_size=n)
        ),
        "number": data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)),
    }
    table = pl.DataFrame(cells)
    order = data.draw(st.permutations(range(n)))
    options = {
        "max_levels": data.draw(st.integers(1, 4)),
        "min_frequency": data.draw(st.integers(1, 3)),
        "separators": {"choices": ";"},
        "categories": ["level"],
        "numbers": {"number": "bins"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnsLeftOutWarning)
        encoder = TableEncoder(**options).fit(table)
        shuffled = TableEncoder(**options).fit(table[order])
    assert encoder.get_feature_names_out().tolist() == shuffled.get_feature_names_out().tolist()
    bits = encoder.transform(table)
    np.testing.assert_array_equal(bits[order], shuffled.transform(table[order]))
    assert encoder.most_probable(bits).rows() == shuffled.most_probable(bits).rows()


def test_new_tables_must_fit():
    table = pl.DataFrame({"n": [1.0, 2.0, 3.5, 1.0], "b": ["y", "n", "y", "n"]})
    encoder = TableEncoder().fit(table)
    with pytest.raises(ValueError, match=r"expected numbers in column 'n'.*'many'"):
        encoder.transform(pl.DataFrame({"n": ["1", "many"], "b": ["y", "n"]}))
    with pytest.raises(ValueError, match=r"expected 0/1 or yes/no in column 'b'.*'so'"):
        encoder.transform(pl.DataFrame({"n": ["1", "2"], "b": ["y", "so"]}))
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(pl.DataFrame({"n": ["1"], "c": ["y"]}))
    with pytest.raises(ValueError, match=r"expected .* columns of get_feature_names_out"):
        encoder.inverse_transform([[1]])


def test_names_of_encoded_columns_differ():
    """Also from names that already look like those of repeated columns."""
    table = {"x": ["a", "b", "b"], "x = b": [1, 0, 1], "x = b (2)": [0, 0, 1]}
    encoder = TableEncoder().fit(pl.DataFrame(table))
    assert encoder.get_feature_names_out().tolist() == [
        "x = a", "x = b", "x = b (2)", "x = b (2) (2)"
    ]  # fmt: skip


def test_rules():
    rules = parse_rules(
        "age=40,60; income=thresholds:1e3,5e3;hobby=split:;;tag=split:|;n=bins;zip=category;id=drop"
    )
    assert rules.parameters == {
        "numbers": {"income": "thresholds", "n": "bins"},
        "bins": {"age": [40.0, 60.0], "income": [1000.0, 5000.0]},
        "separators": {"hobby": ";", "tag": "|"},
        "categories": ["zip"],
    }
    assert rules.dropped == ("id",)
    assert set(rules.columns) == {"age", "income", "hobby", "tag", "n", "zip", "id"}
    assert parse_rules("hobby=split:;").parameters == {"separators": {"hobby": ";"}}


@pytest.mark.parametrize("text", ["age", "age=", "age=old", "=3", "age=1;age=2", "hobby=split:"])
def test_bad_rules(text):
    with pytest.raises(ValueError, match=r"expected column=RULE|two rules"):
        parse_rules(text)


@pytest.mark.filterwarnings("ignore::boolweave.encoding.encoder.ColumnsLeftOutWarning")
def test_cells_that_polars_has_no_type_for_are_texts():
    cells = [(1, 2), {"a"}, (1, 2), None]
    frame = pl.DataFrame({"a": pl.Series([*cells, *cells], dtype=pl.Object)})
    encoder = TableEncoder().fit(frame)
    assert sorted(encoder.get_feature_names_out()) == ["a = (1, 2)", "a = {'a'}"]
    assert np.isnan(encoder.transform(frame)[[3, 7]]).all()


def test_whole_numbers_that_are_further_apart_than_the_largest_number():
    table = pd.DataFrame({"a": [-1.5e308, 1.5e308, 0.0, 1.0] * 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        encoded = TableEncoder().fit_transform(table)
    np.testing.assert_array_equal(encoded[:4], encoded[4:8])
    assert len({tuple(row) for row in encoded}) == 4


@pytest.mark.parametrize("rows", [[["a", 1], ["b"]], [["a", [1, 2]], ["b", 3]]])
def test_lists_that_are_no_table(rows):
    with pytest.raises(ValueError, match="rows of different lengths, or cells that hold several"):
        TableEncoder().fit(rows)
