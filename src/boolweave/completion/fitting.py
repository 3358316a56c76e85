"""From a table to an ensemble: the choice of a model, then its members on all entries."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from boolweave.completion.chain import Chain, Draw, MemberTask, Side, cut_of, make_members
from boolweave.completion.ensemble import (
    Ensemble,
    Family,
    Fitted,
    Member,
    PlainBoolean,
    Structure,
)
from boolweave.completion.regressions import fit_regressions
from boolweave.completion.selection import (
    COMPONENTS,
    LARGE,
    LARGE_LAYERS,
    MORE_DIRECTIONS,
    MOST_LAYERS,
    OTHER_COMPONENTS,
    VERY_FEW,
    Candidate,
    Selection,
    Wanted,
    fit_plain,
    make_folds,
)
from boolweave.completion.table import MOST_PATTERN, Pattern, Table
from boolweave.completion.tasks import Runner
from boolweave.data.questions import Questions
from boolweave.runtime.free_memory import check_free, format_bytes
from boolweave.runtime.run import OutOfTime
from boolweave.runtime.threads import effective_jobs


def needed_memory(table: Table, wanted: Wanted, n_members: int) -> int:
    """Maximum number of bytes of a fit: its members, and a chain with its messages per thread.

    For numbers that are not given, the largest ones that are tried count.
    """
    n_lines = sum(table.shape)
    large = table.n_entries > LARGE
    D = (MORE_DIRECTIONS if wanted.n_directions is None else wanted.n_directions) + 1
    L = (LARGE_LAYERS if large else MOST_LAYERS) if wanted.n_layers is None else wanted.n_layers
    K = wanted.n_components or (COMPONENTS if large else OTHER_COMPONENTS)
    messages = 4 * L * K * table.n_entries  # two of 16 bits
    # Number of bytes of an entry in a table, by rows and by columns, in a chain with layers, and
    # while the pattern of entries is found.
    entry_bytes, chain_entry_bytes, pattern_entry_bytes = 40, 40, 60
    chain = chain_entry_bytes * table.n_entries + n_lines * (48 * D + 24 * L * K)
    members = n_members * n_lines * (8 * D + 4 * L * K)
    features = 16 * MOST_PATTERN * n_lines  # of the table and, in part, of each chain
    of_threads = effective_jobs(wanted.n_jobs) * (messages + chain + features)
    at_once = max(of_threads, pattern_entry_bytes * table.n_entries)
    return 2 * entry_bytes * table.n_entries + 2 * features + at_once + members


def check_memory(table: Table, wanted: Wanted, n_members: int) -> None:
    """Raise MemoryError if a fit would need more memory than there is."""
    needed = needed_memory(table, wanted, n_members)
    problem = (
        f"completing {table.n_entries} entries of {table.shape[0]} rows × {table.shape[1]} columns "
        f"needs up to {format_bytes(needed)} of memory"
    )
    check_free(needed, problem, "lower n_members, n_layers, n_directions or n_jobs")


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a family: its structure, its weight and where its chains begin."""

    structure: Structure
    weight: float
    starts: list[Draw]


