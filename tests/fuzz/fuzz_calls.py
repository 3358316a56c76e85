"""Calls of the library on small random tables, compared with what brute force says.

Most parameters are valid; now and then one is not, which must be one clear error.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse
from verdicts import expect, expect_numbers, expect_probabilities

import boolweave
from boolweave import BooleanCompletion, BooleanMatrixFactorization, Channel, Observations, metrics
from boolweave import decoding as coding

NAN = float("nan")
ODD = [
    -1, 0, 1, 2, 7, 2**31, 2**62, 2**70, -(2**63), 0.5, 1.5, -0.0, 1e-300, 1e308, NAN, float("inf"),
    "x", "", "auto", "learn", b"x", None, True, False, [], [1], {}, (), [[]], np.float32(0.5),
    np.int8(3), np.array(1), np.array([NAN]), np.zeros((0, 0)), np.ones((2, 3)), object, "1",
]  # fmt: skip


def oddly(dice, parameters, share=0.15):
    """Parameters of which one may be odd."""
    if parameters and dice.random() < share:
        parameters = {**parameters, dice.choice(list(parameters)): dice.choice(ODD)}
    return parameters


def some(dice, **values):
    """Some of these parameters, each with one of its values."""
    return {name: dice.choice(options) for name, options in values.items() if dice.random() < 0.4}


# ---------------------------------------------------------------- tables


def bits(dice, largest=7, holes=None, smallest=1):
    """A small table: planted factors, noise or a constant; NaN where an entry is missing."""
    rng = np.random.default_rng(dice.randrange(2**32))
    m, n = rng.integers(smallest, largest + 1, 2)
    k = rng.integers(1, 4)
    what = dice.randrange(5)
    if what == 0:
        table = np.full((m, n), float(rng.integers(2)))
    elif what == 1:
        table = (rng.random((m, n)) < rng.random()).astype(float)
    else:
        x, y = rng.random((m, k)) < 0.5, rng.random((k, n)) < 0.5
        table = ((x.astype(int) @ y.astype(int)) > 0).astype(float)
        table = np.abs(table - (rng.random((m, n)) < rng.choice([0, 0.05, 0.2])))
    if holes is None:
        holes = dice.choice([0, 0, 0.1, 0.4, 0.9, 1])
    table[rng.random((m, n)) < holes] = np.nan
    return table


def in_some_form(dice, table):
    """The table as one of the many things that a user may pass."""
    full = not np.isnan(table).any()
    what = dice.randrange(14)
    if what == 0:
        return table.tolist()
    if what == 1 and full:
        return table.astype(dice.choice(["u1", "i8", "?", "f4", "i2", ">i4", "O"]))
    if what == 2:
        return np.ma.masked_invalid(table)
    if what == 3:
        return pd.DataFrame(table, columns=[f"c{j}" for j in range(table.shape[1])])
    if what == 4:
        return pd.DataFrame(table, index=[f"r{i}" for i in range(len(table))])
    if what == 5:
        return pl.DataFrame(table, schema=[f"c{j}" for j in range(table.shape[1])]).fill_nan(None)
    if what == 6 and full:
        kind = dice.choice(["csr", "csc", "coo", "lil", "dok", "bsr"])
        return scipy.sparse.coo_array(table).asformat(kind)
    if what == 7:
        return Observations.from_dense(table, row_labels=[f"r{i}" for i in range(len(table))])
    if what == 8:
        return table[::-1, ::-1][::-1, ::-1]
    if what == 9:
        return np.asfortranarray(table, dtype="f4")
    if what == 10 and dice.random() < 0.3:  # none of the author's
        odd = table.astype(object)
        odd[dice.randrange(len(table)), dice.randrange(table.shape[1])] = dice.choice(ODD)
        return odd
    if what == 11 and dice.random() < 0.2:
        return dice.choice([table[:0], table[:, :0], table[None], table[0], [], None, "x", 5, {}])
    return table


def is_odd(given):
    """Whether a cell of the table may have been exchanged."""
    return isinstance(given, np.ndarray) and given.dtype.kind == "O"


def kept(*things):
    """A function that raises if one of the arrays has changed since."""
    copies = [thing.copy() if isinstance(thing, np.ndarray) else None for thing in things]

    def check():
        for thing, copy in zip(things, copies, strict=True):
            if copy is not None and copy.dtype != object:
                expect(np.array_equal(thing, copy, equal_nan=copy.dtype.kind == "f"),
                       "the input was modified")  # fmt: skip

    return check


def product(x, y, kind="or"):
    counts = np.asarray(x, dtype=int) @ np.asarray(y, dtype=int)
    return (counts > 0 if kind == "or" else counts % 2).astype(np.uint8)


# ---------------------------------------------------------------- factorizations


def least_cost(table, k, kind, weights):
    """The lowest cost of k factors, by trying all column factors; rows are chosen one by one."""
    n = table.shape[1]
    best = np.inf
    rows = np.array(list(itertools.product([0, 1], repeat=k)))
    for columns in itertools.combinations(np.array(list(itertools.product([0, 1], repeat=n))), k):
        options = product(rows, np.array(columns).reshape(k, n), kind)  # (2^k, N)
        wrong = np.nan_to_num(np.abs(table[:, None] - options[None]) * weights[:, None])
        best = min(best, wrong.sum(axis=2).min(axis=1).sum())
    return best


def fewest_errors(dice):
    table = bits(dice)
    m, n = table.shape
    k = dice.choice([1, 1, 2, 2, 3, "auto", 9])
    kind = dice.choice(["or", "or", "xor"])
    extra = {"product": kind, **some(dice, n_init=[1, 2], bound=[True, False], n_jobs=[1, 2])}
    weight = None
    if dice.random() < 0.2:
        weight = np.random.default_rng(dice.randrange(99)).integers(0, 4, (m, n)).astype(float)
    elif dice.random() < 0.2:
        extra["false_one_weight"] = dice.choice([0.5, 2, 10, float("inf"), 1e-9, 1e9])
    seed = dice.randrange(10)
    given, extra = in_some_form(dice, table), oddly(dice, extra)

    def run():
        check = kept(table, weight)
        answer = boolweave.factorize(given, k, sample_weight=weight, random_state=seed, **extra)
        check()
        if given is not table and np.shape(given) != table.shape:
            return
        form = extra["product"]
        weights = np.ones((m, n)) if weight is None else weight
        false_ones = extra.get("false_one_weight", 1.0)
        z = product(answer.X, answer.Y, form)
        expect(np.array_equal(z, answer.Z), "Z is not the product of X and Y")
        missed = (np.nan_to_num(table) == 1) & (z == 0)
        false = (table == 0) & (z == 1)
        cost = (weights * missed).sum()
        cost += false_ones * (weights * false).sum() if (weights * false).any() else 0
        same_table = not is_odd(given)
        if same_table:
            expect(np.isclose(cost, answer.cost), f"cost {answer.cost}, wrong entries {cost}")
        if answer.bound is not None:
            expect(answer.bound <= answer.cost * (1 + 1e-9) + 1e-9, "the bound is above the cost")
            finite = np.isfinite(false_ones)
            if same_table and finite and form == "or" and n <= 4 and m <= 5 and k in (1, 2):
                costs = np.where(table == 0, false_ones * weights, weights)
                least = least_cost(table, k, form, costs)
                expect(answer.bound <= least * (1 + 1e-9) + 1e-9, f"bound {answer.bound} > {least}")
                expect(answer.cost >= least * (1 - 1e-9) - 1e-9, "a cost below the optimum")
        again = boolweave.factorize(
            given, k, sample_weight=weight, random_state=seed,
            **{**extra, "n_jobs": 3 - (extra.get("n_jobs") or 1)}
        )  # fmt: skip
        expect(np.array_equal(again.X, answer.X) and np.array_equal(again.Y, answer.Y),
               "another answer with the same seed, or on other threads")  # fmt: skip

    return f"factorize {table.shape} k={k} {extra} weight={weight is not None}", run


def posterior(dice):
    table = bits(dice)
    k = dice.choice([1, 2, 3, "auto"])
    extra = {
        "max_iter": dice.choice([1, 3, 20]),
        **some(
            dice, product=["or", "xor"], method=["auto", "max-sum", "sum-product"],
            noise=[0.0, 1e-12, 0.1, 0.4999, 0.5, "learn", Channel(0.2, 0.7), Channel(0, 1)],
            row_prior=[0.0, 1e-300, 0.3, 1.0, "learn"], column_prior=[0.1, 0.5, 1.0, "learn"],
            damping=[0.1, 0.9, 1.0], tol=[1e-9, 0.5], n_init=[1, 2, "auto"],
            messages=["auto", "uint8", "float32"], n_jobs=[1, 2], decimation=[0.1, 0.9, None],
            zeros=["auto", "exact", "collective"], max_time=[0.001, 1.0, None],
            absent=["zero", "missing"],
        ),
    }  # fmt: skip
    extra = oddly(dice, extra)
    given, seed = in_some_form(dice, table), dice.randrange(5)
    what = dice.randrange(8)
    more = in_some_form(dice, bits(dice))

    def run():
        check = kept(table)
        model = BooleanMatrixFactorization(k, random_state=seed, **extra)
        used = model.fit(given)
        check()
        use_factorization(used, given, more, what, dice)

    return f"fit {table.shape} k={k} {extra}, then {what}", run


def use_factorization(model, given, more, what, dice):
    seen = model.observations_
    m, n = seen.shape
    k = model.components_.shape[0]
    rows, columns = (axis.ravel() for axis in np.indices((m, n)))
    expect_probabilities(model.predict_proba(rows, columns), "predict_proba")
    expect_probabilities(model.predict_proba(rows, columns, kind="latent"), "latent")
    expect(np.isin(model.predict(rows, columns), (0, 1)), "predict: not 0 or 1")
    expect(model.components_.shape == (k, n) and model.row_factors_.shape == (m, k), "shapes")
    expect_numbers(model.row_log_odds_, "row_log_odds_")
    expect_numbers(model.column_log_odds_, "column_log_odds_")
    expect_numbers(model.log_posterior_, "log_posterior_")
    expect_probabilities(model.noise_.one_given_zero, "noise_")
    expect_probabilities(model.row_prior_, "row_prior_")
    if what == 0:
        expect(np.isin(model.transform(given), (0, 1)), "transform: not 0 or 1")
    elif what == 1:
        model.transform(more)
    elif what == 2:
        z = model.inverse_transform(model.row_factors_)
        expect(np.array_equal(z, product(model.row_factors_, model.components_, model.product)),
               "inverse_transform is not the product")  # fmt: skip
    elif what == 3:
        share = model.score(given)
        expect_probabilities(share, "score")
    elif what == 4:
        model.recommend([0], dice.choice([1, 3, 100]), why=True)
        model.recommend(dice.choice(ODD), dice.choice(ODD))
    elif what == 5:
        str(model.explain(0, n - 1))
        model.explain(dice.choice(ODD), dice.choice(ODD))
    elif what == 6:
        model.members(full=True)
        model.predict_proba(dice.choice(ODD), dice.choice(ODD))
    else:
        model.predict(more)


def ranks(dice):
    table = bits(dice)
    extra = oddly(
        dice,
        {
            "ranks": dice.choice([None, [1], [1, 2, 3], range(1, 4), [3, 1], [2, 2], (9,)]),
            **some(dice, criterion=["mdl", "heldout"], objective=["errors", "posterior"],
                   product=["or", "xor"], n_jobs=[1, 2], max_iter=[5, 30]),
        },
    )  # fmt: skip
    given = in_some_form(dice, table)

    def run():
        check = kept(table)
        found = boolweave.select_rank(given, random_state=0, **extra)
        check()
        expect(found.best in found.ranks, "best is none of the ranks")
        expect_numbers(found.scores, "scores")
        expect_numbers(found.errors, "errors")
        str(found)

    return f"select_rank {table.shape} {extra}", run


# ---------------------------------------------------------------- completions


def completion(dice):
    table = bits(dice, largest=9, smallest=2)
    m, n = table.shape
    extra = {
        "n_members": dice.choice([1, 2]),
        **some(dice, n_components=[1, 2, "auto"], n_layers=[0, 1, "auto"], n_jobs=[1, 2],
               n_directions=[0, 1, "auto"], absent=["zero", "missing"], max_time=[0.01, 5]),
    }  # fmt: skip
    rng = np.random.default_rng(dice.randrange(2**32))
    fit = {}
    if dice.random() < 0.2:
        fit["ratings"] = np.where(np.isnan(table), np.nan, table * 2 + rng.integers(1, 3, (m, n)))
    if dice.random() < 0.2:
        fit["sample_weight"] = rng.integers(0, 3, m if dice.random() < 0.5 else (m, n)).astype(
            float
        )
    if dice.random() < 0.2:
        fit["row_features"] = rng.normal(size=(m, 2)) * 10.0 ** rng.integers(-300, 308)
    if dice.random() < 0.1:
        fit["column_features"] = pd.DataFrame({"a": rng.choice(list("uvw"), n)})
    fit, extra = oddly(dice, fit, 0.1), oddly(dice, extra)
    given, what = in_some_form(dice, table), dice.randrange(8)
    more = in_some_form(dice, bits(dice, largest=9))

    def run():
        check = kept(table, *fit.values())
        model = BooleanCompletion(random_state=0, **extra).fit(given, **fit)
        check()
        seen = model.observations_
        rows, columns = (axis.ravel() for axis in np.indices(seen.shape))
        expect_probabilities(model.predict_proba(rows, columns), "predict_proba")
        expect_numbers(model.row_bias_, "row_bias_")
        if what == 0:
            expect_probabilities(model.transform(given), "transform")
        elif what == 1:
            expect_probabilities(model.transform(more), "transform")
        elif what == 2:
            expect_probabilities(model.score(given), "score")
        elif what == 3:
            low, high = model.predict_interval(rows, columns)
            expect_probabilities(low, "predict_interval")
            expect_probabilities(high, "predict_interval")
            expect(np.asarray(low) <= np.asarray(high), "an interval that ends before it begins")
        elif what == 4:
            model.recommend([0], dice.choice([1, 3, 100]), why=True)
            model.recommend(dice.choice(ODD), dice.choice(ODD))
        elif what == 5:
            str(model.explain(0, n - 1))
            model.explain(dice.choice(ODD), dice.choice(ODD))
        elif what == 6:
            model.partial_fit(more)
            rows, columns = (axis.ravel() for axis in np.indices(model.observations_.shape))
            expect_probabilities(model.predict_proba(rows, columns), "after partial_fit")
        else:
            again = BooleanCompletion(random_state=0, **{**extra, "n_jobs": 2}).fit(given, **fit)
            if extra.get("max_time") is None:
                expect(
                    np.array_equal(
                        again.predict_proba(rows, columns), model.predict_proba(rows, columns)
                    ),
                    "another answer with the same seed, or on other threads",
                )

    return f"BooleanCompletion {table.shape} {extra} {list(fit)}, then {what}", run


def completed(dice):
    table = bits(dice, largest=6)
    given = in_some_form(dice, table)
    extra = oddly(dice, {"n_members": 1, "absent": "missing"})

    def run():
        check = kept(table)
        found = boolweave.complete(given, random_state=0, **extra)
        check()
        filled = np.asarray(found.completed, dtype=float)
        expect(np.isin(filled, (0, 1)), "completed: not 0 or 1")
        expect_probabilities(found.probabilities, "probabilities")
        if filled.shape == table.shape and not is_odd(given):
            known = ~np.isnan(table) if not scipy.sparse.issparse(given) else table == 1
            expect(filled[known] == table[known], "an observed entry was changed")
        repr(found)

    return f"complete {table.shape} {extra}", run


# ---------------------------------------------------------------- covers


def fewest_factors(table):
    """The fewest rectangles of ones that cover all ones, by trying all sets of them."""
    m = len(table)
    ones = table == 1
    tiles = {}
    for rows in itertools.product([False, True], repeat=m):
        chosen = np.array(rows)
        columns = (table[chosen] != 0).all(axis=0) if chosen.any() else np.zeros(0, bool)
        if columns.any():
            tile = np.zeros(table.shape, bool)
            tile[np.ix_(np.flatnonzero(chosen), np.flatnonzero(columns))] = True
            tiles[tile.tobytes()] = tile & ones
    for k in range(1 + min(table.shape)):
        for chosen in itertools.combinations(tiles.values(), k):
            if not (ones & ~np.logical_or.reduce([np.zeros_like(ones), *chosen])).any():
                return k
    raise AssertionError


def covers(dice):
    table = bits(dice, largest=6)
    extra = oddly(
        dice,
        some(dice, coverage=[1.0, 0.5, 0.9, 1e-12, np.float32(0.7)], false_ones=[0, 1, 0.1, 3],
             n_components=[1, 2, None], max_rows=[1, 2, None], max_columns=[1, 3, None],
             random_state=[0, 1, None]),
    )  # fmt: skip
    if dice.random() < 0.2:
        n_fixed = dice.choice([1, 2])
        extra["fixed"] = np.random.default_rng(0).integers(0, 2, (n_fixed, table.shape[1]))
    given = in_some_form(dice, table)

    def run():
        check = kept(table)
        found = boolweave.cover(given, **extra)
        check()
        z = product(found.X, found.Y)
        used = (found.X.any(axis=0) & found.Y.any(axis=1)).sum()
        expect(used <= found.cost <= found.X.shape[1], "the cost is not the number of factors")
        if extra.get("n_components") is None:  # otherwise the bound is that of a whole cover
            expect(found.bound <= found.cost, f"bound {found.bound} above cost {found.cost}")
        expect_probabilities(found.coverage, "coverage")
        if found.Z.shape != table.shape or is_odd(given):
            return
        missed = np.argwhere((table == 1) & (z == 0))
        false = np.argwhere((table == 0) & (z == 1))
        expect(np.array_equal(found.missed, missed), "missed is not what is missed")
        expect(np.array_equal(found.false_ones, false), "false_ones are not the false ones")
        n_ones = int((table == 1).sum())
        if "n_components" not in extra:
            least = float(extra.get("coverage", 1.0)) * n_ones
            expect(n_ones - len(missed) >= least - 1e-6, "the cover does not cover what it must")
        allowed = extra.get("false_ones", 0)
        if "fixed" not in extra:
            most = allowed if isinstance(allowed, int) else allowed * n_ones
            expect(len(false) <= most + 1e-9, f"{len(false)} false ones, allowed {most}")
        usual = set(extra) <= {"random_state"}
        if usual and max(table.shape) <= 4:
            least = fewest_factors(table)
            expect(found.bound <= least <= found.cost, f"{found.bound} ≤ {least} ≤ {found.cost}")

    return f"cover {table.shape} {extra}", run


# ---------------------------------------------------------------- one factor known


def pools(dice):
    rng = np.random.default_rng(dice.randrange(2**32))
    n_pools, n_items = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    design = (rng.random((n_pools, n_items)) < rng.random()).astype(int)
    apart = dice.random() < 0.3
    if apart:  # each item in one pool: the answer is exact
        design = np.eye(n_pools, dtype=int)[rng.integers(0, n_pools, n_items)].T
    truth = (rng.random(n_items) < 0.3).astype(int)
    outcomes = ((design @ truth) > 0).astype(float)
    outcomes[rng.random(n_pools) < 0.1] = np.nan
    if dice.random() < 0.2:
        outcomes = np.abs(outcomes - (rng.random(n_pools) < 0.3))
    extra = {
        "prevalence": dice.choice([0.1, 0.01, 0.5, 0.0, 1.0, 1e-300, "learn"]),
        "sensitivity": dice.choice([1.0, 0.9, 0.5, 0.0]),
        "specificity": dice.choice([1.0, 0.95, 0.5, 0.0]),
        **some(dice, schedule=["serial", "flooding"], damping=[0.1, 1.0], n_jobs=[1, 2],
               max_iter=[1, 50, 200], tol=[1e-9, 1e-3]),
    }  # fmt: skip
    extra = oddly(dice, extra)
    what = dice.randrange(6)
    as_given = design
    if dice.random() < 0.3:
        as_given = dice.choice(
            [scipy.sparse.csr_array(design), [np.flatnonzero(line).tolist() for line in design],
             design.tolist(), pd.DataFrame(design)]
        )  # fmt: skip
    if isinstance(as_given, list) and not isinstance(as_given[0], int) and dice.random() < 0.5:
        extra = {"n_items": n_items, **extra}

    def run():
        check = kept(design, outcomes)
        if what == 1:
            rule = dice.choice([coding.comp, coding.scomp, coding.definite_defectives])
            expect(np.isin(rule(as_given, outcomes), (0, 1)), "a rule: not 0 or 1")
        elif what == 2:
            extra.pop("n_items", None)
            for name in ("schedule", "damping", "max_iter", "tol"):
                extra.pop(name, None)
            shown = coding.simulate(as_given, **extra, trials=5, random_state=0)
            expect_numbers(shown.calibration_error, "simulate")
            repr(shown)
        elif what == 3:
            coding.design_pools(
                dice.choice([1, 5, 0, *ODD]), dice.choice([1, 3, *ODD]), random_state=0,
                **oddly(dice, some(dice, prevalence=[0.1, 0.0], pools_per_item=[1, 2, 9],
                                   kind=["constant", "random"], density=[0.0, 0.3, 1.0])),
            )  # fmt: skip
        else:
            found = coding.group_testing(as_given, outcomes, **extra)
            expect_probabilities(found.probabilities, "group_testing")
            expect(np.isin(found.positive, (0, 1)), "positive: not 0 or 1")
            expect_numbers(found.expected_errors, "expected_errors")
            sizes_agree = len(found.probabilities) == n_items
            if not sizes_agree or not all(
                isinstance(extra[name], float)
                for name in ("prevalence", "sensitivity", "specificity")
            ):
                return
            exact = exact_posterior(design, outcomes, extra)
            expect(exact is not None, "impossible outcomes were accepted")
            marginals, support = exact
            expect(support[tuple(found.most_likely)] > 0, "the most likely set is impossible")
            if apart and found.converged and extra.get("tol", 1e-3) <= 1e-3:
                expect(np.abs(marginals - found.probabilities) < 0.02,
                       f"exact {marginals}, got {found.probabilities}")  # fmt: skip
        check()

    return f"pools {design.shape} {extra} {what}", run


def exact_posterior(design, outcomes, extra):
    """The probability of each item, and of each set, by enumeration; None if all are impossible.

    Exact fractions: a prevalence of 1e-300 times itself is 0 as a float.
    """
    p, sens, spec = (Fraction(extra[name]) for name in ("prevalence", "sensitivity", "specificity"))
    tested = ~np.isnan(outcomes)
    weights = {}
    for items in itertools.product([0, 1], repeat=design.shape[1]):
        weight = math.prod(p if item else 1 - p for item in items)
        for positive, outcome in zip((design @ items)[tested] > 0, outcomes[tested], strict=True):
            chance = sens if positive else 1 - spec
            weight *= chance if outcome else 1 - chance
        weights[items] = weight
    total = sum(weights.values())
    if total == 0:
        return None
    marginals = [
        float(sum(weight for items, weight in weights.items() if items[i]) / total)
        for i in range(design.shape[1])
    ]
    return np.array(marginals), weights


def codes(dice):
    rng = np.random.default_rng(dice.randrange(2**32))
    m, n = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    check_matrix = (rng.random((m, n)) < rng.random()).astype(np.uint8)
    extra = oddly(
        dice,
        some(dice, method=["sum-product", "max-sum"], schedule=["flooding", "serial"],
             n_jobs=[1, 2], max_iter=[1, 5, 50], scale=[None, 0.75], damping=[1.0, 0.5]),
    )  # fmt: skip
    what = dice.randrange(4)
    magnitude = dice.choice([1.0, 1.0, 1e-300, 1e30, 1e308, np.inf])
    odd = dice.choice(ODD)

    def run():
        code = coding.ParityCheckCode(check_matrix)
        expect(code.generator.shape == (code.k, n), "the generator has another shape")
        words = code.encode(rng.integers(0, 2, (3, code.k)))
        expect(code.syndrome(words) == 0, "an encoded word fails a check")
        expect(np.array_equal(code.syndrome(words), (words @ check_matrix.T) % 2), "syndrome")
        if what == 0:
            code.decode(odd, **extra)
        elif what == 1:
            flip = dice.choice([0.1, 0.0, 0.5, 1.0, rng.random(n)])
            errors = (rng.random((2, n)) < 0.2).astype(np.uint8)
            syndrome = code.syndrome(errors)
            found = code.decode_syndrome(syndrome, flip, **extra)
            left = (code.syndrome(found.bits) != syndrome).sum(axis=1)
            expect(np.array_equal(left, found.syndrome_weight), "syndrome_weight")
        else:
            llr = (1.0 - 2.0 * words) * magnitude
            if what == 3:
                llr = llr + rng.normal(size=llr.shape)
            check = kept(llr)
            found = code.decode(llr, **extra)
            check()
            expect_numbers(found.llr, "llr")
            weight = code.syndrome(found.bits).sum(axis=1)
            expect(np.array_equal(weight, found.syndrome_weight), "syndrome_weight")
            expect(weight[found.converged] == 0, "converged without being a word")
            if what == 2 and magnitude > 1e-30:  # smaller ones are erasures in single precision
                expect(np.array_equal(found.bits, words), "a word without noise is not returned")

    return f"ParityCheckCode {check_matrix.shape} {extra} {what} {magnitude}", run


def factor(dice):
    rng = np.random.default_rng(dice.randrange(2**32))
    table = bits(dice)
    x = rng.integers(0, 2, (len(table), int(rng.integers(1, 4))))
    extra = oddly(
        dice,
        {"product": dice.choice(["or", "xor"]),
         **some(dice, noise=[0.0, 0.1, 0.5, Channel(0.1, 0.8)], prior=[0.0, 0.3, 1.0],
                method=["sum-product", "max-sum"], schedule=["flooding", "serial"],
                max_iter=[1, 20], damping=[0.5, 1.0], n_jobs=[1, 2])},
    )  # fmt: skip
    given = in_some_form(dice, table)

    def run():
        check = kept(table, x)
        found = coding.infer_factor(x, given, **extra)
        check()
        expect_numbers(found.log_odds, "infer_factor")
        expect(np.isin(found.bits, (0, 1)), "bits: not 0 or 1")

    return f"infer_factor {table.shape} {extra}", run


# ---------------------------------------------------------------- measures


def measures(dice):
    rng = np.random.default_rng(dice.randrange(2**32))
    n = int(rng.integers(0, 12))
    y = rng.integers(0, 2, n).astype(float)
    p = (
        rng.choice([0.0, 0.2, 0.5, 0.5, 0.9, 1.0, 1e-300], n)
        if dice.random() < 0.5
        else rng.random(n)
    )
    rows = rng.integers(0, 3, n)
    top = dice.choice([1, 2, 10, 2**40, *ODD]) if dice.random() < 0.3 else dice.choice([1, 3])
    if dice.random() < 0.2:
        y[rng.random(n) < 0.2] = dice.choice([np.nan, 2, -1, 0.5, np.inf])
    if dice.random() < 0.1:
        p = dice.choice([p * 2, p - 1, p[:-1], p * np.nan, p[:, None], p.astype(str)])
    what = dice.randrange(9)

    def run():
        check = kept(y, rows, p)
        if what == 0:
            got = metrics.log_loss(y, p)
            q = np.clip(p, 1e-15, 1 - 1e-15)
            known = ~np.isnan(y)
            wanted = -np.mean(np.where(y == 1, np.log(q), np.log1p(-q))[known])
        elif what == 1:
            got = metrics.roc_auc(y, p)
            pairs = [(a > b) + (a == b) / 2 for a in p[y == 1] for b in p[y == 0]]
            wanted = np.mean(pairs)
        elif what == 2:
            estimate = (np.asarray(p, dtype=float) > 0.5).astype(int)
            got = metrics.accuracy(y, estimate)
            known = ~np.isnan(y)
            wanted = np.mean(y[known] == estimate[known])
        elif what == 3:
            got = wanted = metrics.expected_calibration_error(y, p, top)
        elif what == 4:
            x, z = bits(dice, 4, 0), bits(dice, 4, 0)
            found = metrics.match_factors(x, x.T, x[:, ::-1], x.T[::-1])
            expect(found.similarities == 1, "equal factors do not match")
            expect_probabilities(metrics.match_factors(x, x.T, z, z.T).similarities, "similarities")
            return
        elif what == 5:
            got = wanted = metrics.information_bound(
                *(dice.choice([1, 5, 100, dice.choice(ODD)]) for _ in range(3))
            )
        else:
            scores = metrics.ranking_scores(rows, y, p, top)
            expect_probabilities(scores[:4], "ranking_scores")
            one_each = [metrics.precision_at_n, metrics.recall_at_n, metrics.ndcg_at_n,
                        metrics.average_precision_at_n]  # fmt: skip
            got, wanted = np.array([f(rows, y, p, top) for f in one_each]), np.array(scores[:4])
        expect_numbers(got, f"measure {what}")
        expect(np.allclose(got, wanted), f"measure {what}: got {got}, expected {wanted}")
        check()

    return f"measure {what} n={n} top={top!r}", run


def observations(dice):
    table = bits(dice)
    given = in_some_form(dice, table)
    extra = oddly(dice, some(dice, absent=["zero", "missing"], duplicates=["error", "majority"]))
    what = dice.randrange(5)

    def run():
        seen = Observations.from_data(given, **extra)
        dense = seen.to_dense()
        if what == 0:
            left, right = seen.hide(dice.choice([0.0, 0.2, 0.5, 1.0, *ODD]), random_state=0)[:2]
            expect(left.n_observed + len(right) == seen.n_observed, "entries were lost")
        elif what == 1:
            n_hidden = 0
            for split in seen.folds(dice.choice([2, 3, *ODD]), random_state=0):
                n_hidden += len(split[1])
            expect(n_hidden == seen.n_observed, "folds do not contain every entry once")
        elif what == 2:
            again = seen.transpose().transpose()
            expect(np.array_equal(again.to_dense(), dense, equal_nan=True), "transpose")
        elif what == 3:
            some_rows = dice.choice([[0], [], slice(0, 1), [-1], [99], *ODD])
            seen.take_rows(some_rows)
        else:
            i, j = np.nonzero(~np.isnan(dense))
            again = Observations.from_triples(i, j, dense[i, j], shape=seen.shape)
            expect(np.array_equal(again.to_dense(), dense, equal_nan=True), "from_triples")

    return f"Observations {table.shape} {extra} {what}", run


CALLS = (
    [fewest_errors] * 4 + [posterior] * 5 + [ranks] * 1 + [completion] * 3 + [completed]
    + [covers] * 4 + [pools] * 4 + [codes] * 3 + [factor] * 2 + [measures] * 4 + [observations] * 3
)  # fmt: skip


def case(dice):
    """One call, and what must hold for its answer."""
    return dice.choice(CALLS)(dice)
