"""Single runs of a chain, each a task of its own: for threads, and for the workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.completion.chain import Chain, Draw, Member, Structure
from boolweave.completion.member import probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion.table import Table

    Doubles = NDArray[np.float64]
    Positions = NDArray[np.intp]

# Numbers of sweeps: before a chain that begins at random is used, before one that continues from a
# draw is used, and of a stretch, whose means are kept.
FROM_RANDOM, FROM_DRAW = 60, 8
STRETCH = 8

# Number of stretches of a trial on held-out entries, usually and at most.
TRIAL_STRETCHES, MOST_STRETCHES = 4, 8

# Chains are longer with fewer entries than this, because they need more sweeps, which take less
# time, and shorter with more: by a factor from the least to the largest.
USUAL, LEAST_TIMES, MOST_TIMES = 100_000, 0.5, 3.0


@dataclass(frozen=True, eq=False)
class Trial:
    """A structure to try: it is fitted to a table and predicts held-out entries."""

    table: Table
    structure: Structure
    seed: int
    rows: Positions  # of the held-out entries
    columns: Positions
    cut: int
    start: Draw | None = None


@dataclass(frozen=True, eq=False)
class Tried:
    """The predictions of a trial, and the last draw of its chain."""

    chances: Doubles  # (steps, held out): one step without layers, otherwise one for each layer
    draw: Draw


def try_directions(trial: Trial) -> Tried:
    """Run a chain without layers."""
    chain, burn_in = _begin(trial.table, trial.structure, trial.seed, trial.start)
    chain.settle(burn_in)
    n_stretches = min(_longer(TRIAL_STRETCHES, trial.table), MOST_STRETCHES)
    members = [chain.stretch(STRETCH) for _ in range(n_stretches)]
    chances = [probabilities(member, trial.rows, trial.columns, trial.cut) for member in members]
    return Tried(np.mean(chances, axis=0)[None], chain.draw())


def try_layers(trial: Trial) -> Tried:
    """Add layers one by one, and predict after each."""
    chain, burn_in = _begin(trial.table, trial.structure, trial.seed, trial.start)
    members = chain.settle(burn_in)
    chances = [probabilities(member, trial.rows, trial.columns, trial.cut) for member in members]
    return Tried(np.array(chances), chain.draw())


@dataclass(frozen=True, eq=False)
class MemberTask:
    """The members of one chain, which are to be made."""

    table: Table
    structure: Structure
    seed: int
    start: Draw | None = None
    n_members: int = 1


def make_members(task: MemberTask) -> list[Member]:
    """Run a chain and keep its last stretches."""
    chain, burn_in = _begin(task.table, task.structure, task.seed, task.start)
    chain.settle(burn_in)
    # Directions rotate and layers change along a chain, so a mean over them must be short.
    fixed = task.structure.n_directions == task.structure.n_layers == 0
    length = max(STRETCH, _longer(STRETCH, task.table)) if fixed else STRETCH
    return [chain.stretch(length) for _ in range(task.n_members)]


def _begin(table: Table, structure: Structure, seed: int, start: Draw | None) -> tuple[Chain, int]:
    """A chain, and the number of sweeps before it is used."""
    random = np.random.default_rng(seed)
    if start is None:
        return Chain.start(table, structure, random), _longer(FROM_RANDOM, table)
    return Chain.resume(table, structure, start, random), max(FROM_DRAW, _longer(FROM_DRAW, table))


def _longer(n: int, table: Table) -> int:
    """A number of sweeps or stretches, larger if there are few entries."""
    times = np.sqrt(USUAL / max(1, table.n_entries))
    return round(n * float(np.clip(times, LEAST_TIMES, MOST_TIMES)))
