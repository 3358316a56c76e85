"""Numba's `njit` with a cache that notices changes in other kernel files, and less to compile.

Numba compiles functions into those that call them, but its cache checks only the file of the
caller. Here compiled code is in a folder named after the contents of the file and of all kernel
files that it imports, and folders for other contents are removed. The folder is where numba would
keep it: in NUMBA_CACHE_DIR, next to the source, or in the user's cache directory. If nothing can be
written there (a package installed by somebody else, a read-only home directory), kernels are
compiled again in every process, which takes some seconds.

A wheel for a platform brings code along that was compiled for a baseline, a set of processors. It
is used if this processor, Python and numba fit, and otherwise kernels are compiled as always.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from functools import cache as computed_once
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import llvmlite.binding
import numba
from numba.core import caching

# Things of numba without static types: the types of arguments, its compiler, compiled code, and
# where that is kept.
Function: TypeAlias = Callable[..., Any]
Signature: TypeAlias = Any
Context: TypeAlias = Any
Code: TypeAlias = Any
Locator: TypeAlias = Any
Cache: TypeAlias = Any

FOLDER = "boolweave-"
PACKAGE = Path(__file__).parents[2]

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

_WORD = re.compile(r"\w+")
_IMPORT = re.compile(r"^from boolweave\.([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@computed_once
def _sources() -> frozenset[Path]:
    return frozenset(file for pattern in SOURCES for file in PACKAGE.glob(pattern))


@computed_once
def _imported(file: Path) -> frozenset[Path]:
    """A kernel file and all kernel files that it imports, directly or not."""
    found, new = {file}, [file]
    while new:
        for module, names in _IMPORT.findall(new.pop().read_text("utf-8")):
            place = PACKAGE.joinpath(*module.split("."))
            modules = {place.with_suffix(".py"), *(place / f"{n}.py" for n in _WORD.findall(names))}
            more = (modules & _sources()) - found
            found |= more
            new += more
    return frozenset(found)


@computed_once
def fingerprint(file: Path) -> str:
    """A hash of a kernel file and of all kernel files that it imports."""
    contents = hashlib.sha256()
    for source in sorted(_imported(file)):
        contents.update(source.read_bytes())
    return contents.hexdigest()[:16]


# ---------------------------------------------------------------- code that is kept here


def _in_own_folder(locator: Locator) -> Locator:
    """One of numba's cache locators, in a folder for these kernel files within its own."""

    class InOwnFolder(locator):  # type: ignore[misc]
        def __init__(self, function: Function, file: str) -> None:
            super().__init__(function, file)
            self._prefix = f"{FOLDER}{Path(file).stem}-"
            self._folder = self._prefix + fingerprint(Path(file))

        def get_cache_path(self) -> str:
            return os.path.join(super().get_cache_path(), self._folder)

        def ensure_cache_path(self) -> None:
            folder = Path(self.get_cache_path())
            is_new = not folder.exists()
            super().ensure_cache_path()
            if is_new:
                for other in folder.parent.glob(self._prefix + "*"):
                    if other != folder:
                        shutil.rmtree(other, ignore_errors=True)

    return InOwnFolder


class _Kept(caching.CompileResultCacheImpl):
    _locator_classes = [  # noqa: RUF012
        _in_own_folder(locator) for locator in caching.CompileResultCacheImpl._locator_classes
    ]


