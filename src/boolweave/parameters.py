"""The parameters of the estimators, each declared once: name, values, default, option and text.

Signatures, checks, options of commands, docstrings and tables of the documentation come from these
declarations. Neither NumPy nor scikit-learn is loaded here, so that the help of commands is quick.
"""

from __future__ import annotations

import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from inspect import cleandoc
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from numpy.random import RandomState
    from numpy.typing import ArrayLike

    from boolweave.model.channel import Channel
    from boolweave.runtime.checkpoint import Checkpoint
    from distributed import Client
else:  # only the names, for those who read declarations and do not need the things themselves
    ArrayLike, Channel, Checkpoint, Client, RandomState = (
        type(name, (), {})
        for name in ("ArrayLike", "Channel", "Checkpoint", "Client", "RandomState")
    )

Function = TypeVar("Function", bound=Callable[..., Any])

# What docstrings call kinds of values that have other names in Python.
IN_WORDS = {
    "ArrayLike": "array", "Path": "path", "Client": "distributed.Client",
    "Sequence": "sequence of float",
}  # fmt: skip

# How noise is learned.
Noise = Literal["learn", "learn-columns", "learn-rows", "auto"]

# What several estimators have, with different defaults.
ABSENT = "How to treat the entries that a sparse matrix does not store."


class Interval(NamedTuple):
    """The limits of a number, and whether they belong to it: "[]", "[)", "(]" or "()"."""

    low: float
    high: float
    ends: str

    def __contains__(self, number: object) -> bool:
        value: Any = number
        above = self.low <= value if self.ends[0] == "[" else self.low < value
        return bool(above and (value <= self.high if self.ends[1] == "]" else value < self.high))


@dataclass(frozen=True)
class Parameter:
    """A parameter as it was declared.

    Attributes
    ----------
    kinds : tuple of types
        The types of its values; those that would have to be loaded are only named.
    words : tuple of str
        Words that it may be as well.
    short, more : str
        Sentences for tables and the command line, and further sentences for docstrings.
    range : str or None
        The interval of its numbers, such as "[0.0, inf)"; whole numbers end at 2^63.
    only : "posterior", "errors" or None
        The only objective with which it has an effect.
    option : tuple of str or None
        The names of its option; None stands for the name in Python, and an empty tuple for no
        option.
    metavar : str or None
        What stands for its number or its text in the help.
    file : str
        What the file holds that its option names.
    """

    name: str
    default: Any
    kinds: tuple[type, ...]
    words: tuple[str, ...]
    short: str
    more: str = ""
    range: str | None = None
    only: Literal["posterior", "errors"] | None = None
    option: tuple[str, ...] | None = None
    metavar: str | None = None
    file: str = ""

    @property
    def sentence(self) -> str:
        """The short text, with the objective to which it applies."""
        given = 'With `objective="errors"`: ' if self.only == "errors" else ""
        return given + (self.short[0].lower() if given else self.short[0]) + self.short[1:]

    @property
    def options(self) -> tuple[str, ...]:
        """All names of its option."""
        return (f"--{self.name.replace('_', '-')}",) if self.option is None else self.option

    @property
    def main_option(self) -> str:
        """The name of its option in messages: that in Python if there is such an option."""
        plain = f"--{self.name.replace('_', '-')}"
        return plain if plain in self.options else self.options[0].partition("/")[0]

    @property
    def number(self) -> type[int] | type[float] | None:
        """The type of its numbers, if it may be a number."""
        return float if float in self.kinds else int if int in self.kinds else None

    @property
    def interval(self) -> Interval | None:
        """The range of its numbers."""
        if self.range is None:
            return None
        low, high = self.range[1:-1].split(",")
        end = 2.0**63 if "^" in high else float(high)
        return Interval(float(low), end, self.range[0] + self.range[-1])

    def accepts(self, value: object) -> bool:
        """Whether the value of an option, which is a number, text, path or nothing, is valid."""
        if isinstance(value, str):
            return value in self.words or str in self.kinds
        if isinstance(value, bool) and bool in self.kinds:
            return True
        if isinstance(value, Real) and self.number is not None:
            if self.interval is None:
                is_seed = "RandomState" in [kind.__name__ for kind in self.kinds]
                return isinstance(value, Integral) and (not is_seed or 0 <= int(value) < 2**32)
            is_whole = isinstance(value, Integral) and not isinstance(value, bool)
            return value in self.interval and (is_whole or self.number is float)
        return isinstance(value, tuple(kind for kind in self.kinds if kind in (Path, NoneType)))

    @property
    def is_text_of_number(self) -> bool:
        """Whether an option takes a text that is converted: a number or a word, or two kinds."""
        several = bool(self.words) or {int, float} <= set(self.kinds)
        return several and self.number is not None

    @property
    def expected(self) -> str:
        """The numbers and the words that it may be, for messages."""
        numbers = {int: "a whole number", float: "a number", None: ""}[self.number]
        inside = f" in {self.range}" if self.range else ""
        return " or ".join([*([numbers + inside] if numbers else []), *map(repr, self.words)])

    @property
    def values(self) -> str:
        """Its values as docstrings write them."""
        words = [f'"{word}"' for word in self.words]
        names = [IN_WORDS.get(kind.__name__, kind.__name__) for kind in self.kinds]
        names = [name for name in names if name != "NoneType"]
        if "path" in names:
            names.remove("str")
        if not names:
            return f"{{{', '.join(words)}}}"
        *others, last = [*names, *words]
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def default_in_words(self) -> str:
        """Its default as Python writes it."""
        return f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)

    @property
    def docstring(self) -> str:
        """Its lines in a docstring."""
        ending = "optional" if self.default is None else f"default={self.default_in_words}"
        text = textwrap.fill(f"{self.sentence} {self.more}", 92, break_on_hyphens=False)
        return f"{self.name} : {self.values}, {ending}\n{textwrap.indent(text, '    ')}"


