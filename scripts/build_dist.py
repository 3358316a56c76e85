"""Build sdist and wheel twice, compare them byte for byte, and copy them to dist/ if they agree.

    python scripts/build_dist.py [--compiled] [folder]

The times in the archives are SOURCE_DATE_EPOCH, or the time of the last commit, or a fixed time in
a tree without git, so that everybody builds the same bytes from the same tree. The second build
runs in a copy of the tree with another path, other file times and narrower permissions. It builds
its wheel from the sdist, which shows that the sdist contains everything that the wheel needs. The
script needs hatchling.

With --compiled, there is one wheel more, for this platform and this Python: it also holds the
kernels that public calls need, compiled for a baseline of processors (`BASELINES` of
`engine/kernels/jit.py`) and for the numba that is installed. Its bytes differ from build to build.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EARLIEST = 315532800  # 1980-01-01, the earliest time in a zip archive


def main() -> None:
    parser = argparse.ArgumentParser(description="Build sdist and wheel.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--compiled", action="store_true", help="also a wheel with kernels")
    given = parser.parse_args()
    target = given.folder
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
    if given.compiled:
        (pure,) = (target / file for file in first if file.endswith(".whl"))
        made = compiled_wheel(pure, epoch)
        print(in_lines({made.name: hashlib.sha256(made.read_bytes()).hexdigest()}))


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


def compiled_wheel(pure: Path, epoch: str) -> Path:
    """Add compiled kernels to a wheel; the new one is for this platform and this Python."""
    version = "cp{}{}".format(*sys.version_info)
    tag = f"{version}-{version}-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        with zipfile.ZipFile(pure) as archive:
            archive.extractall(tree)
        compile_kernels(tree)
        (described,) = tree.glob("*.dist-info/WHEEL")
        lines = described.read_text("utf-8").splitlines()
        changed = {"Root-Is-Purelib": "false", "Tag": tag}
        named = [(line.partition(":")[0], line) for line in lines]
        lines = [f"{key}: {changed[key]}" if key in changed else line for key, line in named]
        described.write_text("\n".join(lines) + "\n", "utf-8")
        target = pure.with_name(pure.name.replace("py3-none-any", tag))
        pack(tree, target, epoch)
    return target


def compile_kernels(tree: Path) -> None:
    """Compile the kernels of the package in a folder, into the package."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    program = [sys.executable, ROOT / "scripts" / "public_calls.py", "--compile"]
    subprocess.run(program, cwd=tree, env=environment, check=True)


def pack(tree: Path, target: Path, epoch: str) -> None:
    """Pack a folder as a wheel, with a new list of its files."""
    (record,) = tree.glob("*.dist-info/RECORD")
    files = sorted(file for file in tree.rglob("*") if file.is_file() and file != record)
    lines = []
    for file in files:
        content = file.read_bytes()
        value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{file.relative_to(tree).as_posix()},sha256={value},{len(content)}")
    lines.append(f"{record.relative_to(tree).as_posix()},,")
    record.write_text("\n".join(lines) + "\n", "utf-8")
    date = time.gmtime(max(int(epoch), EARLIEST))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in (*files, record):
            entry = zipfile.ZipInfo(file.relative_to(tree).as_posix(), date)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, file.read_bytes())


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