class _Cache(caching.FunctionCache):
    _impl_class = _Kept

    def __init__(self, function: Function) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._shipped = _shipped(function)

    def load_overload(self, sig: Signature, target_context: Context) -> Code:
        found = self._shipped.load_overload(sig, target_context)
        if found is None:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None:
            baseline.say_why_not()
        return found

    def save_overload(self, sig: Signature, data: Code) -> None:
        # A process with other kernel files may have just removed the folder.
        with contextlib.suppress(FileNotFoundError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


# ---------------------------------------------------------------- code that comes with the package

# By machine: the name of a baseline in LLVM, and the features that processors of it have.
BASELINES = {
    "x86_64": ("x86-64-v3", "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sse4.2 xsave"),
    "aarch64": ("generic", "neon"),
    "arm64": ("generic", "neon"),
}


class Baseline:
    """The processors, and the versions of Python and numba, for which the package was compiled.

    Parameters
    ----------
    folder : Path
        The folder of the compiled code, with a description.

    Attributes
    ----------
    problem : str
        Why the code cannot be used here, in words; empty if it can be used, or if there is none.
    """

    DESCRIPTION = "baseline.json"

    def __init__(self, folder: Path = PACKAGE / "compiled") -> None:
        self.folder, self.is_writable, self.problem = folder, False, ""
        try:
            described = json.loads((folder / self.DESCRIPTION).read_text("utf-8"))
        except FileNotFoundError:
            self.name = ""
            return
        self.name = described["processors"]
        for what, version in self.versions().items():
            if described[what] != version:
                self.problem = f"{what} {described[what]}, but this is {what} {version}"
        host = llvmlite.binding.get_host_cpu_features()
        if lacking := [name for name in described["features"] if not host.get(name)]:
            self.problem = f"{self.name}, but this processor has no {', '.join(lacking)}"

    @staticmethod
    def versions() -> dict[str, str]:
        """What else must be the same where the code is used."""
        return {
            "machine": f"{platform.system()} {platform.machine()}",
            "Python": "{}.{}".format(*sys.version_info),
            "numba": numba.__version__,
        }

    @classmethod
    def begin(cls, folder: Path) -> "Baseline":
        """Compile for the baseline of this machine from now on, into a new folder."""
        name, features = BASELINES[platform.machine()]
        # The name stands for all features.
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = name, ""  # type: ignore[attr-defined]
        described = {"processors": name, "features": features.split(), **cls.versions()}
        folder.mkdir()
        (folder / cls.DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n", "utf-8")
        new = cls(folder)
        new.is_writable, new.problem = True, ""
        return new

    def say_why_not(self) -> None:
        """Warn, once, that a kernel is compiled because the code that is there cannot be used."""
        if self.problem:
            warnings.warn(
                f"the package was compiled for {self.problem}; its functions are compiled here, "
                "once, which takes some seconds each",
                stacklevel=2,
            )
            self.problem = ""
            self.name = ""


baseline = Baseline()


class _InPackage(caching._CacheLocator):
    """The folder of the functions of a file within the package."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def get_cache_path(self) -> str:
        return str(baseline.folder / self._file.relative_to(PACKAGE).with_suffix(""))

    def get_source_stamp(self) -> str:
        return fingerprint(self._file)

    def get_disambiguator(self) -> str:
        return ""  # no function of a file has the name of another one

    @classmethod
    def from_function(cls, py_func: Function, py_file: str) -> Locator:
        return cls(py_file)


class _ShippedImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_InPackage]  # type: ignore[list-item]  # noqa: RUF012


class _Shipped(caching.FunctionCache):
    """The code of a function that the package brings along."""

    _impl_class = _ShippedImpl

    def load_overload(self, sig: Signature, target_context: Context) -> Code:
        if not baseline.name or baseline.problem:
            return None
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Signature, data: Code) -> None:
        if baseline.is_writable:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: Signature, codegen: Context) -> tuple[object, ...]:
        """Numba's key without the name and the features of this processor."""
        nowhere = SimpleNamespace(magic_tuple=lambda: baseline.name)
        key: tuple[object, ...] = super()._index_key(sig, nowhere)  # type: ignore[no-untyped-call]
        return key


def _shipped(function: Function) -> Cache:
    """The code of a function that the package brings along; none for a function elsewhere."""
    is_ours = PACKAGE in Path(function.__code__.co_filename).parents
    if is_ours:
        return _Shipped(function)  # type: ignore[no-untyped-call]
    return caching.NullCache()


def _cache_of(function: Function) -> Cache:
    """Where the code of a function is looked for, and kept if there is a place for it."""
    if baseline.is_writable:
        return _shipped(function)
    try:
        return _Cache(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    return _shipped(function)


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Any]:
    """The same as `numba.njit`, with its own `cache` if there is a place for it.

    A function has two compiled forms. The one for Python is cached, and begins with code that turns
    Python's objects into numbers and arrays. The one for other kernels takes less time to compile,
    having no such code, and becomes part of the kernels that call it.
    """

    def compiled_when_called(function: Function) -> Cache:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        for_python = options | {"no_cfunc_wrapper": True}
        for_kernels = for_python | {"no_cpython_wrapper": True}
        compiled, inner = (numba.njit(**how)(function) for how in (for_python, for_kernels))
        # What numba asks a function for when it compiles another one that calls it.
        compiled.get_call_template = inner.get_call_template
        compiled.get_overload = inner.get_overload
        if cache:
            compiled._cache = _cache_of(function)
        return compiled

    return compiled_when_called
