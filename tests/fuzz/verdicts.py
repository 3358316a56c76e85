"""What a case ended in: a right answer, a clear error, or something that must not happen."""

from __future__ import annotations

import dis
import os
import traceback
import warnings

import numpy as np

FINE, REFUSED = "fine", "clear error"
ABORT = "no memory"  # where the library that reads a file ends the process
CRASH, HANG, NAN, TRACEBACK, FOREIGN, WRONG = (
    "crash", "hang", "NaN", "traceback", "foreign text", "wrong answer",
)  # fmt: skip
OUTCOMES = (FINE, REFUSED, ABORT, CRASH, HANG, NAN, TRACEBACK, FOREIGN, WRONG)

LONGEST_MESSAGE = 1000

# Errors that tell a user what to do. Everything else is a bug, whatever it says.
CLEAR = (
    ValueError, TypeError, IndexError, OSError, MemoryError, NotImplementedError, ImportError,
)  # fmt: skip
# Checks of parameters and of shapes that every estimator of scikit-learn has, in its words.
CHECKS = ("sklearn/utils/_param_validation.py", "sklearn/utils/validation.py")
WARNINGS = ("RuntimeWarning", "DeprecationWarning", "FutureWarning", "PendingDeprecationWarning")


class Wrong(Exception):
    """An answer that is not right."""

    def __init__(self, text: str, outcome: str = WRONG) -> None:
        super().__init__(text)
        self.outcome = outcome


def expect(condition, text: str) -> None:
    """Raise `Wrong` unless a condition holds."""
    if not np.all(condition):
        raise Wrong(text)


def expect_probabilities(values, text: str) -> None:
    """Raise `Wrong` unless all are numbers from 0 to 1."""
    values = np.asarray(values, dtype=float)
    if np.isnan(values).any():
        raise Wrong(f"{text}: NaN", NAN)
    expect((values >= 0) & (values <= 1), f"{text}: not within [0, 1]")


def expect_numbers(values, text: str) -> None:
    """Raise `Wrong` if one is NaN."""
    if np.isnan(np.asarray(values, dtype=float)).any():
        raise Wrong(f"{text}: NaN", NAN)


# ---------------------------------------------------------------- judging


def judged_error(error: BaseException) -> str:
    """What an exception is to a user: a clear error, foreign text or a traceback."""
    if isinstance(error, Wrong):
        return error.outcome
    if not isinstance(error, CLEAR):
        return TRACEBACK
    message = str(error)
    if not _raised_by_us(error):
        # The system's own words about a file, such as "No such file or directory", name it.
        return REFUSED if isinstance(error, OSError) and error.filename else FOREIGN
    if not message or len(message) > LONGEST_MESSAGE:
        return TRACEBACK
    cause = error.__cause__ or error.__context__
    while cause is not None:
        text = (str(cause).splitlines() or [""])[0]
        foreign = not isinstance(cause, KeyError) and not _raised_by_us(cause)
        if foreign and len(text) > 12 and text in message:
            return FOREIGN
        cause = cause.__cause__ or cause.__context__
    return REFUSED


def _raised_by_us(error: BaseException) -> bool:
    """Whether a `raise` of boolweave raised it, not a function of another library."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename.replace(os.sep, "/")
    instruction = dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]]
    return instruction in ("RAISE_VARARGS", "RERAISE") and (
        "/boolweave/" in file or file.endswith(CHECKS)
    )


def outcome_of(run) -> tuple[str, str]:
    """Run a case: its outcome, and the text that goes with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run()
        except Exception as error:
            outcome = judged_error(error)
            return outcome, "".join(traceback.format_exception(error))
        except BaseException as error:  # a panic of polars is one of these
            return TRACEBACK, "".join(traceback.format_exception(error))
    for warning in caught:
        if warning.category.__name__ in WARNINGS and "pytest" not in warning.filename:
            place = f"{warning.filename}:{warning.lineno}"
            return FOREIGN, f"{place}: {warning.category.__name__}: {warning.message}"
    return FINE, ""