def parameter(default: object, short: str, more: str = "", **facts: Any) -> Any:
    """Declare a parameter; the other arguments are those of `Parameter`."""
    return field(default=default, metadata={"short": short, "more": more, **facts})


def parameters_of(estimator: type) -> dict[str, Parameter]:
    """The declared parameters of a class, those of its own declaration first."""
    declared = {each.name: each for each in fields(estimator) if "short" in each.metadata}
    found: dict[str, Parameter] = {}
    for base in estimator.__mro__:
        own = [name for name in vars(base).get("__annotations__", ()) if name in declared]
        for name in own:
            hint = eval(base.__annotations__[name], vars(sys.modules[base.__module__]))
            is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
            parts = typing.get_args(hint) if is_union else (hint,)
            literal = [part for part in parts if typing.get_origin(part) is Literal]
            words = tuple(word for part in literal for word in typing.get_args(part))
            kinds = tuple(part for part in parts if part not in literal)
            facts = declared[name].metadata
            found.setdefault(name, Parameter(name, declared[name].default, kinds, words, **facts))
    return found


def documented(docstring: str, declaring: type) -> str:
    """A docstring with the declared parameters of a class after those that it has already."""
    texts = "\n".join(each.docstring for each in parameters_of(declaring).values())
    title = "Parameters\n----------\n"
    section = r"\n((?!Parameters)\w+\n---+\n)"
    before, heading, after = re.split(section, cleandoc(docstring), maxsplit=1)
    before = before.rstrip() + "\n" if title in before else f"{before}\n{title}"
    return f"{before}{texts}\n\n{heading}{after}"


def takes(declaring: type) -> Callable[[Function], Function]:
    """Decorate a function with the declared parameters of a class: they are in its docstring."""

    def decorate(function: Function) -> Function:
        if function.__doc__ is not None:  # python -OO has none
            function.__doc__ = documented(function.__doc__, declaring)
        return function

    return decorate


# ---------------------------------------------------------------- declarations
# A table, which the formatter would make twice as long.
# fmt: off


@dataclass(eq=False, repr=False, kw_only=True)
class CommonParameters:
    """Parameters that all estimators have."""

    max_time: float | None = parameter(
        None, "Time limit in seconds, after which the fit ends with its best answer so far.",
        "The time to compile code, when the package is first used on a machine, does not count.",
        range="(0.0, inf)")
    n_jobs: int | None = parameter(
        None, "Number of threads; -1 uses all cores.", "The result does not depend on it.",
        option=("--jobs", "--n-jobs", "-j"))
    random_state: int | RandomState | None = parameter(
        None, "Random seed.", option=("--seed", "--random-state"))
    verbose: int | bool = parameter(
        0, "Whether to show progress on standard error.", range="[0, 2^63)", option=())


