"""Parts of log-odds: they add up, go the right way, and are said in words."""

import dataclasses
import json

import numpy as np
import pytest
from completions import explain, fitted, planted, random_ensemble, random_observations

from boolweave import Observations
from boolweave.completion.answers.explaining import CompletionExplanation
from boolweave.completion.chain import BINARY_CUTS
from boolweave.completion.ensemble import (
    Ensemble,
    Family,
    LayerFactors,
    Member,
    PlainBoolean,
    Structure,
)

CUTS = np.array([-np.inf, -0.7, 0.4, np.inf])


def part(found, kind, family=None):
    (one,) = [p for p in found.parts if p.kind == kind and family in (None, p.family)]
    return one


def lines(*numbers):
    return np.array(numbers, dtype=np.float32)


def simple(layers=(), directions=False, plain=None, shape=(3, 3), weight=1.0):
    """Offsets of rows 1, 0, −1 and of columns ½, 0, −½, and what is asked for."""
    D = 1 + directions
    rows, columns = np.zeros((3, D), np.float32), np.zeros((3, D), np.float32)
    rows[:, -1], columns[:, -1] = (1, 0, -1), (0.5, 0, -0.5)
    if directions:
        rows[:, 0], columns[:, 0] = (1, 0.8, -1), (1, 0.5, -1)
    none = np.zeros((3, D), np.float32)
    member = Member(rows, none, columns, none, tuple(layers), BINARY_CUTS, ())
    family = Family(Structure(int(directions), len(layers), 2, 0.5), (member,), weight)
    return Ensemble(shape, (family,), plain, 0.0)


LAYER = LayerFactors(lines([0.9, 0], [0.8, 0.1], [0, 1]), lines([1, 0.9, 0], [0, 0, 1]), 0.5)
LIKES = Observations.from_dense(
    [[1, np.nan, 0], [1, 1, np.nan], [0, 0, 1]],
    row_labels=["Ann", "Bo", "Cy"], column_labels=["tea", "milk", "rum"],
)  # fmt: skip


@pytest.mark.parametrize(
    "ensemble",
    [
        random_ensemble(1),
        random_ensemble(2, product="xor"),
        random_ensemble(3, n_members=1),
        random_ensemble(4, cuts=CUTS, cut=2),
        random_ensemble(5, n_pattern=3),
    ],
)
def test_parts_add_up(ensemble):
    seen = random_observations()
    for row in range(7):
        for column in (0, 4, 8):
            found = explain(ensemble, seen, row, column)
            at = np.array([row]), np.array([column])
            assert found.log_odds == pytest.approx(ensemble.log_odds(*at)[0], abs=1e-12)
            assert found.probability == pytest.approx(ensemble.probabilities(*at)[0], abs=1e-12)
            assert sum(p.log_odds for p in found.parts) == pytest.approx(found.log_odds, abs=1e-9)
            kinds = [p.kind for p in found.parts]
            pattern = [] if ensemble.pattern is None else ["pattern"]
            of_families = ["directions", "directions", "layers", "boolean"]
            assert kinds == ["base", "row", "column", *pattern, *of_families]


def test_shares_of_one_member_are_in_the_ratio_of_its_parts():
    found = explain(simple([LAYER]), LIKES, "Ann", "milk")
    moved = part(found, "row").log_odds  # by an offset of 1 above the average
    assert moved > 0
    assert part(found, "column").log_odds == pytest.approx(0.0, abs=1e-12)
    average = 1 - np.prod(1 - LAYER.rows.mean(axis=0) * LAYER.columns.mean(axis=1))
    chance = 0.9 * 0.9
    assert part(found, "layers").log_odds / moved == pytest.approx(chance - average, rel=1e-5)
    assert part(found, "base").log_odds / moved == pytest.approx(0.5 * (2 * average - 1), rel=1e-5)


def test_the_pattern_of_entries_has_a_share_of_its_own():
    """What is added to the mean, less what would be added without the features of the pattern."""
    whole = random_ensemble(6, n_members=1, n_pattern=2)
    ensemble = dataclasses.replace(whole, families=whole.families[:1], plain=None, intercept=0.0)
    (member,), pattern = ensemble.families[0].members, ensemble.pattern
    of_row, of_column = (
        features @ priors[2:]
        for features, priors in (
            (pattern.rows[2], member.priors[0]),
            (pattern.columns[3], member.priors[2]),
        )
    )
    u, v = member.rows[2].astype(float), member.columns[3].astype(float)
    means = [a[:-1] @ b[:-1] + a[-1] + b[-1] for a, b in ((u, v), (u - of_row, v - of_column))]
    found = explain(ensemble, random_observations(), 2, 3)
    shares = {p.kind: p.log_odds for p in found.parts}
    ratio = (means[0] - means[1]) / (u[-1] - member.rows[:, -1].mean() - of_row[-1])
    assert shares["pattern"] / shares["row"] == pytest.approx(ratio, rel=1e-5)
    assert shares["pattern"] == part(found, "pattern").log_odds
    assert part(found, "pattern").sentence.endswith("which rows c3 has entries in")