def fit(
    table: Table,
    wanted: Wanted,
    n_members: int,
    seed: int,
    runner: Runner,
    max_time: float | None,
    say: Callable[[str], None],
    questions: Questions | None = None,
) -> Fitted:
    """Choose a model by held-out entries and fit its members to all entries.

    If the questions of the columns are known, whole answers are held out and predicted. The time
    to compile kernels, once on each machine, does not count.
    """
    check_memory(table, wanted, n_members)
    if max_time is not None:
        compile_kernels(table)
    begun = time.monotonic()
    random = np.random.default_rng(seed)
    cut = cut_of(table.levels, table.observations.values) if table.n_levels > 2 else 1
    # The fraction of `max_time` for the choice of the model.
    choosing = 0.6
    runner.limit(None if max_time is None else choosing * max_time)
    folds = make_folds(table, random, questions)
    interrupted, choice = False, None
    if folds:
        search = Selection(folds, wanted, cut, random, runner, say, questions)
        with suppress(OutOfTime):  # before anything was tried
            choice = search.choose()
        interrupted = search.interrupted
    if choice is not None:
        weights, chosen, tried = choice.weights, choice.chosen, choice.table
        few = table.n_entries < VERY_FEW
        plans = [_plan(candidate, w, few) for candidate, w in zip(chosen, weights[1:], strict=True)]
        intercept = float(weights[0])
    else:
        tried, intercept = [], 0.0
        plans = [Plan(Structure(n_directions=wanted.n_directions or 0), 1.0, [])]
        chosen = []
    by_kind = {candidate.kind: plan for candidate, plan in zip(chosen, plans, strict=False)}
    with_plain, with_regressions = by_kind.get("plain"), by_kind.get("regressions")
    plans = [plan for plan in plans if plan not in (with_plain, with_regressions)]
    plain, regressions = None, None
    runner.limit(None if max_time is None else max_time - (time.monotonic() - begun))
    if with_plain is not None:
        say("plain Boolean model on all entries")
        seed, seconds = int(random.integers(2**31)), _part_of(runner.left, len(plans))
        plain = fit_plain(
            table.observations, wanted.n_components, seed, with_plain.weight, wanted.n_jobs, seconds
        )
    if with_regressions is not None and questions is not None:
        penalty = next(c.penalty for c in chosen if c.kind == "regressions")
        seconds = _part_of(runner.left, len(plans))
        regressions = fit_regressions(
            table, questions, penalty, with_regressions.weight, random, seconds
        )
    families, stopped = make_families(table, plans, n_members, random, runner, say)
    pattern = _pattern(table, families)
    ensemble = Ensemble(
        table.shape, families, plain, intercept, cut, pattern, questions, regressions
    )
    return Fitted(ensemble, tried, interrupted or stopped)


def compile_kernels(table: Table) -> None:
    """Compile the kernels of a fit by fitting single models to a few entries."""
    # This many entries are enough to compile the kernels that a fit calls.
    entries_to_compile = 20
    some = table.part(np.arange(table.n_entries) < entries_to_compile).filled.table
    for structure in (Structure(), Structure(0, 1, 1, 1.0)):
        Chain.start(some, structure, np.random.default_rng(0)).member(1, 1)
    fit_plain(some.observations, 1, 0)


def make_families(
    table: Table,
    plans: list[Plan],
    n_members: int,
    random: np.random.Generator,
    runner: Runner,
    say: Callable[[str], None],
) -> tuple[tuple[Family, ...], bool]:
    """Make the members of all families; also return whether Ctrl-C interrupted that.

    Families take turns, so that an interrupted fit has members of each.
    """
    if not plans:
        return (), False
    try:
        if any(plan.structure.pattern for plan in plans):
            table.find_pattern(runner.check)
    except OutOfTime:
        plans = [_without_pattern(plan) for plan in plans]
    tasks: list[MemberTask] = []
    of_plan: list[int] = []
    # Number of members from one chain if there are many entries, and a chain takes long to
    # converge.
    large_members = 2
    each = large_members if table.n_entries > LARGE else 1
    left = shared_out(n_members, [plan.weight for plan in plans])
    while any(left):
        for i, plan in enumerate(plans):
            if not left[i]:
                continue
            n = min(each, left[i])
            left[i] -= n
            start = plan.starts[of_plan.count(i) % len(plan.starts)] if plan.starts else None
            seed = int(random.integers(2**63))
            tasks.append(MemberTask(table, plan.structure, seed, start, n))
            of_plan.append(i)
    made: list[list[Member]] = []
    stopped = False
    try:
        for members in runner(make_members, tasks):
            made.append(members)
            say(f"member {sum(map(len, made))} of {max(n_members, len(plans))}")
    except KeyboardInterrupt as reason:
        stopped = not isinstance(reason, OutOfTime)
        end = None if stopped else time.monotonic()
        rest = tasks[len(made) : len(plans)]
        made += [make_members(replace(task, n_members=1, end=end)) for task in rest]
    families = tuple(
        Family(
            plan.structure,
            tuple(
                m for members, own in zip(made, of_plan, strict=False) if own == i for m in members
            ),
            plan.weight,
        )
        for i, plan in enumerate(plans)
    )
    return families, stopped


