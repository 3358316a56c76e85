"""The command as a process: odd outputs, full disks, closed streams, signals, our own errors."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest
from commands import run_here

from boolweave import BooleanMatrixFactorization, Observations, load
from boolweave.cli import common, output
from boolweave.datasets import make_boolean

TABLE = "name,a,b,c\nx,1,0,1\ny,0,1,1\nz,1,0,1\n"
FACTORIZE = ("factorize", "t.csv", "-k", "2", "--method", "max-sum", "--jobs", "1", "-q")
HEADING = b"factor,axis,label,probability"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path


def run(*arguments, cwd, **more):
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    command = [sys.executable, "-m", "boolweave", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, timeout=500, **more)


def program(source, *arguments, cwd, **more):
    """Start the command line in a process that first runs `source`."""
    source += "\nfrom boolweave.cli import main\nmain()\n"
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
    return subprocess.Popen([sys.executable, "-c", source, *arguments], cwd=cwd, **more)


# ---------------------------------------------------------------- outputs


def test_links_stay_and_modes_are_kept(folder):
    (folder / "link.csv").symlink_to("real.csv")
    (folder / "secret.html").write_text("old")
    (folder / "secret.html").chmod(0o640)
    (folder / "real.npz").write_text("old")
    (folder / "model.npz").symlink_to(folder / "real.npz")
    done = run_here(
        *FACTORIZE, "-o", "link.csv", "--model", "model.npz", "--report", "secret.html", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "link.csv").is_symlink() and (folder / "model.npz").is_symlink()
    assert (folder / "real.csv").read_bytes().startswith(HEADING)
    assert (folder / "real.npz").read_bytes().startswith(b"PK")
    assert (folder / "secret.html").read_bytes().startswith(b"<!doctype html>")
    assert stat.S_IMODE((folder / "secret.html").stat().st_mode) == 0o640


def test_pipes_and_descriptors_are_written_to(folder):
    # A link to the standard output, as /dev/stdout is one: the test would not replace that.
    (folder / "out").symlink_to("/dev/fd/1")
    os.mkfifo(folder / "pipe.csv")
    received = []
    reader = threading.Thread(target=lambda: received.append((folder / "pipe.csv").read_bytes()))
    reader.start()
    read_end, write_end = os.pipe()
    done = run(
        *FACTORIZE, "-o", "pipe.csv", "--model", f"/dev/fd/{write_end}", "--report", "out",
        cwd=folder, pass_fds=[write_end],
    )  # fmt: skip
    os.close(write_end)
    reader.join(60)
    with os.fdopen(read_end, "rb") as file:
        model = file.read()
    assert done.returncode == 0, done.stderr
    assert received[0].startswith(HEADING)
    assert model.startswith(b"PK")
    assert done.stdout.startswith(b"<!doctype html>")
    assert (folder / "out").is_symlink()
    assert stat.S_ISFIFO((folder / "pipe.csv").stat().st_mode)


def test_standard_output_by_its_name_goes_on_where_it_is(folder):
    (folder / "out").symlink_to("/dev/fd/1")
    with (folder / "all.txt").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        done = run(*FACTORIZE, "-o", "out", cwd=folder, stdout=file)
        file.write(b"after\n")
    assert done.returncode == 0, done.stderr
    lines = (folder / "all.txt").read_bytes().splitlines()
    assert lines[:2] == [b"before", HEADING]
    assert lines[-1] == b"after"


def test_names_as_long_as_they_may_be(folder):
    name = "n" * 251 + ".csv"
    done = run_here(*FACTORIZE, "-o", name, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder)) == [name, "t.csv"]


def test_a_reader_that_goes_away(folder):
    rows = "".join(f"r{i},1,0,1\n" for i in range(20_000))
    (folder / "t.csv").write_text("name,a,b,c\n" + rows)
    command = [sys.executable, "-m", "boolweave", *FACTORIZE, "--full", "--max-iter", "2"]
    child = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip
    child.stdout.read(10)
    child.stdout.close()
    errors = child.stderr.read()
    assert child.wait(120) == 0
    assert errors == b""


COVER = ("cover", "t.csv", "-q")
FULL = "boolweave: /dev/full: no space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "written", "errors"),
    [
        ((*FACTORIZE, "--report", "/dev/full", "-o", "o.csv", "--model", "m.npz"), 2, FULL),
        ((*FACTORIZE, "--model", "/dev/full", "-o", "o.csv", "--report", "r.html"), 2, FULL),
        ((*FACTORIZE, "-o", "/dev/full", "--model", "m.npz", "--report", "r.html"), 2, FULL),
        ((*FACTORIZE, "-o", "/dev/full", "--model", "/dev/full"), 0, FULL * 2),
        ((*COVER, "--report", "/dev/full", "-o", "o.csv", "--changes", "c.csv"), 2, FULL),
        ((*COVER, "--changes", "/dev/full", "-o", "o.csv", "--curve", "c.csv"), 2, FULL),
        ((*COVER, "-o", "/dev/full", "--changes", "c.csv", "--report", "r.html"), 2, FULL),
    ],
)
def test_a_file_that_cannot_be_written_does_not_affect_the_others(
    folder, arguments, written, errors
):
    done = run_here(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.decode() == errors
    assert len(list(folder.iterdir())) == written + 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [("info", "t.csv"), ("info", "t.csv", "--json"), (*FACTORIZE, "--json", "-o", "o.csv")],
)
def test_a_full_standard_output(folder, arguments):
    with open("/dev/full", "wb") as full:
        done = run(*arguments, cwd=folder, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"boolweave: standard output: no space left on device\n"
    assert (folder / "o.csv").exists() == ("-o" in arguments)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "arguments", [("rank", "--max-rank", "2", "--max-iter", "2"), ("compare", "--only", "majority")]
)
def test_an_answer_is_written_even_if_its_picture_cannot_be(folder, arguments):
    command, *options = arguments
    (folder / "p.png").symlink_to("/dev/full")
    done = run_here(command, "t.csv", "-q", *options, "--plot", "p.png", "-o", "o.csv", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == b"boolweave: p.png: no space left on device\n"
    assert (folder / "o.csv").exists()


def test_two_options_cannot_name_the_same_file(folder):
    for arguments in (
        ("complete", "t.csv", "-o", "m.npz", "--model", "./m.npz"),
        ("cover", "t.csv", "-o", "o.csv", "--changes", "o.csv"),
    ):
        done = run_here(*arguments, cwd=folder)
        assert done.returncode == 2
        assert b"name the same file" in done.stderr


def test_models_come_through_pipes_and_errors_name_the_file(folder):
    seen = Observations.from_dense(np.eye(2), row_labels=["a", "b"], column_labels=["x", "y"])
    BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(seen).save(folder / "m.npz")
    model = (folder / "m.npz").read_bytes()
    (folder / "pairs.csv").write_text("user,item\na,x\nb,tea\n")
    done = run("predict", "-", "--row", "a", "--column", "x", cwd=folder, input=model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"row,column,value,probability\na,x,1,")
    done = run_here("predict", "-", "--row", "a", "--column", "x", cwd=folder, stdin=model[:300])
    assert done.returncode == 2
    assert done.stderr.startswith(b"boolweave: standard input: this is not a boolweave model")
    done = run_here("predict", "m.npz", "pairs.csv", cwd=folder)  # the first line is no pair
    assert done.stderr == b"boolweave: pairs.csv: there is no column named 'tea' in the model\n"
    assert done.returncode == 2


# ---------------------------------------------------------------- closed streams


def close(*numbers):
    def before():
        for number in numbers:
            os.close(number)

    return before


@pytest.mark.parametrize(
    ("arguments", "closed", "words"),
    [
        (("info", "-"), 0, b"boolweave: standard input: it is closed"),
        (
            ("info", "t.csv"),
            1,
            b"boolweave: standard output: it is closed; name a file with --output",
        ),
        (("info", "t.csv", "--json"), 1, b"boolweave: standard output: it is closed"),
        (FACTORIZE, 1, b"boolweave: standard output: it is closed"),
    ],
)
def test_a_closed_stream_is_one_line(folder, arguments, closed, words):
    done = run(*arguments, cwd=folder, preexec_fn=close(closed))
    assert done.returncode == 2
    assert done.stderr.startswith(words)
    assert done.stderr.count(b"\n") == 1


def test_nothing_open_and_nothing_needed(folder):
    done = run(*FACTORIZE, "-o", "f.csv", cwd=folder, preexec_fn=close(0, 1, 2))
    assert done.returncode == 0
    assert (folder / "f.csv").read_bytes().startswith(HEADING)
    assert sorted(os.listdir(folder)) == ["f.csv", "t.csv"]


# ---------------------------------------------------------------- errors


BUG = """
import boolweave.io