def test_shares_of_several_members_by_a_sum_over_small_steps():
    """The integral, done slowly: all parts grow in many small steps."""
    from scipy.special import ndtr

    ensemble = random_ensemble(5)
    ensemble = Ensemble(ensemble.shape, ensemble.families[:1], None, 0.0)
    (family,) = ensemble.families
    at = np.array([2]), np.array([3])
    row_parts = np.array([m.rows[2, -1] - m.rows[:, -1].mean() for m in family.members])
    sums, variances = np.array([m.moments(*at) for m in family.members])[:, :, 0].T
    deviations = np.sqrt(1 + variances)
    total = 0.0
    n_steps = 20_000
    for alpha in (np.arange(n_steps) + 0.5) / n_steps:
        t = alpha * sums / deviations
        chance = ndtr(t).mean()
        gain = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) * row_parts / deviations
        total += gain.mean() / (chance * (1 - chance)) / n_steps
    found = explain(ensemble, random_observations(), 2, 3)
    assert part(found, "row").log_odds == pytest.approx(family.weight * total, rel=1e-6)


def test_factors_by_name():
    found = explain(simple([LAYER]), LIKES, "Ann", "milk")
    (factor,) = part(found, "layers").factors
    assert (factor.layer, factor.factor, factor.raises) == (1, 1, True)
    assert factor.probability == pytest.approx(0.81, abs=1e-6)
    assert (factor.rows, factor.columns) == (("Ann", "Bo"), ("tea", "milk"))
    assert (factor.n_rows, factor.n_columns) == (2, 2)
    assert "factor 1 of layer 1: {Ann, Bo} × {tea, milk}" in found.sentence
    assert part(explain(simple([LAYER]), LIKES, "Ann", "rum"), "layers").factors == ()
    against = dataclasses.replace(LAYER, strength=-0.5)
    found = explain(simple([against]), LIKES, "Ann", "milk")
    assert part(found, "layers").log_odds < 0
    assert "less probable" in part(found, "layers").factors[0].sentence


def test_few_of_many_names():
    rows = np.linspace(1.0, 0.6, 30, dtype=np.float32)[:, None]
    plain = PlainBoolean(rows, lines([1, 0.9, 0]), 0.1, 0.9, "or", 1.0)
    found = explain(Ensemble((30, 3), (), plain, 0.0), random_observations(0, (30, 3)), 2, 0)
    (factor,) = part(found, "boolean").factors
    assert factor.rows == tuple(f"r{m}" for m in range(10))
    assert (factor.n_rows, factor.n_columns) == (30, 2)
    assert "factor 1: {r0, r1, r2, r3 and 26 more} × {c0, c1}" in factor.sentence


def test_factors_are_of_the_member_nearest_to_the_family():
    own = simple([LAYER]).families[0].members[0]
    others = [
        dataclasses.replace(LAYER, rows=np.full_like(LAYER.rows, chance)) for chance in (0, 0.75)
    ]
    members = (own, *(own._replace(layers=(layer,)) for layer in others))
    family = Family(Structure(0, 1, 2, 0.5), members, 1.0)
    found = explain(Ensemble((3, 3), (family,), None, 0.0), LIKES, "Ann", "tea")
    chances = family.by_member(np.array([0]), np.array([0]), 1)[:, 0]
    assert np.argmin(np.abs(chances - chances.mean())) == 2
    assert part(found, "layers").factors[0].probability == pytest.approx(0.75)


def test_most_alike_with_what_was_seen():
    found = explain(simple(directions=True), LIKES, "Ann", "milk")
    directions = part(found, "directions")
    assert [(a.name, a.observed) for a in directions.rows] == [("Bo", 1)]
    assert [(a.name, a.observed) for a in directions.columns] == [("tea", 1)]
    assert directions.rows[0].likeness == pytest.approx(1.0)
    assert "tea (1) is like milk and Bo (1) is like Ann" in directions.sentence
    assert directions.log_odds > 0