@dataclass(eq=False, repr=False)
class FactorizationParameters(CommonParameters):
    """The parameters of `BooleanMatrixFactorization`."""

    n_components: int | Literal["auto", "few"] = parameter(
        "auto",
        'Number of factors; "auto" chooses it by description length, and "few" takes the elbow of '
        "the same curve.",
        "If that hardly differs from the length without factors and over 5% of the entries are "
        "missing, held-out entries choose. The elbow is a smaller number of factors that brings "
        "most of what the best number gains. The choice does not depend on `random_state`. The "
        "number may exceed both sides of the matrix.",
        range="[1, 2^63)", option=("--n-components", "-k"), metavar="K")
    _: KW_ONLY
    objective: Literal["posterior", "errors"] = parameter(
        "posterior",
        '"errors": fewest wrong entries, to describe observed entries; "posterior": probabilities, '
        "to predict unobserved ones. `factorize` uses the former unless a parameter of message "
        "passing, such as `method`, is given.",
        '"errors" is a search that does not use `method`, `noise`, `row_prior`, `column_prior`, '
        "`damping`, `max_iter`, `tol`, `messages`, `decimation` and `zeros`.")
    false_one_weight: float = parameter(
        1.0,
        "The cost of a false one relative to a missed one; infinity (inf) allows no false ones.",
        "A one is false if the product is 1 and a zero was observed, and missed if the product is "
        "0 and a one was observed.", range="(0.0, inf]", only="errors", metavar="W|inf")
    bound: bool = parameter(
        True, "Whether to compute a lower bound of the errors, which takes up to two seconds.",
        "On a small table, that is more than the search takes. If False, `error_bound_` is 0.",
        only="errors", option=("--bound/--no-bound",))
    product: Literal["or", "xor"] = parameter("or", "How the factors are combined.")
    method: Literal["auto", "max-sum", "sum-product", "paper"] = parameter(
        "auto", "The message-passing algorithm.",
        '"auto" runs short max-sum starts and finishes the best of them by sum-product with a '
        'learned channel and learned priors. "max-sum" finds the most probable factors with the '
        "messages of Ravanbakhsh, Póczos and Greiner (2016), in sweeps, with small integers, and "
        'keeps the best iterate. "sum-product" computes marginals from a random start. "paper" is '
        "the algorithm of that paper as it is printed, and nothing else: one run with six arrays "
        "of floats, of which the last iterate is the result. It needs a number of factors and is "
        "slower.", only="posterior")
    noise: float | Channel | Noise | None = parameter(
        None,
        'Probability that an observed entry is flipped; by default, it is learned ("learn"), but '
        '0.1 with `method="max-sum"` and "paper".',
        "A `Channel` may have different probabilities for zeros and ones, and for each entry. "
        '"learn" finds one pair of rates, that of false ones and that of true ones; '
        '"learn-columns" and "learn-rows" find a pair for each column or row, shrunk to the common '
        'pair; "auto" chooses among the three by description length.',
        range="[0.0, 1.0]", only="posterior", metavar="P")
    row_prior: float | ArrayLike | Literal["learn"] | None = parameter(
        None,
        "Prior probability that a row has a factor, P(x = 1); by default, it is learned, but 0.5 "
        'with `method="max-sum"` and "paper".',
        "An array broadcasts to (M, K). With 0 and 1, an entry of X is known.",
        range="[0.0, 1.0]", only="posterior", metavar="P")
    column_prior: float | ArrayLike | Literal["learn"] | None = parameter(
        None,
        "Prior probability that a column has a factor, P(y = 1); by default, it is learned, but "
        '0.5 with `method="max-sum"` and "paper".',
        "An array broadcasts to (K, N). With 0 and 1, an entry of Y is known.",
        range="[0.0, 1.0]", only="posterior", metavar="P")
    damping: float = parameter(
        0.4, "Weight of the new message in each update.", range="(0.0, 1.0]", only="posterior")
    max_iter: int = parameter(
        200, "Maximum number of iterations per start.", range="[1, 2^63)", only="posterior")
    tol: float = parameter(
        1e-3, "Convergence tolerance of the messages.",
        "A run ends when no message changes by more than this in an iteration: in max-sum relative "
        'to its bound |L|, in sum-product in log-odds. With `method="paper"`, the change is that '
        "of the messages to rows, in log-odds.", range="[0.0, inf)", only="posterior")
    n_init: int | Literal["auto"] = parameter(
        "auto", "Number of random starts, of which the best is kept.",
        '"auto" means 1 with `method="max-sum"` and "paper" (which allows no more) and with '
        "collective `zeros`, otherwise at most 6, and fewer if they agree. With "
        '`objective="errors"`, it is the number of independent searches; "auto" means until three '
        "of them find the lowest error, and without `max_time` at most 8.",
        range="[1, 2^63)", metavar="N")
    messages: Literal["auto", "uint8", "float32"] = parameter(
        "auto", "How messages are stored: in small integers or as floats.",
        '"uint8" has 8 bits in max-sum and 16 bits in sum-product. "auto" means "uint8" if the '
        "channel is the same for every entry and not nearly certain; if `n_components` is given, "
        "max-sum that runs to the end does the last 30% of its iterations with floats, provided "
        "that these take at most 300 MB.", only="posterior")
    decimation: float | None = parameter(
        None, "Fraction of the undecided factor entries that is fixed in each round, until all are "
        "decided.",
        "With sum-product: the entries of X and Y with the strongest beliefs are fixed, and the "
        "iterations continue. This breaks ties between equally good solutions.",
        range="(0.0, 1.0]", only="posterior")
    zeros: Literal["auto", "exact", "collective"] = parameter(
        "auto",
        'For sparse input in which absent entries are zeros. "exact": treat each zero separately; '
        '"collective": treat all zeros of a row at once, for large matrices; "auto": choose by '
        "size.",
        'With "exact", each zero has messages of its own. With "collective", time and memory are '
        "proportional to the number of ones; this needs the OR product and one channel for all "
        'entries. "auto" means "collective" for a sparse matrix of at least 50 million cells of '
        "which at most a tenth are ones.", only="posterior", option=("--zero-treatment",))
    absent: Literal["zero", "missing"] = parameter("zero", ABSENT, option=())
    output: Literal["bits", "probability"] = parameter(
        "bits", 'What `transform` returns: zeros and ones, or with "probability" P(x = 1).',
        "A probability is the marginal of the row given the components and the noise, also with "
        '`objective="errors"`.', option=())
    checkpoint: str | Path | Checkpoint | None = parameter(
        None,
        "A directory in which a long run saves its state, so that it can continue after a crash.",
        "It does so every two minutes. A `fit` of the same data with the same parameters continues "
        "from there, with the same result. When it is finished, the directory is empty again.",
        metavar="DIRECTORY")
    max_memory: float | str | None = parameter(
        None, "Memory limit of a fit in addition to its input, for example 2GiB; messages that "
        "exceed it are kept in files.",
        "A number is one of bytes. The files are in the directory for temporary files (TMPDIR) and "
        "are loaded block by block. The result is the same, but `noise=\"auto\"` learns rates of "
        "columns or rows, which need messages in memory, only if these do not exceed it.",
        range="[1.0, inf)", metavar="SIZE")


