"""Memory known beforehand: the estimate, what is free, and the error in one line."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse

from boolweave import BooleanMatrixFactorization, Observations
from boolweave.datasets import make_boolean
from boolweave.engine import footprint
from boolweave.fit import memory, stages
from boolweave.io import read
from boolweave.runtime import free_memory
from boolweave.runtime.storage import Files, Memory

GB = 10**9


def test_a_byte_for_each_message():
    n, K = 10**8, 10
    size = memory.FitSize((10**6, 10**4), n, K, method="max-sum", learns=False)
    assert 2 * n * K <= size.n_bytes <= 2.6 * n * K


def test_more_of_anything_takes_more():
    base = {"shape": (10**4, 10**3), "n_entries": 10**6, "n_components": 10}
    more = [
        {"shape": (10**5, 10**3)},
        {"shape": (10**4, 10**4)},
        {"n_entries": 10**7},
        {"n_components": 20},
        {"messages": "float32"},
        {"n_init": 6},
        {"n_jobs": 8},
    ]
    for change in more:
        assert memory.FitSize(**base | change).n_bytes > memory.FitSize(**base).n_bytes, change
    by_method = [
        memory.FitSize(**base, method=method, n_init=6, finish=False).n_bytes
        for method in ("max-sum", "sum-product", "auto")
    ]
    assert by_method == sorted(by_method)
    without = memory.FitSize(**base, method="max-sum", learns=False).n_bytes
    assert without < memory.FitSize(**base, method="max-sum").n_bytes


def test_only_a_few_starts_are_kept():
    base = {"shape": (10**4, 10**3), "n_entries": 10**7, "n_components": 10}
    few, many = (memory.FitSize(**base, n_init=n).n_bytes for n in (4, 40))
    assert many < 1.1 * few


def test_dense_blocks_have_messages_for_all_cells():
    nearly = memory.FitSize((1000, 1000), 750_000, 10, method="max-sum").n_bytes
    complete = memory.FitSize((1000, 1000), 1_000_000, 10, method="max-sum").n_bytes
    assert nearly == complete + 1_000_000  # and the cells are copied, with their holes


def test_only_finalists_keep_their_messages():
    n_messages = 4 * 10**6  # of one factor and entry, in one direction

    def size(n_init):
        entries = ((1000, 1000), 10**6, 4)
        return memory.FitSize(*entries, n_init=n_init, finish=False).n_bytes

    assert size(2) - size(1) > n_messages < size(3) - size(2)
    assert size(4) - size(3) < n_messages / 10


@pytest.mark.parametrize("method", ["max-sum", "auto"])
@pytest.mark.parametrize(
    ("shape", "observed", "K"),
    [((300, 1000), 1.0, 5), ((400, 1000), 0.3, 10), ((50, 9000), 0.1, 2)],
)
def test_a_fit_takes_no_more_than_was_said(shape, observed, K, method):
    """Before: up to 1.7 times as much, as losers kept their messages and sums were made of all."""
    seen = make_boolean(*shape, K, flip=0.15, observed=observed, random_state=0).observations
    noise = None if method == "max-sum" else "learn"
    model = BooleanMatrixFactorization(K, method=method, noise=noise, max_iter=10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(seen)  # what is compiled takes memory, too
        tracemalloc.start()
        model.fit(seen)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    n_init = 1 if method == "max-sum" else footprint.N_STARTS
    learns = method == "auto"
    said = memory.FitSize(
        seen.shape, seen.n_observed, K, method=method, learns=learns, n_init=n_init
    ).n_bytes
    assert peak < 1.02 * said


# ---------------------------------------------------------------- what is free


def test_free_memory_of_this_machine():
    free = free_memory.free_memory()
    assert free is None or free > 0


def test_meminfo(tmp_path):
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       100 kB\nMemAvailable:   50 kB\n")
    assert list(free_memory._system(file)) == [50 * 1024]
    assert list(free_memory._system(tmp_path / "none")) == []


def control_group(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_control_groups_version_2(tmp_path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/box/inner\n")
    mount = tmp_path / "mount"
    control_group(mount / "box", {"memory.max": "1000\n", "memory.current": "900\n",
                                  "memory.stat": "anon 5\ninactive_file 200\n"})  # fmt: skip
    control_group(mount / "box/inner", {"memory.max": "max\n", "memory.current": "900\n"})
    assert list(free_memory._control_groups(membership, mount)) == [300]


def test_control_groups_version_1(tmp_path):
    membership = tmp_path / "cgroup"
    membership.write_text("5:cpu,cpuacct:/x\n4:memory:/x\n")
    mount = tmp_path / "mount"
    files = {"memory.limit_in_bytes": "5000\n", "memory.usage_in_bytes": "6000\n"}
    control_group(mount / "memory/x", files)
    assert list(free_memory._control_groups(membership, mount)) == [0]
    membership.write_text("4:memory:/not/seen/from/within\n")
    control_group(mount / "memory", files | {"memory.usage_in_bytes": "1000\n"})
    assert list(free_memory._control_groups(membership, mount)) == [4000]
    assert list(free_memory._control_groups(tmp_path / "none", mount)) == []


def test_the_least_counts(monkeypatch):
    monkeypatch.setattr(free_memory, "_system", lambda: iter([7]))
    monkeypatch.setattr(free_memory, "_control_groups", lambda: iter([9, 5]))
    assert free_memory.free_memory() == 5
    monkeypatch.setattr(free_memory, "_system", lambda: iter([]))
    monkeypatch.setattr(free_memory, "_control_groups", lambda: iter([]))
    assert free_memory.free_memory() is None


# ---------------------------------------------------------------- the error


class Large:
    """As much of observations as the check needs."""

    shape = (10**6, 10**4)
    n_observed = n_listed = 10**9
    n_bytes_in_files = 0
    zeros = "exact"


def check(**options):
    options = {
        "messages": "uint8", "method": "auto", "learns": True, "n_init": 6, "n_jobs": 2
    } | options  # fmt: skip
    return memory.store_for(Large(), 20, **options)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 8 * GB)
    with pytest.raises(MemoryError) as refused:
        check()
    text = str(refused.value)
    assert "\n" not in text
    for part in (
        "1000000 rows × 10000 columns", "1000000000 observed entries", "20 factors",
        "8 GB are free", "fewer factors", '`method="max-sum"` (4', "boolweave.distributed",
    ):  # fmt: skip
        assert part in text
    assert 'messages="uint8"' not in text
    with pytest.raises(MemoryError, match='messages="uint8"'):
        check(messages="float32")
    with pytest.raises(MemoryError) as refused:
        check(method="max-sum", learns=False)
    assert "method=" not in str(refused.value)


def test_what_fits_is_not_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 10**12)
    assert type(check()) is Memory
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    assert type(check(messages="float32")) is Memory


def test_what_exceeds_max_memory_goes_to_files(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 10**12)
    monkeypatch.setattr(memory, "check_disk", lambda n_bytes: None)
    assert type(check(max_memory=10**12)) is Memory
    files = check(max_memory=8 * GB)
    assert isinstance(files, Files)
    assert files.n_blocks >= 20 * memory.LEAST_ROOM * 10**9 / (8 * GB)
    assert files.cached
    assert check(max_memory=4 * GB).n_blocks > 2 * files.n_blocks  # the factors take their part
    monkeypatch.setattr(memory, "free_memory", lambda: 8 * GB)
    assert not check(max_memory=6 * GB).cached
    with pytest.raises(MemoryError, match=r"for the factors and a block of messages, more than"):
        check(max_memory=10**8)
    with pytest.raises(MemoryError, match=r"integers .*, but here they are floats"):
        check(max_memory=8 * GB, messages="float32")


@pytest.mark.parametrize(
    ("given", "n_bytes"),
    [
        (1000, 1000), (2.5e9, 2_500_000_000), ("1000", 1000), ("2GiB", 2 << 30), ("2 gib", 2 << 30),
        ("500MB", 500_000_000), ("1.5k", 1500), ("3Ti", 3 << 40), ("7b", 7), ("1e9", GB),
    ],
)  # fmt: skip
def test_in_bytes(given, n_bytes):
    assert free_memory.in_bytes(given) == n_bytes


@pytest.mark.parametrize("given", ["", "GiB", "-1", "2 Gib MB", "2XB", "0", "nan", "1e99"])
def test_what_is_no_size(given):
    with pytest.raises(ValueError, match=r'max_memory must be .* such as "2GiB".*, got'):
        free_memory.in_bytes(given)


def test_nothing_is_made_before_the_check(monkeypatch):
    def no(*arguments, **options):
        raise AssertionError("too late")

    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    monkeypatch.setattr(stages.LocalBackends, "make", no)
    seen = Observations.from_dense(np.eye(30))
    with pytest.raises(MemoryError, match="30 rows × 30 columns with 900 observed entries"):
        BooleanMatrixFactorization(2).fit(seen)


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (3e15, "3e+03 TB")],
)
def test_in_words(n_bytes, words):
    assert memory.format_bytes(n_bytes) == words


# ---------------------------------------------------------------- absent entries that are zeros


def test_zeros_that_do_not_fit_are_refused_beforehand(monkeypatch, tmp_path):
    """Before: NumPy's own error, after all memory was taken, or none but the kernel's."""
    owns = scipy.sparse.csr_array(([1], ([5], [7])), shape=(10**6, 10**6))
    with pytest.raises(MemoryError, match=r"take 7 TB .*absent=\"missing\"` if only stored"):
        BooleanMatrixFactorization(2, zeros="exact").fit(owns)
    assert Observations.from_sparse(owns, absent="missing").n_observed == 1
    monkeypatch.setattr("boolweave.runtime.free_memory.free_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"5 rows × 4 columns take 140 bytes .* 100 bytes are"):
        Observations.from_sparse(scipy.sparse.eye_array(5, 4))
    scipy.sparse.save_npz(tmp_path / "owns.npz", scipy.sparse.eye_array(5, 4).tocsr())
    (tmp_path / "pairs.csv").write_text("\n".join(f"a{i},b{i}" for i in range(9)))
    for file in ("owns.npz", "pairs.csv"):
        with pytest.raises(ValueError, match=rf"{file}: .* pass `absent=\"missing\"`"):
            read(tmp_path / file)
