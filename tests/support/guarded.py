"""Random fits on arrays with forbidden memory right behind them, or right before them.

In this process, the package makes its arrays next to pages that nobody may touch, so that compiled
code that reads or writes out of its arrays ends the process at once. `test_guarded.py` runs it.

    python tests/support/guarded.py FIRST COUNT
"""

import ctypes
import math
import mmap
import sys
import warnings

import numpy as np

from boolweave import BooleanMatrixFactorization, Observations
from boolweave.engine.kernels import groups, integer_max_sum, integer_sum_product, variables

PAGE = mmap.PAGESIZE
_protect = getattr(ctypes.CDLL(None), "mprotect", None) if sys.platform != "win32" else None
_n_made = 0


def guarded(shape, dtype=np.float64):
    """An array of zeros; every other one ends where the forbidden page begins."""
    global _n_made
    shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size == 0 or size > 1 << 22 or dtype.hasobject or _protect is None:
        return np.zeros(shape, dtype)
    n_pages = -(-size // PAGE) + 1
    memory = mmap.mmap(-1, n_pages * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _n_made += 1
    behind = _n_made % 2 == 0
    forbidden = address + (n_pages - 1) * PAGE if behind else address
    assert _protect(ctypes.c_void_p(forbidden), PAGE, 0) == 0
    start = (n_pages - 1) * PAGE - size if behind else PAGE
    return np.frombuffer(memory, dtype, math.prod(shape), offset=start).reshape(shape)


def copied(array):
    """The same numbers next to a forbidden page."""
    if not isinstance(array, np.ndarray):
        return array
    out = guarded(array.shape, array.dtype)
    out[...] = array
    return out


def _full(shape, value, dtype=None, **_):
    out = guarded(shape, np.asarray(value).dtype if dtype is None else dtype)
    out[...] = value
    return out


class GuardedNumPy:
    """NumPy, but for the functions that make arrays: they make guarded ones."""

    copying = ("array", "tile", "repeat", "concatenate", "arange", "where", "cumsum", "diff")

    def __getattr__(self, name):
        found = getattr(np, name)
        if name not in self.copying:
            return found
        return lambda *arguments, **options: copied(found(*arguments, **options))

    zeros = empty = staticmethod(lambda shape, dtype=np.float64, **_: guarded(shape, dtype))
    ones = staticmethod(lambda shape, dtype=np.float64, **_: _full(shape, 1, dtype))
    full = staticmethod(_full)

    @staticmethod
    def zeros_like(array, dtype=None, **_):
        return guarded(np.shape(array), np.asarray(array).dtype if dtype is None else dtype)

    empty_like = zeros_like

    @staticmethod
    def ascontiguousarray(array, dtype=None):
        found = np.ascontiguousarray(array, dtype)
        return found if found is array else copied(found)


def guard():
    """Let all modules of the package make guarded arrays, but those that hold compiled code."""
    numpy, n_modules = GuardedNumPy(), 0
    for name, module in list(sys.modules.items()):
        if not name.startswith("boolweave.") or getattr(module, "np", None) is not np:
            continue
        own = [thing for thing in vars(module).values() if getattr(thing, "py_func", None)]
        if any(thing.py_func.__module__ == name for thing in own):
            continue  # the compiler must find what it knows
        module.np = numpy
        n_modules += 1
    made = groups.arrays_apart
    for module in (groups, integer_max_sum, integer_sum_product, variables):
        module.arrays_apart = lambda wanted: list(map(copied, made(wanted)))
    assert n_modules > 20


def random_fit(number):
    """A small fit, the same for the same number, on guarded observations."""
    rng = np.random.default_rng(number)
    shape = rng.integers(1, 50, 2)
    table = (rng.random(shape) < rng.choice([0.05, 0.3, 0.5, 1.0])).astype(float)
    table[rng.random(shape) < rng.choice([0.0, 0.0, 0.3, 0.9])] = np.nan
    seen = Observations.from_dense(table)
    seen = Observations(seen.shape, *map(copied, (seen.indptr, seen.indices, seen.values)))
    method = str(rng.choice(["auto", "max-sum", "sum-product"]))
    model = BooleanMatrixFactorization(
        int(rng.choice([1, 2, 3, 7, 16, 17, 31, 64, 65])),
        method=method,
        product=str(rng.choice(["or", "xor"])),
        messages=str(rng.choice(["auto", "float32"])),
        decimation=0.5 if method == "sum-product" and rng.random() < 0.3 else None,
        n_init=int(rng.integers(1, 3)),
        n_jobs=int(rng.integers(1, 3)),
        max_iter=int(rng.integers(1, 7)),
        random_state=number,
    ).fit(seen)
    rows, columns = (rng.integers(0, side, 5) for side in seen.shape)
    assert not np.isnan(model.row_log_odds_).any()
    assert not np.isnan(model.predict_proba(rows, columns)).any()
    model.predict(rows, columns)
    model.transform(seen)
    model.recommend(rows, 3)


def main():
    """So many fits; and first, that the guards work."""
    first, count = map(int, sys.argv[1:])
    warnings.simplefilter("ignore")
    if count == 0:
        array = guarded(10, np.uint8), guarded(10, np.uint8)
        ctypes.memset(array[1].ctypes.data, 1, 11)  # one too many: the end of this process
        return
    random_fit(first)  # imports whatever is needed
    guard()
    for number in range(first, first + count):
        print(number, flush=True)
        random_fit(number)
    print(f"done, {_n_made} arrays guarded")


if __name__ == "__main__":
    main()