def broken(*arguments, **options):
    return len(None)

boolweave.io.read = broken
"""


def test_a_bug_is_called_one(folder):
    child = program(BUG, "info", "t.csv", cwd=folder)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 1
    assert errors.startswith("boolweave: internal error: TypeError: object of type 'NoneType'")
    assert "bug in boolweave" in errors and "--debug" in errors
    assert errors.count("\n") == 1
    child = program(BUG, "info", "t.csv", "--debug", cwd=folder)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 1
    assert errors.startswith("Traceback")
    assert "return len(None)" in errors or "in broken" in errors
    assert errors.splitlines()[-1].startswith("boolweave: internal error: TypeError")


def test_bad_input_with_debug_is_still_bad_input(folder):
    done = run("info", "none.csv", "--debug", cwd=folder)
    assert done.returncode == 2
    assert b"Traceback" in done.stderr
    assert b"boolweave: none.csv: there is no such file" in done.stderr


def test_errors_of_a_page_are_cut(folder):
    name = "long" * 3000
    done = run_here("info", "t.csv", "--columns", f"{name},b,c", cwd=folder)
    assert done.returncode == 2
    assert len(done.stderr) < 1000
    done = run_here("info", "t.csv", "--input-format", name, cwd=folder)
    assert done.returncode == 2
    assert len(done.stderr) < 1000


PANIC = """
import os, sys
import boolweave.io

