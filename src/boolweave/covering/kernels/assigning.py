"""Factors that are taken apart and put together again, so that they need fewer assignments.

One step of the search takes a factor, a row or a column apart, which leaves ones uncovered, covers
these ones again by what covers most of them for its cost, and removes what is no longer needed. If
the result costs too much, all changes are taken back. The cost is the price of a factor times their
number, plus the rows and the columns of factors, plus a large penalty for each missed one beyond
those that may be missed. Lines (rows or columns) have weights, the numbers of equal ones that were
merged. Rows and columns are treated alike: "across" is the other side of a side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.covering.kernels.reducing import Flag, Indices, is_subset
from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    below,
    clear,
    contains,
    copy,
    flip,
    insert,
    lowest,
    members,
    overlap,
    popcount,
)
from boolweave.engine.kernels.jit import njit

ROW, COLUMN = 0, 1

# The numbers in `Roles.n`: of factors, lines of factors (by weight), missed and false ones (by
# weight), changes in the log, uncovered ones in the list, and the work: entries and words visited.
N_FACTORS, N_LINES, N_MISSED, N_FALSE, N_LOG, N_OPEN, N_WORK = range(7)

# The numbers in `Rules.whole`: of fixed factors, the most factors, missed ones and false ones, the
# price of a factor, and the penalty for a missed one.
N_FIXED, MOST_FACTORS, MOST_MISSED, MOST_FALSE, PRICE, PENALTY = range(6)

# The numbers in `Side.limits`: the least and the largest weight of the lines of a factor, and the
# most factors of a line.
LEAST, MOST, MOST_OF_LINE = range(3)

# Random numbers between 0 and 1 are multiples of 1 / GRAINS.
GRAINS = 1 << 20

# What covers most ones for its cost is chosen after each ratio was multiplied by a random number
# between 1 and 1 + NOISE.
NOISE = 0.5


class Side(NamedTuple):
    """The rows, or the columns, of the matrix and of at most T factors; L lines, A across."""

    allowed: Words  # (L, words of A): the entries that may be covered
    ones: Words  # (L, words of A): those that must be covered
    left: Words  # (L, words of A): the ones that no factor covers
    once: Words  # (L, words of A): the ones that a single factor covers
    conflicts: Words  # (L, words of L): lines that may not be in a factor with each line
    weight: Indices  # (L,)
    limits: Indices  # (3,): see LEAST
    lines: Words  # (T, words of L): the lines of each factor
    size: Indices  # (T,): their weight
    factors: Words  # (L, words of T): the factors of each line
    n_factors: Indices  # (L,)
    best: Words  # (T, words of L): the lines of the best factors so far
    scratch: Words  # (3, words of L)
    tally: Indices  # (L,): the uncovered ones of a new factor at each of its lines


class Roles(NamedTuple):
    """Factors that cover the ones of a matrix (M, N), and how they came about."""

    sides: tuple[Side, Side]
    whole: Indices  # (6,): see N_FIXED
    n_covering: NDArray[np.int16]  # (M, N): the number of factors that cover each entry
    n: Indices  # (7,): see N_FACTORS
    log: Indices  # (changes, 3): the side, the factor and the line of each change of this step
    open: Indices  # (ones, 2): row and column of ones that were uncovered in this step


@njit(cache=True, nogil=True)
def cost_of(roles: Roles) -> int:
    """The cost of the factors."""
    n, whole = roles.n, roles.whole
    missed = max(0, n[N_MISSED] - whole[MOST_MISSED])
    return n[N_FACTORS] * whole[PRICE] + n[N_LINES] + missed * whole[PENALTY]


# ---------------------------------------------------------------- one change


@njit(cache=True, nogil=True)
def toggle(roles: Roles, kind: int, t: int, line: int) -> None:
    """Add a row or a column to factor t, or remove it if it is there, and log it."""
    side, across = roles.sides[kind], roles.sides[1 - kind]
    by = -1 if contains(side.lines[t], line) else 1
    was_empty = side.size[t] == 0 and across.size[t] == 0
    flip(side.lines[t], line)
    flip(side.factors[line], t)
    side.size[t] += by * side.weight[line]
    side.n_factors[line] += by
    roles.n[N_LINES] += by * side.weight[line]
    _count_entries(
        kind,
        line,
        by * side.weight[line],
        across.lines[t],
        (side.ones[line], side.allowed[line], side.left[line], side.once[line]),
        (across.left, across.once),
        across.weight,
        roles.n_covering,
        roles.n,
        roles.open,
    )
    is_empty = side.size[t] == 0 and across.size[t] == 0
    roles.n[N_FACTORS] += int(was_empty) - int(is_empty)
    change = roles.log[roles.n[N_LOG]]
    change[0], change[1], change[2] = kind, t, line
    roles.n[N_LOG] += 1


@njit(cache=True, nogil=True)
def _count_entries(
    kind: int,
    line: int,
    weight: int,
    places: Words,
    in_line: tuple[Words, Words, Words, Words],
    in_places: tuple[Words, Words],
    weights: Indices,
    n_covering: NDArray[np.int16],
    n: Indices,
    uncovered: Indices,
) -> None:
    """One factor more covers the entries of a line at some places, or one less if weight < 0.

    It takes arrays and no `Roles`, because passing so many arrays takes longer than an entry does.
    """
    ones, allowed, left, once = in_line
    across_left, across_once = in_places
    by = 1 if weight > 0 else -1
    for w in range(places.shape[0]):
        word = places[w]
        while word != ZERO:
            place = 64 * w + lowest(word)
            word &= word - ONE
            n[N_WORK] += 4
            row, column = (line, place) if kind == ROW else (place, line)
            before = n_covering[row, column]
            now = before + by
            n_covering[row, column] = now
            changes = before == 0 or now == 0
            if contains(ones, place):
                if changes:
                    flip(left, place)
                    flip(across_left[place], line)
                    n[N_MISSED] -= weight * weights[place]
                    if now == 0 and n[N_OPEN] < uncovered.shape[0]:
                        uncovered[n[N_OPEN], 0], uncovered[n[N_OPEN], 1] = row, column
                        n[N_OPEN] += 1
                if before == 1 or now == 1:
                    flip(once, place)
                    flip(across_once[place], line)
            elif changes and not contains(allowed, place):
                n[N_FALSE] += weight * weights[place]


@njit(cache=True, nogil=True)
def _undo(roles: Roles) -> None:
    for i in range(roles.n[N_LOG] - 1, -1, -1):
        roles.n[N_LOG] = i
        toggle(roles, roles.log[i, 0], roles.log[i, 1], roles.log[i, 2])
    roles.n[N_LOG] = 0


@njit(cache=True, nogil=True)
def _has_room(roles: Roles) -> bool:
    """Whether the log has room for all lines of a factor."""
    M, N = roles.n_covering.shape
    return roles.n[N_LOG] + M + N < roles.log.shape[0]


@njit(cache=True, nogil=True)
def _remove_factor(roles: Roles, t: int) -> None:
    """Remove all lines of a factor; a fixed one keeps its columns."""
    for kind in range(1 if t < roles.whole[N_FIXED] else 2):
        for line in members(roles.sides[kind].lines[t]):
            toggle(roles, kind, t, line)


@njit(cache=True, nogil=True)
def may_add(roles: Roles, kind: int, t: int, line: int) -> bool:
    """Whether factor t may get a line."""
    side, across = roles.sides[kind], roles.sides[1 - kind]
    if side.n_factors[line] >= side.limits[MOST_OF_LINE]:
        return False
    if t < roles.whole[N_FIXED]:
        if kind == COLUMN:
            return False
    elif side.size[t] + side.weight[line] > side.limits[MOST] or overlap(
        side.lines[t], side.conflicts[line]
    ):
        return False
    if roles.whole[MOST_FALSE] == 0:
        return is_subset(across.lines[t], side.allowed[line])
    room = roles.whole[MOST_FALSE] - roles.n[N_FALSE]
    return _new_false(roles, kind, line, across.lines[t]) <= room


@njit(cache=True, nogil=True)
def _new_false(roles: Roles, kind: int, line: int, places: Words) -> int:
    """The weight of the zeros in a line, at places across, that no factor covers yet."""
    side, across = roles.sides[kind], roles.sides[1 - kind]
    total = 0
    for w in range(places.shape[0]):
        word = places[w] & ~side.allowed[line, w]
        while word != ZERO:
            other = 64 * w + lowest(word)
            word &= word - ONE
            n = roles.n_covering[line, other] if kind == ROW else roles.n_covering[other, line]
            if n == 0:
                total += side.weight[line] * across.weight[other]
    return total


# ---------------------------------------------------------------- a new factor


@njit(cache=True, nogil=True)
def _n_common(a: Words, b: Words) -> int:
    n = 0
    for w in range(a.shape[0]):
        n += popcount(a[w] & b[w])
    return n


@njit(cache=True, nogil=True)
def _weight_common(a: Words, b: Words, weight: Indices) -> int:
    total = 0
    for w in range(a.shape[0]):
        word = a[w] & b[w]
        while word != ZERO:
            total += weight[64 * w + lowest(word)]
            word &= word - ONE
    return total


@njit(cache=True, nogil=True)
def _may_join(side: Side, lines: Words, size: int, line: int) -> bool:
    """Whether a new factor with these lines may get another one."""
    return (
        not contains(lines, line)
        and size + side.weight[line] <= side.limits[MOST]
        and side.n_factors[line] < side.limits[MOST_OF_LINE]
        and not overlap(lines, side.conflicts[line])
    )


@njit(cache=True, nogil=True)
def _add_some(side: Side, lines: Words, size: int, some: Words, least: int, random: Words) -> int:
    """Add lines that may join until the size is `least`, from a random one on; return the size."""
    n = side.weight.shape[0]
    begin = below(random, n) if least < side.limits[MOST] else 0
    for i in range(n):
        line = (begin + i) % n
        if size >= least:
            break
        if contains(some, line) and _may_join(side, lines, size, line):
            insert(lines, line)
            size += side.weight[line]
    return size


@njit(cache=True, nogil=True)
def _join(side: Side, across: Side, line: int) -> int:
    """Add a line to the new factor in the scratch memory; return the number of uncovered ones.

    They are also counted at each place.
    """
    places, n = across.scratch[0], 0
    insert(side.scratch[0], line)
    for w in range(places.shape[0]):
        word = places[w] & side.left[line, w]
        while word != ZERO:
            across.tally[64 * w + lowest(word)] += 1
            word &= word - ONE
            n += 1
    return n


@njit(cache=True, nogil=True)
def _fill(roles: Roles, kind: int, size: int, random: Words) -> int:
    """Add lines with the fewest zeros until a new factor has its least size; return its size.

    Of lines with equally many zeros, the one with most uncovered ones is taken.
    """
    side, across = roles.sides[kind], roles.sides[1 - kind]
    lines, places = side.scratch[0], across.scratch[0]
    n = side.weight.shape[0]
    while size < side.limits[LEAST] and roles.whole[MOST_FALSE] > 0:
        best, fewest, most = -1, 0, 0
        begin = below(random, n)
        for i in range(n):
            line = (begin + i) % n
            if not _may_join(side, lines, size, line):
                continue
            n_false = _new_false(roles, kind, line, places)
            gain = _n_common(side.left[line], places)
            if best < 0 or n_false < fewest or (n_false == fewest and gain > most):
                best, fewest, most = line, n_false, gain
        roles.n[N_WORK] += 2 * n * places.shape[0]
        if best < 0:
            break
        insert(lines, best)
        size += side.weight[best]
    return size


@njit(cache=True, nogil=True)
def _new_factor(roles: Roles, kind: int, line: int, first: int, random: Words) -> float:
    """Find a factor around an uncovered one; return how many ones it covers for its cost, or 0.

    It begins with the uncovered ones of a line, and gets more lines, and then positions across, as
    long as the ratio rises. Zeros are in it only if it has too few lines or positions otherwise.
    Its lines are the first rows of the scratch memory of both sides.
    """
    side, across = roles.sides[kind], roles.sides[1 - kind]
    lines, near = side.scratch[0], side.scratch[1]
    places, cut = across.scratch[0], across.scratch[1]
    # A factor whose number alone counts should still be a good shape now and then.
    price = roles.whole[PRICE] if below(random, 2) else 1
    clear(lines)
    clear(places)
    clear(near)
    if not (_may_join(side, lines, 0, line) and _may_join(across, places, 0, first)):
        return 0.0
    insert(lines, line)
    insert(places, first)
    size, width = side.weight[line], across.weight[first]
    # If zeros may help to reach the least size, a part of these ones can need fewer of them.
    with_zeros = roles.whole[MOST_FALSE] > 0 and max(side.limits[LEAST], across.limits[LEAST]) > 1
    a_part = with_zeros and below(random, 2)
    for place in members(side.left[line]):
        if a_part and below(random, 2):
            continue
        if _may_join(across, places, width, place):
            insert(places, place)
            width += across.weight[place]
    width = _add_some(across, places, width, side.allowed[line], across.limits[LEAST], random)
    width = _fill(roles, 1 - kind, width, random)
    if width < across.limits[LEAST]:
        return 0.0
    if with_zeros and below(random, 2):
        size = _fill(roles, kind, size, random)
    gain = 0
    for place in members(places):
        across.tally[place] = 0
        for w in range(near.shape[0]):
            near[w] |= across.left[place, w]
    for other in members(lines):
        gain += _join(side, across, other)
    while True:
        best, best_gain, best_width = -1, 0, 0
        ratio = gain / (price + size + width) if size >= side.limits[LEAST] else 0.0
        if size < side.limits[LEAST]:
            copy(across.allowed[first], near)
        for other in members(near):
            if not _may_join(side, lines, size, other) or not contains(side.allowed[other], first):
                continue
            now, now_width = 0, 0
            for w in range(places.shape[0]):
                word = places[w] & side.allowed[other, w]
                now += popcount(word & side.left[other, w])
                while word != ZERO:
                    place = 64 * w + lowest(word)
                    word &= word - ONE
                    now += across.tally[place]
                    now_width += across.weight[place]
                    roles.n[N_WORK] += 1
            roles.n[N_WORK] += places.shape[0]
            if now_width < across.limits[LEAST]:
                continue
            now_ratio = now / (price + size + side.weight[other] + now_width)
            if now_ratio > ratio:
                best, best_gain, best_width, ratio = other, now, now_width, now_ratio
        if best < 0:
            break
        for w in range(places.shape[0]):
            places[w] &= side.allowed[best, w]
        _join(side, across, best)
        size += side.weight[best]
        gain, width = best_gain, best_width
        # Lines that have all places need no comparison: every one that raises the ratio joins.
        for other in members(near):
            more = _n_common(side.left[other], places)
            if (
                more * (price + size + width) > gain * side.weight[other]
                and _may_join(side, lines, size, other)
                and is_subset(places, side.allowed[other])
            ):
                size += side.weight[other]
                gain += _join(side, across, other)
            roles.n[N_WORK] += places.shape[0]
    if size < side.limits[LEAST]:
        size, gain = _fill(roles, kind, size, random), 0
        for other in members(lines):
            gain += _n_common(side.left[other], places)
    if size < side.limits[LEAST]:
        return 0.0
    if with_zeros:
        room = roles.whole[MOST_FALSE] - roles.n[N_FALSE]
        for other in members(lines):
            room -= _new_false(roles, kind, other, places)
        if room < 0:
            return 0.0
    clear(cut)
    for other in members(lines):
        for w in range(cut.shape[0]):
            cut[w] |= side.left[other, w]
    for place in members(cut):
        more = _n_common(across.left[place], lines)
        if (
            more * (price + size + width) > gain * across.weight[place]
            and _may_join(across, places, width, place)
            and is_subset(lines, across.allowed[place])
        ):
            insert(places, place)
            width += across.weight[place]
            gain += more
    return gain / (roles.whole[PRICE] + size + width)


@njit(cache=True, nogil=True)
def _free(roles: Roles) -> int:
    """The first factor without lines; −1 if there is none."""
    rows, columns = roles.sides
    if roles.n[N_FACTORS] >= roles.whole[MOST_FACTORS]:
        return -1
    for t in range(roles.whole[N_FIXED], rows.size.shape[0]):
        if rows.size[t] == 0 and columns.size[t] == 0:
            return t
    return -1


@njit(cache=True, nogil=True)
def _install(roles: Roles, t: int) -> None:
    """Make the lines in the scratch memory factor t."""
    for kind in range(2):
        for line in members(roles.sides[kind].scratch[0]):
            toggle(roles, kind, t, line)


# ---------------------------------------------------------------- one step


@njit(cache=True, nogil=True)
def _noise(random: Words) -> float:
    return 1.0 + NOISE * below(random, GRAINS) / GRAINS


@njit(cache=True, nogil=True)
def _cover_one(roles: Roles, row: int, column: int, random: Words) -> None:
    """Cover an uncovered one: by another line of a factor, or by a new factor."""
    best, best_kind, best_ratio = -1, 0, 0.0
    # A row that may get a single factor more should get one that covers all that is left of it.
    all_at_once = below(random, 4) > 0
    for kind in range(2):
        side, across = roles.sides[kind], roles.sides[1 - kind]
        line, other = (row, column) if kind == ROW else (column, row)
        is_last = side.n_factors[line] + 1 == side.limits[MOST_OF_LINE]
        for t in members(across.factors[other]):
            if is_last and all_at_once and not is_subset(side.left[line], across.lines[t]):
                continue
            gain = _n_common(side.left[line], across.lines[t])
            ratio = gain / side.weight[line] * _noise(random)
            if ratio > best_ratio and may_add(roles, kind, t, line):
                best, best_kind, best_ratio = t, kind, ratio
    t = _free(roles)
    if t >= 0:
        kind = below(random, 2)
        line, other = (row, column) if kind == ROW else (column, row)
        ratio = _new_factor(roles, kind, line, other, random)
        if ratio > 0 and ratio * _noise(random) > best_ratio:
            _install(roles, t)
            return
    if best >= 0:
        toggle(roles, best_kind, best, row if best_kind == ROW else column)


@njit(cache=True, nogil=True)
def cover_open(roles: Roles, random: Words) -> None:
    """Cover the uncovered ones in the list, in a random order, until enough are covered."""
    n = roles.n
    while n[N_OPEN] > 0 and n[N_MISSED] > roles.whole[MOST_MISSED] and _has_room(roles):
        i = below(random, n[N_OPEN])
        row, column = roles.open[i, 0], roles.open[i, 1]
        n[N_OPEN] -= 1
        roles.open[i, 0], roles.open[i, 1] = roles.open[n[N_OPEN], 0], roles.open[n[N_OPEN], 1]
        if roles.n_covering[row, column] == 0:
            _cover_one(roles, row, column, random)
    n[N_OPEN] = 0


@njit(cache=True, nogil=True)
def _note_changed(roles: Roles) -> None:
    """Note the lines with entries that more factors cover after this step in the scratch memory."""
    for kind in range(2):
        clear(roles.sides[kind].scratch[2])
    for i in range(roles.n[N_LOG]):
        kind, t, line = roles.log[i, 0], roles.log[i, 1], roles.log[i, 2]
        if not contains(roles.sides[kind].lines[t], line):
            continue
        insert(roles.sides[kind].scratch[2], line)
        across = roles.sides[1 - kind]
        roles.n[N_WORK] += across.lines.shape[1]
        for w in range(across.lines.shape[1]):
            across.scratch[2, w] |= across.lines[t, w]


@njit(cache=True, nogil=True)
def _prune(roles: Roles, random: Words) -> None:
    """Remove lines that factors do not need, among those in the scratch memory."""
    fixed = roles.whole[N_FIXED]
    begin = below(random, 2)
    for k in range(2):
        kind = (begin + k) % 2
        side, across = roles.sides[kind], roles.sides[1 - kind]
        changed = members(side.scratch[2])
        for i in range(changed.shape[0] - 1, -1, -1):  # in a random order
            j = below(random, i + 1)
            line = changed[j]
            changed[j] = changed[i]
            factors = members(side.factors[line])
            roles.n[N_WORK] += 20 + factors.shape[0] * (10 + across.lines.shape[1])
            for a in range(factors.shape[0] - 1, -1, -1):
                b = below(random, a + 1)
                t = factors[b]
                factors[b] = factors[a]
                if t < fixed:
                    if kind == COLUMN:
                        continue
                elif side.size[t] - side.weight[line] < side.limits[LEAST] and across.size[t]:
                    continue
                room = roles.whole[MOST_MISSED] - roles.n[N_MISSED]
                if overlap(side.once[line], across.lines[t]):
                    if room <= 0:
                        continue
                    lost = _weight_common(side.once[line], across.lines[t], across.weight)
                    if lost * side.weight[line] > room:
                        continue
                if roles.n[N_LOG] + 1 < roles.log.shape[0]:
                    toggle(roles, kind, t, line)
    _remove_too_small(roles)
    roles.n[N_OPEN] = 0


@njit(cache=True, nogil=True)
def prune_all(roles: Roles, random: Words) -> None:
    """Remove lines that factors do not need until there are none."""
    before = cost_of(roles) + 1
    while cost_of(roles) < before:
        before = cost_of(roles)
        for kind in range(2):
            side = roles.sides[kind]
            for some in range(0, side.weight.shape[0], 64):  # few at once, for the log's sake
                roles.n[N_LOG] = 0
                clear(roles.sides[0].scratch[2])
                clear(roles.sides[1].scratch[2])
                for line in range(some, min(some + 64, side.weight.shape[0])):
                    insert(side.scratch[2], line)
                _prune(roles, random)


@njit(cache=True, nogil=True)
def add_factor(roles: Roles, t: int, rows: Words, columns: Words) -> None:
    """Let factor t have these rows and columns, as far as the rules let it."""
    roles.n[N_LOG] = roles.n[N_OPEN] = 0
    side = roles.sides[COLUMN]
    for column in members(columns):
        if t < roles.whole[N_FIXED] or _may_join(side, side.lines[t], side.size[t], column):
            toggle(roles, COLUMN, t, column)
    for row in members(rows):
        if may_add(roles, ROW, t, row):
            toggle(roles, ROW, t, row)
    _remove_too_small(roles)


@njit(cache=True, nogil=True)
def cover_left(roles: Roles, random: Words) -> None:
    """Cover the ones that are left."""
    n, left = roles.n, roles.sides[ROW].left
    n[N_LOG] = n[N_OPEN] = 0
    for row in range(left.shape[0]):
        for column in members(left[row]):
            roles.open[n[N_OPEN], 0], roles.open[n[N_OPEN], 1] = row, column
            n[N_OPEN] += 1
    cover_open(roles, random)


@njit(cache=True, nogil=True)
def _remove_too_small(roles: Roles) -> None:
    """Remove factors that have too few lines after the changes of this step."""
    for i in range(roles.n[N_LOG]):
        t = roles.log[i, 1]
        if t < roles.whole[N_FIXED]:
            continue
        for kind in range(2):
            side = roles.sides[kind]
            if side.size[t] < max(1, side.limits[LEAST]) and _has_room(roles):
                _remove_factor(roles, t)


@njit(cache=True, nogil=True)
def _random_factor(roles: Roles, random: Words) -> int:
    T = roles.sides[ROW].size.shape[0]
    for _ in range(8 * T):
        t = below(random, T)
        if roles.sides[ROW].size[t] or roles.sides[COLUMN].size[t]:
            return t
    return 0


@njit(cache=True, nogil=True)
def _random_member(words: Words, random: Words) -> int:
    """A random member of a set; −1 if it is empty."""
    found = members(words)
    return found[below(random, found.shape[0])] if found.shape[0] else -1


@njit(cache=True, nogil=True)
def _open_line(roles: Roles, kind: int, line: int) -> None:
    """List the uncovered ones of a line, as far as there is room for them."""
    for place in members(roles.sides[kind].left[line]):
        if roles.n[N_OPEN] < roles.open.shape[0]:
            row, column = (line, place) if kind == ROW else (place, line)
            roles.open[roles.n[N_OPEN], 0], roles.open[roles.n[N_OPEN], 1] = row, column
            roles.n[N_OPEN] += 1


@njit(cache=True, nogil=True)
def _open_missed(roles: Roles, random: Words) -> None:
    """List the uncovered ones of a row if too many are missed: they may fit in this step."""
    left = roles.sides[ROW].left
    if roles.n[N_MISSED] <= roles.whole[MOST_MISSED]:
        return
    begin = below(random, left.shape[0])
    for i in range(left.shape[0]):
        row = (begin + i) % left.shape[0]
        roles.n[N_WORK] += left.shape[1]
        if overlap(left[row], left[row]):
            _open_line(roles, ROW, row)
            return


@njit(cache=True, nogil=True)
def _take_apart(roles: Roles, random: Words) -> None:
    """Remove one or two factors, some lines of one, or a line from all its factors."""
    what, kind = below(random, 8), below(random, 2)
    side = roles.sides[kind]
    t = _random_factor(roles, random)
    if what < 4:
        line = _random_member(side.lines[t], random)
        other = t if line < 0 else _random_member(side.factors[line], random)
        _remove_factor(roles, t)
        if what < 2 and other != t and _has_room(roles):
            _remove_factor(roles, other)
    elif what == 4:
        if t >= roles.whole[N_FIXED] or kind == ROW:
            for line in members(side.lines[t]):
                if below(random, 2):
                    toggle(roles, kind, t, line)
    elif what == 5:  # a new factor that is part of two others, or of two lines
        _add_common(roles, kind, t, random)
    else:
        line = below(random, side.weight.shape[0])
        for factor in members(side.factors[line]):
            if factor >= roles.whole[N_FIXED] or kind == ROW:
                toggle(roles, kind, factor, line)
        _open_line(roles, kind, line)
    if what != 5:
        _remove_too_small(roles)


@njit(cache=True, nogil=True)
def _add_common(roles: Roles, kind: int, t: int, random: Words) -> None:
    """Add a factor with the lines that two factors share, and all that allow them across."""
    side, across = roles.sides[kind], roles.sides[1 - kind]
    slot = _free(roles)
    place = _random_member(across.lines[t], random)
    if slot < 0 or place < 0:
        return
    lines, places = side.scratch[0], across.scratch[0]
    clear(places)
    other = _random_member(across.factors[place], random)
    if below(random, 2) and other != t:
        for w in range(lines.shape[0]):
            lines[w] = side.lines[t, w] & side.lines[other, w]
    else:
        second = below(random, across.weight.shape[0])
        for w in range(lines.shape[0]):
            lines[w] = across.ones[place, w] & across.ones[second, w]
    size, width = 0, 0
    for line in members(lines):
        size += side.weight[line]
        if overlap(lines, side.conflicts[line]):
            return
        if side.n_factors[line] >= side.limits[MOST_OF_LINE]:
            return
    if size < max(1, side.limits[LEAST]) or size > side.limits[MOST]:
        return
    first = _random_member(lines, random)
    for place in members(side.ones[first]):
        if is_subset(lines, across.allowed[place]) and _may_join(across, places, width, place):
            insert(places, place)
            width += across.weight[place]
    if width >= max(1, across.limits[LEAST]):
        _install(roles, slot)


@njit(cache=True, nogil=True)
def remember(roles: Roles) -> None:
    """Keep these factors as the best so far."""
    for kind in range(2):
        side = roles.sides[kind]
        for t in range(side.lines.shape[0]):
            copy(side.lines[t], side.best[t])
        roles.n[N_WORK] += side.lines.shape[0] * side.lines.shape[1]


@njit(cache=True, nogil=True)
def anneal(
    roles: Roles, random: Words, n_steps: int, temperature: float, best: int, stop: Flag
) -> int:
    """Take some steps, fewer if `stop[0]` is set; return the cost of the best factors so far.

    A step that raises the cost by d is kept with probability exp(−d / temperature).
    """
    n = roles.n
    now = cost_of(roles)
    for _ in range(n_steps):
        if stop[0]:
            break
        n[N_WORK] += 100
        n[N_LOG] = n[N_OPEN] = 0
        _open_missed(roles, random)
        _take_apart(roles, random)
        cover_open(roles, random)
        _note_changed(roles)
        _prune(roles, random)
        cost = cost_of(roles)
        chance = below(random, GRAINS) / GRAINS
        if cost <= now or chance < np.exp((now - cost) / temperature):
            now = cost
            if now < best:
                best = now
                remember(roles)
        else:
            _undo(roles)
            n[N_OPEN] = 0
    return best
