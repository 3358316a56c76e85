"""A search that crashed goes on from its checkpoint, and ends as one that did not."""

import numpy as np
import pytest
from altering import parts_of, put_checkpoint
from crashing import Crash, Noting, fields_of
from search_reference import assert_same, random_table

from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.run import Run
from boolweave.search.answer import fewest_errors
from boolweave.search.searching import Job, Options

pytestmark = pytest.mark.usefixtures("little_work")

TABLE = random_table(5, (14, 70), missing=0.05, weights="quarters")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(Recorder, "save_if_due", Recorder.save)


def run(place, crash_after=None, n_components=2, told=None):
    """Search, or crash after some rounds; the numbers of the rounds are added to `told`."""

    def report(number, *_):
        if told is not None:
            told.append(number)
        if number == crash_after:
            raise Crash

    recorder = Recorder(place, TABLE.observations)
    job = Job(TABLE.observations, TABLE.pack(), Run(progress=Noting(report), recorder=recorder))
    return fewest_errors(job, n_components, Options(n_init=2), seed=1)


def stop(place, n_rounds=7):
    """Arrays and header of the checkpoint of a search after some rounds."""
    with pytest.raises(Crash):
        run(place, n_rounds)
    return parts_of(max(place.iterdir()))


def test_a_search_that_crashed_ends_as_one_that_did_not(tmp_path):
    undisturbed = run(tmp_path / "whole")
    assert undisturbed.n_rounds > 8
    for n_rounds in (2, 5, undisturbed.n_rounds):
        place = tmp_path / str(n_rounds)
        with pytest.raises(Crash):
            run(place, n_rounds)
        rounds = []
        assert_same(run(place, told=rounds), undisturbed)
        assert rounds == list(range(n_rounds, undisturbed.n_rounds + 1))


def test_a_search_may_crash_again_and_again(tmp_path):
    undisturbed = run(tmp_path / "whole")
    for n_rounds in range(2, undisturbed.n_rounds, 2):
        with pytest.raises(Crash):
            run(tmp_path / "crashing", n_rounds)
    assert_same(run(tmp_path / "crashing"), undisturbed)


def test_as_it_was_written(tmp_path):
    put_checkpoint(tmp_path, *stop(tmp_path))
    assert run(tmp_path).n_rounds > 7


REFUSED = "does not fit this version of boolweave"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kept", 3), ("kept", []), ("winners", [1.0]), ("found", None),
        ("best", None), ("best", "good"), ("is_last", 1), ("n_rounds", -1), ("n_rounds", "two"),
        ("n_quiet", 0.5), ("n_batches", None), ("work", float("nan")), ("work", -1.0),
        ("work_before", "much"), ("chooses", None), ("history", ["a"]),
    ],
)  # fmt: skip
def test_a_damaged_state(tmp_path, field, value):
    arrays, header = stop(tmp_path, 3)
    (state,) = fields_of(header, "Searching")
    assert field in state
    state[field] = value
    put_checkpoint(tmp_path, arrays, header)
    with pytest.raises(ValueError, match=REFUSED):
        run(tmp_path)


CHANGES = {
    "longer": lambda a: np.concatenate([a, a]),
    "shorter": lambda a: a[:-1],
    "wider": lambda a: np.concatenate([a, a], axis=-1),
    "another type": lambda a: a.astype(np.float64),
    "other bits": lambda a: a ^ a.dtype.type(1),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", ["X", "Y", "covered"])
def test_damaged_solutions(tmp_path, field, change):
    arrays, header = stop(tmp_path, 3)
    name = fields_of(header, "Solution")[0][field]["array"]
    put_checkpoint(tmp_path, {**arrays, name: CHANGES[change](arrays[name])}, header)
    with pytest.raises(ValueError, match=REFUSED):
        run(tmp_path)


@pytest.mark.parametrize("cost", [0.25, float("nan"), "low", 3])
def test_a_solution_with_another_cost(tmp_path, cost):
    arrays, header = stop(tmp_path, 3)
    for fields in fields_of(header, "Solution"):
        fields["cost"] = cost
    put_checkpoint(tmp_path, arrays, header)
    with pytest.raises(ValueError, match=REFUSED):
        run(tmp_path)


def test_another_number_of_factors(tmp_path):
    stop(tmp_path, 3)
    with pytest.raises(ValueError, match=REFUSED):
        run(tmp_path, n_components=3)
