"""The transformer that turns any table into named columns of zeros and ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from boolweave.data.cells import CellWords, GivenCells
from boolweave.data.convert import is_table
from boolweave.data.labels import distinct
from boolweave.data.questions import Questions
from boolweave.encoding.choosing import PARTS, SEPARATORS, Part, Settings
from boolweave.encoding.columns import Columns
from boolweave.encoding.features import Bits
from boolweave.encoding.plan import Plan
from boolweave.encoding.rules import check_separator, rules_of
from boolweave.encoding.tables import columns_of, table_like
from boolweave.runtime.warning import warn_user


class ColumnsLeftOutWarning(UserWarning):
    """Some columns of a table cannot be encoded as zeros and ones, such as names and free text."""


class CodesTakenAsMissingWarning(UserWarning):
    """Some cells look like codes for "no answer", and are taken as missing."""


class EncodedBits(np.ndarray[Any, Any]):
    """The array that an encoder returns, which knows the questions of its columns.

    A part of it is an array that does not.
    """

    questions: Questions | None = None


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn any table into named columns of zeros and ones, and back.

    The kind of a column is recognized from its cells: zeros and ones, words such as yes and no, and
    checkboxes stay one column; categories get a column for each level; answers with an order get
    nested thresholds; numbers are cut into intervals; dates are split into their parts; cells that
    hold several choices get a column for each choice. Missing cells stay missing (NaN), as
    `BooleanMatrixFactorization` and `BooleanCompletion` expect. Names, free text and constant
    columns are left out, and one warning lists them; another one lists the cells that are taken as
    missing because they say so. What became of each column is in `plan_`, which can be edited and
    given to another encoder.

    Parameters
    ----------
    plan : Plan or path, optional
        How each column is read: the `plan_` of another encoder, or a file that `Plan.write_csv` or
        ``boolweave info --plan`` wrote. Rules for single columns, in `numbers`, `bins`,
        `separators` and `categories`, override it.
    numbers : {"auto", "bins", "thresholds"} or dict, default="auto"
        "thresholds" makes nested columns, "age ≥ 40" and "age ≥ 60"; "bins" makes a column for each
        interval, "40 ≤ age < 60"; "auto" uses thresholds for columns with at most ``n_bins + 1``
        different numbers, such as counts and grades, and bins for others. A dictionary sets it for
        single columns, {column: "bins" or "thresholds"}.
    n_bins : int, default=4
        Number of intervals, each with about equally many rows. If a column has no more different
        numbers than this, each of them is kept.
    bins : dict, optional
        Where to cut, {column: increasing numbers}; each number is the lower end of an interval.
    dates : tuple of {"year", "month", "weekday", "hour"}, default=all
        The parts of dates that get columns, if they differ from row to row.
    separators : sequence of str, or dict, default=(";", "|", ",")
        Possible separators of several choices in one cell; a column is split if its cells have
        different numbers of parts, and if the parts recombine in several ways. A
        dictionary sets the separator of single columns, {column: separator}, which are always
        split.
    categories : sequence of str, optional
        Columns of numbers that are nevertheless categories, such as postal codes.
    min_frequency : int or float, default=0.01
        How often a level must occur to get a column of its own: a number of rows, or a fraction of
        the rows in which the column is known. Rarer levels are pooled as "other".
    max_levels : int, default=30
        Maximum number of levels of a column; the most frequent ones are kept and the others pooled.
    ones, zeros, missing : cell or sequence of cells, optional
        Additional spellings of ones, zeros and missing cells, as in `Observations.from_data`.

    Attributes
    ----------
    plan_ : Plan
        A line for each column: name, kind, levels, missing codes, encoding, question and reason.
    kinds_ : list of str, length n_features_in_
        The kind of each column: "id", "yes/no", "category", "ordered", "choices", "checkbox",
        "number", "date", "text" or "constant".
    left_out_ : dict
        The columns that were left out, with the reasons.
    groups_ : array of int, shape (n_features_out,)
        The question to which each encoded column belongs, numbered from 0: the levels of one
        category, the thresholds of one answer, the checkboxes of one question.
    questions_ : Questions
        The same, and which of the columns are levels of one category, of which one is 1, or
        thresholds of one answer. The array that `transform` returns has them as an attribute, so
        that in a pipeline a `BooleanCompletion` knows them; after `set_output`, pass them to its
        `fit` as `groups`.
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : array of str, shape (n_features_in_,)
        Names of the columns, if they have names.

    Examples
    --------
    >>> import polars
    >>> from boolweave import TableEncoder
    >>> people = polars.DataFrame(
    ...     {
    ...         "colour": ["red", "blue", "red", None],
    ...         "age": [31, 47, 62, 58],
    ...         "member": ["yes", "no", None, "yes"],
    ...     }
    ... )
    >>> encoder = TableEncoder(bins={"age": [40, 60]}, numbers="thresholds")
    >>> encoder.set_output(transform="polars").fit_transform(people).columns
    ['colour = blue', 'colour = red', 'age ≥ 40', 'age ≥ 60', 'member']
    >>> encoder.inverse_transform(encoder.transform(people)).rows()[1:3]
    [('blue', '[40, 60)', 'no'), ('red', '≥ 60', None)]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "plan": [Plan, str, PathLike, None],
        "numbers": [StrOptions({"auto", "bins", "thresholds"}), dict],
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "bins": [dict, None],
        "dates": [tuple, list],
        "separators": [tuple, list, dict],
        "categories": [tuple, list, None],
        "min_frequency": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="left"),
        ],
        "max_levels": [Interval(Integral, 1, None, closed="left")],
        "ones": "no_validation",
        "zeros": "no_validation",
        "missing": "no_validation",
    }

    def __init__(
        self,
        plan: Plan | str | PathLike[str] | None = None,
        *,
        numbers: Literal["auto", "bins", "thresholds"] | Mapping[str, str] = "auto",
        n_bins: int = 4,
        bins: Mapping[str, Any] | None = None,
        dates: tuple[Part, ...] = PARTS,
        separators: tuple[str, ...] | Mapping[str, str] = SEPARATORS,
        categories: tuple[str, ...] | None = None,
        min_frequency: float = 0.01,
        max_levels: int = 30,
        ones: GivenCells = None,
        zeros: GivenCells = None,
        missing: GivenCells = None,
    ) -> None:
        self.plan = plan
        self.numbers = numbers
        self.n_bins = n_bins
        self.bins = bins
        self.dates = dates
        self.separators = separators
        self.categories = categories
        self.min_frequency = min_frequency
        self.max_levels = max_levels
        self.ones = ones
        self.zeros = zeros
        self.missing = missing

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: object = None) -> Self:
        """Determine the kind of each column.

        Parameters
        ----------
        X : table or array, shape (M, n_features_in_)
            A pandas, polars or Arrow table, or an array or nested lists of numbers, texts or both.
            None, NaN and null are missing.
        y : ignored

        Returns
        -------
        self : TableEncoder
        """
        del y
        X = self._checked(X, reset=True)
        names, settings = self._names(), self._settings()
        rules = rules_of(names, self.numbers, self.bins, self.separators, self.categories)
        plan = Plan.read_csv(self.plan) if isinstance(self.plan, str | PathLike) else self.plan
        self._columns = Columns.fit(columns_of(X, names), settings, rules, plan)
        left_out = self.left_out_
        if not self._n_out():
            raise ValueError(
                f"no column is left to encode in n_samples={len(X)} rows; left out: "
                f"{_in_words(left_out)}"
            )
        if left_out and self.plan is None:
            warn_user(f"left out: {_in_words(left_out)}", ColumnsLeftOutWarning)
        codes = {name: ", ".join(cells) for name, cells in self.plan_.taken_as_missing.items()}
        if codes and self.plan is None:
            warn_user(
                "taken as missing, because they look like codes for no answer: "
                f"{_in_words(codes)}; pass a `plan` without them if they are answers",
                CodesTakenAsMissingWarning,
            )
        return self

    @property
    def plan_(self) -> Plan:
        """How each column is read."""
        return self._columns.plan

    @property
    def kinds_(self) -> list[str]:
        """The kind of each column."""
        return [line.kind for line in self.plan_]

    @property
    def left_out_(self) -> dict[str, str]:
        """The columns that were left out, with the reasons."""
        return self.plan_.left_out

    @property
    def groups_(self) -> np.ndarray:
        """The question of each encoded column, (n_features_out,)."""
        return np.array(self._columns.groups, dtype=np.int64)

    @property
    def questions_(self) -> Questions:
        """The questions, and how the columns of each depend on each other."""
        return self._columns.questions

    def transform(self, X: Any) -> Bits:
        """Encode a table with the columns of `fit`.

        Parameters
        ----------
        X : table or array, shape (M, n_features_in_)

        Returns
        -------
        bits : array of float32, or a table according to `set_output`, shape (M, n_features_out)
            0, 1 and NaN. A level that `fit` did not see has a one in the column "other" if there is
            such a column, and otherwise no one at all.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        bits = self._columns.encode(columns_of(X, self._names())).view(EncodedBits)
        bits.questions = self.questions_
        return bits

    def inverse_transform(self, X: Any) -> Any:
        """Convert columns of zeros and ones back to the columns of `fit`.

        Parameters
        ----------
        X : table or array, shape (M, n_features_out)
            0, 1 and NaN.

        Returns
        -------
        table : table as in `fit`, or array of objects, shape (M, n_features_in_)
            Levels, numbers, yes or no; an interval such as "[40, 60)" if only the interval of a
            number is known; dates as their parts, in words. A cell is missing if one of its columns
            is missing, if they contradict each other, or if its column was left out.
        """
        check_is_fitted(self)
        index = getattr(X, "index", None) if self._like == "pandas" else None
        bits = self._checked_bits(X)
        return table_like(self._like, self._names(), self._columns.decode(bits), index)

    def most_probable(self, probabilities: Any) -> Any:
        """Return the most likely cells, given the probabilities of the encoded entries.

        Parameters
        ----------
        probabilities : array, shape (M, n_features_out)
            P(1) of each encoded entry, for example from a completion.

        Returns
        -------
        table : table as in `fit`, or array of objects, shape (M, n_features_in_)
            The most likely level, choices, or number: the median of the numbers that `fit` saw in
            the most likely interval.
        """
        check_is_fitted(self)
        chances = self._checked_bits(probabilities).astype(np.float64)
        cells = self._columns.most_probable(chances)
        return table_like(self._like, self._names(), cells, None)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the encoded columns, such as "colour = red".

        Parameters
        ----------
        input_features : array of str, shape (n_features_in_,), optional
            These are compared with the names of `fit`; if that had none, they name the columns.

        Returns
        -------
        names : array of str objects, shape (n_features_out,)
        """
        from sklearn.utils.validation import _check_feature_names_in

        check_is_fitted(self)
        given = [str(name) for name in _check_feature_names_in(self, input_features)]
        names: list[str] = []
        for feature, name in zip(self._columns.features, given, strict=True):
            names += [out.replace(feature.name, name, 1) for out in feature.names]
        return np.array(distinct(names), dtype=object)

    # ------------------------------------------------------------ checks

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """A table or a two-dimensional array; raise if `X` is neither."""
        if hasattr(type(X), "collect"):
            raise TypeError("expected a table, but got one that is lazy; call its method `collect`")
        if is_table(X):
            _check_distinct(X)
            if reset:
                self._like = type(X).__module__.split(".")[0]
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise ValueError("expected a table with rows, but got n_samples=0")
            if not self.n_features_in_:
                raise ValueError("expected a table with columns, but got 0 feature(s)")
            return X
        if isinstance(X, list) and any(isinstance(row, dict) for row in X):
            raise TypeError(
                "expected a table or a two-dimensional array, but got a list of dicts; make a "
                "table of it, such as `polars.DataFrame(X)`"
            )
        if isinstance(X, list | tuple):
            try:
                X = np.asarray(X)
            except ValueError:
                raise ValueError(
                    "expected a table or a two-dimensional array, but got rows of different "
                    "lengths, or cells that hold several values; make a table of it, such as "
                    '`polars.DataFrame(X, orient="row")`'
                ) from None
        if reset:
            self._like = "array"
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)

    def _checked_bits(self, X: Any) -> Bits:
        n_out = self._n_out()
        if is_table(X):
            import narwhals.stable.v1 as nw

            X = nw.from_native(X, eager_only=True).to_numpy()
        bits: Bits = check_array(X, dtype=np.float32, ensure_all_finite="allow-nan")
        if bits.shape[1] != n_out:
            raise ValueError(
                f"expected the {n_out} columns of get_feature_names_out, but got {bits.shape[1]}"
            )
        return bits

    def _n_out(self) -> int:
        return sum(len(feature.names) for feature in self._columns.features)

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]

    def _settings(self) -> Settings:
        unknown = [part for part in self.dates if part not in PARTS]
        if unknown:
            raise ValueError(f"dates must be among {', '.join(PARTS)}, but got {unknown[0]!r}")
        listed = SEPARATORS if isinstance(self.separators, Mapping) else tuple(self.separators)
        for separator in listed:
            check_separator(separator)
        return Settings(
            self.numbers if isinstance(self.numbers, str) else "auto",
            int(self.n_bins),
            tuple(self.dates),
            listed,
            float(self.min_frequency),
            int(self.max_levels),
            CellWords.of(self.ones, self.zeros, self.missing),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _in_words(left_out: dict[str, str]) -> str:
    return ", ".join(f"{name} ({why})" for name, why in left_out.items())


def _check_distinct(table: Any) -> None:
    """Raise if two columns have the same name."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    for name, n in Counter(names).most_common(1):
        if n > 1:
            raise ValueError(
                f"columns must have different names, but {name!r} occurs {n} times; rename the "
                "repeats"
            )
