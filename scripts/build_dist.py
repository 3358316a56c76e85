"""Build sdist and wheel twice, compare them byte for byte, and copy them to dist/ if they agree.

    python scripts/build_dist.py [folder]

The times in the archives are SOURCE_DATE_EPOCH, or the time of the last commit, or a fixed time in
a tree without git, so that everybody builds the same bytes from the same tree. The second build
runs in a copy of the tree with another path, other file times and narrower permissions. It builds
its wheel from the sdist, which shows that the sdist contains everything that the wheel needs. The
script needs hatchling.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EARLIEST = 315532800  # 1980-01-01, the earliest time in a zip archive


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or time_of_commit()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = build(ROOT, folder / "first", epoch)
        second = build_elsewhere(folder, epoch)
        if first != second:
            sys.exit(f"the two builds differ:\n{in_lines(first)}\n{in_lines(second)}")
        target.mkdir(exist_ok=True)
        for file in first:
            shutil.copyfile(folder / "first" / file, target / file)
    print(in_lines(first))


def time_of_commit() -> str:
    """The time of the last commit; a fixed time in a tree without git, such as an sdist."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return str(EARLIEST)
    log = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or str(EARLIEST)


def build(tree: Path, target: Path, epoch: str, *kinds: str) -> dict[str, str]:
    """Build in a tree; return the names of the files with their hashes."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", target, *kinds],
        cwd=tree, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True, capture_output=True,
    )  # fmt: skip
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(target.iterdir())
    }


def build_elsewhere(folder: Path, epoch: str) -> dict[str, str]:
    """Build the sdist in a copy of the tree, and the wheel from the unpacked sdist."""
    copy, target = folder / "another place", folder / "second"
    shutil.copytree(ROOT, copy, copy_function=shutil.copyfile, ignore=unneeded)
    for file in copy.rglob("*"):
        os.utime(file, (EARLIEST, EARLIEST))
        file.chmod(0o700 if os.access(ROOT / file.relative_to(copy), os.X_OK) else 0o600)
    build(copy, target, epoch, "-t", "sdist")
    (archive,) = target.iterdir()
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    return build(tree, target, epoch, "-t", "wheel")


def unneeded(folder: str, names: list[str]) -> set[str]:
    """Names that are not copied, because they are not in git: environments, caches, results."""
    made = {".git", "__pycache__", "dist", "build", "site", "htmlcov"}
    return {
        name
        for name in names
        if name in made
        or (name.startswith(".") and name not in {".gitignore", ".ci", ".github"})
        or name.endswith(".pyc")
    }


def in_lines(hashes: dict[str, str]) -> str:
    return "\n".join(f"sha256 {value}  {file}" for file, value in hashes.items())


if __name__ == "__main__":
    main()