@pytest.mark.parametrize("product", ["or", "xor"])
def test_the_plain_boolean_model(product):
    plain = PlainBoolean(LAYER.rows, LAYER.columns, 0.1, 0.9, product, 0.5)
    found = explain(simple(plain=plain, weight=0.5), LIKES, "Cy", "rum")
    boolean = part(found, "boolean")
    assert boolean.log_odds > 0
    assert [factor.factor for factor in boolean.factors] == [2]
    assert boolean.sentence.endswith("factor 2: {Cy} × {rum}, which makes ones more probable")


def test_lines_without_entries_are_told():
    seen = Observations.from_dense([[1, 0, np.nan], [np.nan] * 3, [0, 1, np.nan]])
    found = explain(simple(), seen, 1, 2)
    assert found.notes == (
        "row 2 has no entries: it gets the prior of its offset",
        "column 3 has no entries: it gets the prior of its offset",
    )
    assert set(found.notes) <= set(found.sentences())
    assert all(note in found.sentence for note in found.notes)
    assert "row 2 has no entries and gets the prior" in part(found, "row").sentence
    assert explain(simple(), seen, 0, 1).notes == ()


def test_plain_data_and_words():
    found = explain(random_ensemble(1), random_observations(), "r1", "c2")
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert again["row"] == "r1" and again["parts"][0]["kind"] == "base"
    assert isinstance(found, CompletionExplanation)
    assert len(repr(found)) < 250 and repr(found).startswith("CompletionExplanation(r1, c2: P(1)")
    assert len(found.sentences()) == 1 + len(found.parts) + len(found.notes)
    assert all("\n" not in sentence for sentence in found.sentences())
    assert found.reason().startswith("because ")


def test_reasons_in_plain_words():
    def reason(ensemble, row, column):
        return explain(ensemble, LIKES, row, column).reason()

    assert reason(simple(), "Cy", "tea") == "because tea is more common than other columns"
    assert reason(simple(), "Cy", "rum") == "because there is little evidence against it"
    alike = simple(directions=True)
    assert reason(alike, "Ann", "milk") == "because Ann has tea, which is like milk"
    assert reason(alike, "Cy", "rum") == "because there is little evidence against it"
    assert reason(simple([LAYER]), "Ann", "milk") == "because Ann has tea, which this group has"
    # A part that speaks against a one is no reason for it.
    for found in (explain(random_ensemble(1), random_observations(), "r1", n) for n in range(9)):
        sentences = {f"because {p.reason}": p.log_odds for p in found.parts if p.reason}
        assert sentences.get(found.reason(), 1) > 0 > sentences.get(found.reason_against(), -1)


def test_reasons_against_a_one_in_plain_words():
    def against(ensemble, row, column):
        return explain(ensemble, LIKES, row, column).reason_against()

    assert against(simple(), "Cy", "rum") == "because rum is less common than other columns"
    assert against(simple(), "Cy", "tea") == "because there is little evidence for it"
    alike = simple(directions=True)
    assert against(alike, "Cy", "tea") == "because milk, which is like tea, is 0 for Cy"
    lowers = dataclasses.replace(LAYER, strength=-0.5)
    sentence = "because Ann belongs to a group in which milk is less common"
    assert against(simple([lowers]), "Ann", "milk") == sentence


def test_observed_values():
    assert explain(simple(), LIKES, "Ann", "tea").observed == 1
    assert explain(simple(), LIKES, "Ann", "rum").observed == 0
    assert explain(simple(), LIKES, "Ann", "milk").observed is None


def test_a_fit():
    ensemble, _ = fitted()
    seen = planted()
    ones = np.array([seen.take_rows([m]).values.mean() for m in range(60)])
    best, worst = (explain(ensemble, seen, int(m), 0) for m in (ones.argmax(), ones.argmin()))
    assert part(best, "row").log_odds > 0.3 > -0.3 > part(worst, "row").log_odds
    assert "more common" in part(best, "row").sentence
    assert "less common" in part(worst, "row").sentence


def test_wrong_input():
    with pytest.raises(ValueError, match=r"no row named 'Anne'.*did you mean 'Ann'"):
        explain(simple(), LIKES, "Anne", "tea")
    with pytest.raises(ValueError, match="columns must be from 0 to 2, got 3"):
        explain(simple(), LIKES, 0, 3)
    with pytest.raises(ValueError, match=r"expected observations of the shape .* \(3, 3\)"):
        explain(simple(), random_observations(), 0, 0)
