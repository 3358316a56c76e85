"""Files that are written under another name and then renamed, so that no file is incomplete.

While it is written, a file is called ".NAME.PROCESS.part" and is locked by its writer. A process
that was killed leaves such a file behind, but no lock; the next process that writes the same file
removes it.

Pipes, devices and open file descriptors, such as /dev/stdout, cannot be replaced. They get the
whole content at the end, or nothing if it was never finished.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import BinaryIO, NoReturn


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Provide a new binary file that replaces `path` when the block ends without an error.

    Until then, and also if the block fails, the old file stays as it was. The new one has the same
    permissions. A symbolic link stays, and the file that it points to is replaced.
    """
    target = Path(path)
    if is_stream(target):
        with into_stream(lambda: _open_stream(target), str(target)) as file:
            yield file
        return
    if target.is_symlink():
        target = Path(os.path.realpath(target))
    remove_abandoned(target.parent, rf"\.{re.escape(_short(target.name))}\.\d+(\.\d+)?\.part")
    part, file = _new_part(target)
    with naming(target), file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())  # on the disk before it replaces an older one
            if target.exists():
                shutil.copymode(target, part)
            _let_go(file)
            part.replace(target)
        except BaseException:
            _let_go(file)
            part.unlink(missing_ok=True)
            raise


@contextmanager
def into_stream(
    open_stream: Callable[[], AbstractContextManager[BinaryIO]], name: str
) -> Iterator[BinaryIO]:
    """Provide a temporary file that is copied to a stream when the block ends without an error.

    Errors call the stream `name`.
    """
    with naming(tempfile.gettempdir()), tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with naming(name), open_stream() as stream:
            shutil.copyfileobj(file, stream)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Let an error of the operating system name the file that is written, if it names none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)
            raise
        _raise_for(error, path)
    except Exception as error:
        _raise_for(error, path)


def _raise_for(error: Exception, path: str | Path) -> NoReturn:
    """Raise an error; one of the operating system that polars only quotes as an `OSError`."""
    if quoted := re.search(r"\(os error (\d+)\)", str(error)):
        number = int(quoted[1])
        raise OSError(number, os.strerror(number), str(path)) from None
    raise error


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or an open file descriptor rather than a file."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file())


def _descriptor(path: Path) -> int | None:
    """The number of an open file descriptor, for paths such as /dev/stdout and /dev/fd/63."""
    name = os.path.abspath(path)
    # Maximum number of links that are followed, as in Linux.
    most_links = 40
    for _ in range(most_links):
        if match := re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", name):
            return int(match[1])
        if not os.path.islink(name):
            return None
        name = os.path.abspath(os.path.join(os.path.dirname(name), os.readlink(name)))
    return None


def _open_stream(path: Path) -> BinaryIO:
    number = _descriptor(path)
    if number is None:
        return path.open("wb")
    if number == 1 and sys.stdout is not None:
        sys.stdout.flush()
    # A duplicate continues at the position of the descriptor; opening the path again would not.
    return os.fdopen(os.dup(number), "wb")


def _short(name: str) -> str:
    """A name that leaves room for additions within the limit of a file system, mostly 255 bytes."""
    whole = os.fsencode(name)
    # Maximum number of bytes of a name to which something is added.
    longest_name = 200
    if len(whole) <= longest_name:
        return name
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove the files of a folder that match a pattern, except those that are being written."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if re.fullmatch(pattern, name):
                _remove_unless_locked(folder / name)


def _new_part(target: Path) -> tuple[Path, BinaryIO]:
    """A new file next to the target, also if several threads write the same target at once."""
    for n in count():
        number = f"{os.getpid()}.{n}" if n else f"{os.getpid()}"
        part = target.with_name(f".{_short(target.name)}.{number}.part")
        # A file that others may not read must not become readable while it is written.
        mode = 0o600 if target.exists() else 0o666
        try:
            file = open(part, "xb", opener=partial(os.open, mode=mode))  # noqa: SIM115
        except FileExistsError:
            continue
        except OSError as error:
            error.filename = str(target)  # the user does not know the part file
            raise
        with suppress(OSError):  # not every file system has locks
            _lock(file)
        if part.exists():  # nobody removed it before it was locked
            return part, file
        file.close()
    raise AssertionError


if sys.platform == "win32":

    def _lock(file: BinaryIO) -> None:
        """Do nothing, because Windows does not remove open files."""

    def _let_go(file: BinaryIO) -> None:
        """Close a file, because Windows does not rename open files either."""
        file.close()

    def _remove_unless_locked(path: Path) -> None:
        with suppress(OSError):
            path.unlink()

else:
    import fcntl

    def _lock(file: BinaryIO) -> None:
        """Lock a file until it is closed or its process ends."""
        fcntl.flock(file, fcntl.LOCK_EX)

    def _let_go(file: BinaryIO) -> None:
        """Do nothing: until the file has its name, nobody else may remove it."""

    def _remove_unless_locked(path: Path) -> None:
        with suppress(OSError), path.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
