"""Numba's `njit` with a cache that notices changes in any of the kernel files, and less to compile.

Numba compiles functions into those that call them, but its cache checks only the file of the
caller. Here compiled code is in a folder named after the contents of all kernel files, and folders
for other contents are removed. The folder is where numba would keep it: in NUMBA_CACHE_DIR, next to
the source, or in the user's cache directory. If nothing can be written there (a package installed
by somebody else, a read-only home directory), kernels are compiled again in every process, which
takes some seconds.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

FOLDER = "boolweave-"

# The files with compiled functions and their arguments, relative to the folder of the package.
SOURCES = (
    "engine/kernels/*.py",
    "engine/kernels/zeros/*.py",
    "decoding/tanner.py",
    "decoding/batches.py",
    "decoding/set_search.py",
    "baselines/boolean_factors.py",
    "baselines/glrm.py",
    "search/kernels/*.py",
    "completion/kernels/*.py",
    "covering/kernels/*.py",
)


def fingerprint() -> str:
    """A hash of all kernel files."""
    package = Path(__file__).parents[2]
    files = sorted(file for pattern in SOURCES for file in package.glob(pattern))
    contents = hashlib.sha256()
    for file in files:
        contents.update(file.read_bytes())
    return contents.hexdigest()[:16]


_OWN_FOLDER = FOLDER + fingerprint()


def _in_own_folder(locator: Any) -> Any:
    """One of numba's cache locators, in a folder for these kernel files within its own."""

    class Locator(locator):  # type: ignore[misc]
        def get_cache_path(self) -> str:
            return os.path.join(super().get_cache_path(), _OWN_FOLDER)

        def ensure_cache_path(self) -> None:
            folder = Path(self.get_cache_path())
            is_new = not folder.exists()
            super().ensure_cache_path()
            if is_new:
                for other in folder.parent.glob(FOLDER + "*"):
                    if other != folder:
                        shutil.rmtree(other, ignore_errors=True)

    return Locator


class _Kept(caching.CompileResultCacheImpl):
    _locator_classes = [  # noqa: RUF012
        _in_own_folder(locator) for locator in caching.CompileResultCacheImpl._locator_classes
    ]


class _Cache(caching.FunctionCache):
    _impl_class = _Kept

    def save_overload(self, sig: Any, data: Any) -> None:
        # A process with other kernel files may have just removed the folder.
        with contextlib.suppress(FileNotFoundError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """The same as `numba.njit`, with its own `cache` if there is a place for it.

    A function has two compiled forms. The one for Python is cached, and begins with code that turns
    Python's objects into numbers and arrays. The one for other kernels takes less time to compile,
    having no such code, and becomes part of the kernels that call it.
    """

    def compiled_when_called(function: Callable[..., Any]) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        for_python = options | {"no_cfunc_wrapper": True}
        for_kernels = for_python | {"no_cpython_wrapper": True}
        compiled, inner = (numba.njit(**how)(function) for how in (for_python, for_kernels))
        # What numba asks a function for when it compiles another one that calls it.
        compiled.get_call_template = inner.get_call_template
        compiled.get_overload = inner.get_overload
        if cache:
            try:
                compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]
            except RuntimeError as error:
                if "no locator available" not in str(error):
                    raise
        return compiled

    return compiled_when_called