def _without_pattern(plan: Plan) -> Plan:
    """The plan without the pattern of entries; its chains begin at random."""
    if not plan.structure.pattern:
        return plan
    return Plan(replace(plan.structure, pattern=False), plan.weight, [])


def shared_out(n_members: int, weights: list[float]) -> list[int]:
    """Numbers of members of families with these weights, at least one each.

    If members vary equally in all families, a blend of means over M_f of them has the variance
    Σ w_f² / M_f, which these numbers minimize. So they are about proportional to the weights.
    """
    numbers = [1] * len(weights)
    while sum(numbers) < n_members:
        gains = [w**2 / (n * (n + 1)) for w, n in zip(weights, numbers, strict=True)]
        numbers[int(np.argmax(gains))] += 1
    return numbers


def refit(
    table: Table,
    before: Ensemble,
    wanted: Wanted,
    seed: int,
    runner: Runner,
    max_time: float | None,
    say: Callable[[str], None],
) -> tuple[Ensemble, bool]:
    """Continue from an ensemble with more entries; the model and its weights stay the same."""
    if max_time is not None:
        compile_kernels(table)
    random = np.random.default_rng(seed)
    runner.limit(max_time)
    plans = []
    n_members = 0
    for family in before.families:
        starts = [_draw_of(member, table) for member in family.members]
        plans.append(Plan(family.structure, family.weight, starts))
        n_members += len(family.members)
    plain: PlainBoolean | None = None
    if before.plain is not None:
        n_components = wanted.n_components or max(1, before.plain.rows.shape[1])
        seed, seconds = int(random.integers(2**31)), _part_of(runner.left, len(plans))
        plain = fit_plain(
            table.observations, n_components, seed, before.plain.weight, wanted.n_jobs, seconds
        )
    families, stopped = make_families(table, plans, n_members, random, runner, say)
    regressions, questions = before.regressions, before.questions
    if regressions is not None and questions is not None:
        regressions = fit_regressions(
            table, questions, regressions.penalty, regressions.weight, random, runner.left
        )
    ensemble = replace(
        before,
        shape=table.shape,
        families=families,
        plain=plain,
        pattern=_pattern(table, families),
        regressions=regressions,
    )
    return ensemble, stopped


def _part_of(seconds: float | None, n_others: int) -> float | None:
    """The time limit of the plain model if this many other families need the same time."""
    return None if seconds is None else seconds / (1 + n_others)


def _pattern(table: Table, families: tuple[Family, ...]) -> Pattern | None:
    """The pattern of entries, if a family uses it."""
    used = any(family.structure.pattern for family in families)
    return table.pattern if used else None


def _plan(candidate: Candidate, weight: float, few: bool) -> Plan:
    """The plan of a family; if there are few entries, chains with directions begin at random.

    Such chains are short and differ from each other. Layers begin from offsets, which are soon
    found again.
    """
    at_random = few and candidate.kind == "directions"
    return Plan(candidate.structure, float(weight), [] if at_random else candidate.draws)


def _draw_of(member: Member, table: Table) -> Draw:
    """The draw from which a chain continues: means of a member, and priors for new lines.

    Coefficients of the pattern of entries are left out, since the chain has another pattern.
    """
    sides = []
    for i, features in enumerate((table.row_features, table.column_features)):
        known = (member.rows, member.columns)[i].astype(np.float64)
        coefficients, variance = member.priors[2 * i : 2 * i + 2]
        coefficients = coefficients[: features.n_features]
        lines = features.here @ coefficients
        lines[: len(known)] = known
        sides.append(Side(lines, variance.copy(), coefficients.copy(), lines.copy()))
    return Draw(sides[0], sides[1], member.cuts.copy())