@dataclass(eq=False, repr=False)
class ClusterParameters(FactorizationParameters):
    """The parameters of `DaskBooleanMatrixFactorization`."""

    _: KW_ONLY
    client: Client | None = parameter(
        None, "The Dask client; by default, the current one.", option=())


@dataclass(eq=False, repr=False)
class CompletionParameters(CommonParameters):
    """The parameters of `BooleanCompletion`."""

    n_components: int | Literal["auto"] = parameter(
        "auto", "Number of Boolean factors of a layer, and of the plain Boolean model.",
        "By default, layers have 4, and also 8 from 10,000 entries on; in the plain model, they "
        "are chosen by description length.", range="[1, 2^63)")
    n_layers: int | Literal["auto"] = parameter(
        "auto", "Number of Boolean layers; 0 means none.",
        "By default, it is the best number up to 6, or up to 3 with fewer than 10,000 entries; "
        "several strengths are tried.",
        range="[0, 2^63)", option=("--layers", "--n-layers"), metavar="N")
    n_members: int = parameter(
        16, "Number of models whose probabilities are averaged.",
        "More members make the probabilities a little more stable, and take longer.",
        range="[1, 2^63)", option=("--members", "--n-members"), metavar="N")
    _: KW_ONLY
    n_directions: int | Literal["auto"] = parameter(
        "auto", "Number of real-valued directions in which rows and columns differ; 0 means none.",
        "By default, it is the best of 0, 2 and 8, and of 16 if 8 are better than fewer; with or "
        "without the pattern of entries.",
        range="[0, 2^63)", option=("--directions", "--n-directions"), metavar="N")
    absent: Literal["zero", "missing"] = parameter("missing", ABSENT, option=())
    client: Client | None = parameter(
        None, "A Dask client whose cluster runs trials and members.", option=())