class PanicException(BaseException):
    pass

def read(*arguments, **options):
    os.write(2, b"thread 'x' panicked at here:1:2\\nstack backtrace:\\n")
    with boolweave.io.files.without_panic("t.csv"):
        raise PanicException("oh")

def warn(*arguments, **options):
    os.write(2, b"a library warns\\n")
    raise ValueError("no")

boolweave.io.read = read if sys.argv.pop() == "panic" else warn
"""


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("panic", "boolweave: t.csv: the file is damaged and cannot be read; recreate it\n"),
        ("warn", "a library warns\nboolweave: no\n"),
    ],
)
def test_panics_of_polars_are_one_line(folder, how, words):
    child = program(PANIC, "info", "t.csv", how, cwd=folder)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 2
    assert errors == words


def test_names_that_are_no_text(folder):
    name = os.fsdecode(b"t\xff.csv")
    (folder / "t.csv").rename(folder / name)
    seen = Observations.from_dense(np.eye(2), row_labels=["a\ud800", "b"])
    BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(seen).save(folder / "m.npz")
    command = ["factorize", name, *FACTORIZE[2:], "--report", "t.html"]
    for arguments in (command, ["factorize", "m.npz", *FACTORIZE[2:]], ["info", "m.npz"]):
        done = run_here(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert (b"a\\ud800" in done.stdout) == ("m.npz" in arguments)
    assert "t\\udcff.csv" in (folder / "t.html").read_text(encoding="utf-8")
    described = json.loads(run_here("info", "m.npz", "--json", cwd=folder).stdout)
    assert described["row_labels"] == ["a\ud800", "b"]


# ---------------------------------------------------------------- signals


HALF = """
import sys, time
import boolweave.io.write as write

def half(frame, file, kind):
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    time.sleep(100)

write._put_table = half
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signals_leave_no_half_files(folder, number, code):
    unblock = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # ignored under nohup
    child = program(unblock + HALF, *FACTORIZE, "-o", "f.csv", cwd=folder)
    try:
        assert child.stdout.readline() == "half\n"
        assert len(os.listdir(folder)) == 2
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == code
    assert "Traceback" not in errors
    assert os.listdir(folder) == ["t.csv"]


