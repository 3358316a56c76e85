"""The amount of free memory, and numbers of bytes as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


def format_bytes(n_bytes: float) -> str:
    """A number of bytes as text with up to three digits and a unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def in_bytes(size: int | float | str) -> int:
    """Parse a number of bytes: a number, or a text such as "2GiB", "500 MB" or "1.5e9".

    Examples
    --------
    >>> from boolweave.runtime.free_memory import in_bytes
    >>> in_bytes("2GiB"), in_bytes("500 MB")
    (2147483648, 500000000)
    """
    match = _SIZE.fullmatch(str(size))
    n_bytes = 0.0
    if match is not None:
        factor = _UNITS.get(match[2].lower())
        n_bytes = 0.0 if factor is None else float(match[1]) * factor
    if not 1 <= n_bytes < 2**62:
        raise ValueError(
            f'max_memory must be a number of bytes, or have a unit, such as "2GiB" or "500MB", '
            f"got {size!r}"
        )
    return int(n_bytes)


_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?(?:e\d+)?)\s*([a-zA-Z]*)\s*")
_UNITS = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for unit, base in (("", 1000), ("b", 1000), ("i", 1024), ("ib", 1024))
}


def free_memory() -> int | None:
    """Number of bytes that this process can still use without swapping; None if unknown.

    On Linux, this is the free memory of the system, or the rest of the control group of the process
    if that is less, as in a container.
    """
    limits = [*_system(), *_control_groups()]
    return min(limits, default=None)


def check_free(n_bytes: int, problem: str, remedy: str) -> None:
    """Raise MemoryError if so many bytes, which the problem is about, are not free."""
    free = free_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(f"{problem}, but {format_bytes(free)} are free; {remedy}")


def check_answer(
    shape: tuple[int, int], itemsize: int, what: str, remedy: str, max_memory: int | None = None
) -> None:
    """Raise MemoryError if an array of this shape exceeds the free memory or `max_memory`.

    It is computed in parts, which take little memory compared with the answer itself.
    """
    n_bytes = shape[0] * shape[1] * itemsize
    problem = (
        f"{what} of {shape[0]} rows × {shape[1]} columns takes {format_bytes(n_bytes)} of memory"
    )
    if max_memory is not None and n_bytes > max_memory:
        raise MemoryError(f"{problem}, more than `max_memory={format_bytes(max_memory)}`; {remedy}")
    check_free(n_bytes, problem, remedy)


def _system(meminfo: Path = Path("/proc/meminfo")) -> Iterator[int]:
    for line in _lines(meminfo):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield int(value.split()[0]) * 1024


def _control_groups(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """The remaining memory of the groups of this process, for both versions of control groups."""
    for line in _lines(membership):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit, used = mount, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit, used = mount / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        # A container may see its own group as the root.
        for folder in {root, group, *(p for p in group.parents if p.is_relative_to(root))}:
            most, now = _number(folder / limit), _number(folder / used)
            if most is not None and now is not None:
                yield max(0, most - now + _reclaimable(folder))


def _reclaimable(group: Path) -> int:
    """Cached files, whose memory is released when it is needed."""
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"}:
            return int(value)
    return 0


def _number(file: Path) -> int | None:
    lines = _lines(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None  # "max" is no limit


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