@dataclass(eq=False, repr=False)
class CoverParameters:
    """The parameters of `cover`."""

    coverage: float = parameter(
        1.0, "Fraction of the ones that must be covered.", "It is above 0.", range="(0.0, 1.0]")
    false_ones: int | float = parameter(
        0, "Maximum number of zeros that may be covered; a number with a decimal point is a "
        "fraction of the number of ones.", "It is then below 1.", metavar="N|SHARE")
    n_components: int | None = parameter(
        None, "Maximum number of factors; if they are too few for `coverage`, as many ones as "
        "possible are covered.", range="[1, 2^63)", option=("--n-components", "-k"))
    objective: Literal["roles", "assignments"] = parameter(
        "roles", '"roles": the fewest factors, and among such covers few assignments, the ones of '
        'X and Y; "assignments": the least sum of factors and assignments.',
        "The latter is the weighted structural complexity of roles.")
    fixed: ArrayLike | None = parameter(
        None, "The columns of factors that the answer must contain; they come first.",
        "An array, a table, a sparse matrix or `Observations`, of shape (F, N). The rows of these "
        "factors are chosen by the search. Columns with names are matched by name; labels of rows "
        "are the names of the factors, which the answer keeps (``fixed_names``).",
        file="The file has a line of zeros and ones for each, or pairs of factor and column.",
        metavar="FILE")
    max_rows: int | None = parameter(
        None, "Maximum number of rows of a factor that is not fixed.", range="[1, 2^63)")
    max_columns: int | None = parameter(
        None, "Maximum number of columns of a factor that is not fixed.", range="[1, 2^63)")
    min_rows: int | None = parameter(
        None, "Minimum number of rows of a factor that is not fixed.",
        "Ones that no such factor can cover are missed.", range="[1, 2^63)")
    min_columns: int | None = parameter(
        None, "Minimum number of columns of a factor that is not fixed.",
        "Ones that no such factor can cover are missed.", range="[1, 2^63)")
    max_roles_per_row: int | None = parameter(
        None, "Maximum number of factors of a row; ones that would need more are missed.",
        range="[1, 2^63)")
    conflicts: ArrayLike | None = parameter(
        None, "Sets of columns of which no factor that is not fixed may have two.",
        "A list of lists of columns, by name or number. Rows that have two of them are listed in "
        "``conflicts`` of the answer.",
        file="The text file has a line for each set: its names, separated by commas.",
        metavar="FILE")
    row_attributes: ArrayLike | None = parameter(
        None, "What is known of the rows, such as department and location, by which factors are "
        "described and named.",
        "A table or a dict of lists; the descriptions are ``descriptions`` of the answer. There is "
        "a line for each row, in the same order; or one column holds the labels of all rows, each "
        "in one or more lines, as in a table of users, departments and permissions that `X` was "
        "made from.",
        file="One column of the table has the labels of the rows; it may be INPUT itself.",
        metavar="FILE")
    closed: bool = parameter(
        False, "Whether every factor gets every row that it fits, and every column that its rows "
        "share.",
        "By default, no factor has a row or a column that other factors make needless.",
        option=("--closed",))
    max_time: float | None = parameter(
        None, "Time limit in seconds, after which the answer is the best cover so far; by default, "
        "some half a minute of work.", 'The ``ending`` of the answer is then "out of time".',
        range="(0.0, inf)")
    random_state: int | RandomState | None = parameter(
        None, "Random seed.",
        "The same seed gives the same answer, unless `max_time` ends the search.",
        option=("--seed", "--random-state"))
    verbose: int | bool = parameter(
        0, "Whether to show progress on standard error.", range="[0, 2^63)", option=())

# fmt: on
# ---------------------------------------------------------------- valid values and combinations


def check_values(parameters: CommonParameters, name_of: Callable[[str], str]) -> None:
    """Raise ValueError if the value of an option, which `name_of` names, is not valid."""
    for name, parameter in parameters_of(type(parameters)).items():
        value = getattr(parameters, name)
        if not parameter.accepts(value):
            raise ValueError(f"{name_of(name)}: expected {parameter.expected}, got {value!r}")