# Ctrl-C in the search, and again when its result is written.
TWICE = """
import os, signal
from boolweave.engine import loop
from boolweave.cli import process, results

process.SAME_INTERRUPTION = {seconds}
step, save = loop.iterate, results._save

def interrupted(*arguments):
    if arguments[2].state.n_iter == 2:
        os.kill(os.getpid(), signal.SIGINT)
    step(*arguments)

def interrupted_again(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    save(*arguments)

loop.iterate, results._save = interrupted, interrupted_again
"""


@pytest.mark.parametrize(("seconds", "kept"), [(1000, True), (0, False)])
def test_one_ctrl_c_sent_twice_does_not_lose_the_result(folder, seconds, kept):
    child = program(TWICE.format(seconds=seconds), *FACTORIZE[:-1], "-o", "f.csv", cwd=folder)
    try:
        _, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode == 130, errors
    assert "interrupted: writing the best result so far" in errors
    assert (folder / "f.csv").exists() == kept


# Sends Ctrl-C to its own process when it is imported, as a user might at that moment.
INTERRUPTING = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.01)
"""


@pytest.mark.parametrize("module", ["typer", "polars", "numpy"])
def test_ctrl_c_while_the_program_loads(folder, module):
    (folder / "shadow").mkdir()
    (folder / "shadow" / f"{module}.py").write_text(INTERRUPTING)
    paths = [str(folder / "shadow"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = run("info", "t.csv", cwd=folder, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)})
    assert done.returncode == 130
    assert done.stderr == b"boolweave: interrupted\n"


# ---------------------------------------------------------------- what was found is not lost


@pytest.fixture
def on_a_full_disk(tmp_path, monkeypatch):
    """A command with a full disk for its output; what it says, and what is kept."""
    if not os.path.exists("/dev/full"):
        pytest.skip("writes to /dev/full")
    planted = make_boolean(20, 15, 2, random_state=0).observations.to_dense()
    np.savetxt(tmp_path / "table.csv", planted, fmt="%d", delimiter=",")
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def run(command, *options, worth_keeping=0.0):
        monkeypatch.setattr(common, "WORTH_KEEPING", worth_keeping)
        output = ("-o", "/dev/full", "--format", "csv")
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(temporary))
            done = run_here(
                command, "table.csv", "-k", 2, *output, *options, cwd=tmp_path, text=True
            )
        assert done.returncode == 2
        assert "no space left on device" in done.stderr.splitlines()[-1]
        return done.stderr, list(temporary.iterdir())

    return run


@pytest.mark.parametrize("command", ["factorize", "complete"])
def test_the_model_is_kept(on_a_full_disk, command):
    said, (folder,) = on_a_full_disk(
        command, *(["--members", "1", "--layers", "0"] if command == "complete" else [])
    )
    kept = folder / "model.npz"
    assert f"not everything could be written; the fitted model is saved in {kept}\n" in said
    model = load(kept)
    assert model.n_components == 2 and model.observations_.shape == (20, 15)


def test_a_model_that_was_written_is_enough(on_a_full_disk, tmp_path):
    said, kept = on_a_full_disk("factorize", "--model", "model.npz")
    assert kept == [] and "the fitted model is saved" not in said
    load(tmp_path / "model.npz")


def test_a_model_that_could_not_be_written_either(on_a_full_disk):
    said, kept = on_a_full_disk("factorize", "--model", "/dev/full")
    assert len(kept) == 1 and "the fitted model is saved" in said


def test_short_fits_leave_nothing(on_a_full_disk):
    said, kept = on_a_full_disk("factorize", worth_keeping=60.0)
    assert kept == [] and "the fitted model is saved" not in said


def test_a_folder_without_the_right_to_write(tmp_path, monkeypatch):
    output.check_folder(tmp_path / "answer.csv")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"--output: the folder .* is not writable"):
        output.check_folder(tmp_path / "answer.csv")