DECLARED = parameters_of(FactorizationParameters)

# The parameters that a completion does not have.
ONLY_OF_FACTORIZATION = set(DECLARED) - set(parameters_of(CompletionParameters))

# What the default None of these parameters means, written out.
MEANING_OF_NONE = {"noise": "learn", "row_prior": "learn", "column_prior": "learn"}


def not_default(values: Mapping[str, Any]) -> list[str]:
    """Names of the parameters whose value is not the default, which may also be written out."""
    import numpy as np

    def is_default(name: str, value: Any) -> bool:
        if np.ndim(value):
            return False
        meaning, default = MEANING_OF_NONE.get(name), getattr(FactorizationParameters, name)
        return bool(value == default) or (meaning is not None and value in (None, meaning))

    return [name for name, value in values.items() if not is_default(name, value)]


def of_message_passing(values: Mapping[str, Any]) -> list[str]:
    """Those of them that the search for the fewest errors does not use."""
    return [name for name in not_default(values) if DECLARED[name].only == "posterior"]


def check_objective(parameters: FactorizationParameters) -> None:
    """Raise ValueError if parameters are given that the objective does not use."""
    if parameters.objective == "posterior":
        if parameters.false_one_weight != 1:
            raise ValueError(
                '`false_one_weight` weights errors, which `objective="posterior"` does not count; '
                'set `objective="errors"`, or leave out `false_one_weight`'
            )
        if not parameters.bound:
            raise ValueError(
                '`bound=False` leaves out a lower bound, which `objective="posterior"` does not '
                'have; set `objective="errors"`, or leave it out'
            )
        return
    values = {name: getattr(parameters, name) for name in DECLARED}
    given = [f"`{name}`" for name in of_message_passing(values)]
    if given:
        raise ValueError(
            f'`objective="errors"` counts wrong entries and does not use {", ".join(given)}; leave '
            f'{"it" if len(given) == 1 else "them"} out, or set `objective="posterior"`'
        )


# Parameters that the algorithm as it is printed does not use, with the values that they may have.
NOT_IN_PAPER: dict[str, tuple[Any, ...]] = {
    "product": ("or",), "n_init": ("auto", 1), "messages": ("auto",), "decimation": (None,),
    "checkpoint": (None,), "max_memory": (None,), "zeros": ("auto", "exact"),
}  # fmt: skip


def check_method(parameters: FactorizationParameters) -> None:
    """Raise ValueError if method="paper" is given with parameters that it does not use."""
    if parameters.method != "paper":
        return
    values = {name: getattr(parameters, name) for name in (*NOT_IN_PAPER, *MEANING_OF_NONE)}
    given = [name for name, allowed in NOT_IN_PAPER.items() if values[name] not in allowed]
    given += [name for name in MEANING_OF_NONE if isinstance(values[name], str)]
    if given:
        raise ValueError(
            f'`method="paper"` is the algorithm as it is printed, which does not use '
            f'`{given[0]}={values[given[0]]!r}`; leave it out, or set `method="max-sum"` or "auto"'
        )
    if isinstance(parameters.n_components, str):
        raise ValueError(
            '`method="paper"` is the algorithm as it is printed, for a given number of factors; '
            'set `n_components`, or `method="max-sum"` or "auto"'
        )


def with_objective(parameters: Mapping[str, Any], default: str = "errors") -> dict[str, Any]:
    """Add an objective: "posterior" if a parameter that only this objective has is not default."""
    known = {name: parameters[name] for name in DECLARED if name in parameters}
    return {"objective": "posterior" if of_message_passing(known) else default, **parameters}


def only_in_factorization(parameters: Mapping[str, Any]) -> list[str]:
    """Names of the parameters, with other values than their defaults, of a factorization only.

    An objective is always one of them: a completion has none.
    """
    values = {name: value for name, value in parameters.items() if name in ONLY_OF_FACTORIZATION}
    others = not_default(values)
    return [name for name in values if name in others or name == "objective"]


def without_defaults(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out parameters that only a factorization has, if they have their default values."""
    unused = ONLY_OF_FACTORIZATION - set(only_in_factorization(parameters))
    return {name: value for name, value in parameters.items() if name not in unused}
