"""New rows: as if they had been there from the start, each on its own."""

from dataclasses import replace

import numpy as np
import pytest
from completions import (
    explain,
    fitted,
    planted,
    random_ensemble,
    random_observations,
    random_plain,
    recommend,
)

from boolweave import Observations
from boolweave.completion.answers.new_rows import FoldIn
from boolweave.completion.table import make_features

SCALE = np.array([1.0, 0.5])
CUTS = np.array([-np.inf, -0.7, 0.4, np.inf])


def chances(ensemble):
    return ensemble.row_probabilities(np.arange(ensemble.shape[0]))


def test_rows_of_the_fit_get_nearly_what_they_have():
    ensemble, table = fitted()
    new = FoldIn(ensemble, table.count_scales[0]).fold_in(planted())
    for i in range(3):  # both families, and each alone
        families = slice(None) if i == 2 else slice(i, i + 1)
        old_chance, new_chance = (
            chances(replace(e, families=e.families[families])) for e in (ensemble, new)
        )
        assert np.abs(old_chance - new_chance).mean() < 0.02
        assert np.corrcoef(old_chance.ravel(), new_chance.ravel())[0, 1] > 0.99


def test_entries_that_were_not_seen_are_predicted():
    """Half of the entries of each row, folded in, tell more of the rest than columns alone."""
    ensemble, table = fitted()
    kept, rows, columns, values = planted().hide(0.5, random_state=0)
    model = FoldIn(ensemble, table.count_scales[0])
    empty = Observations.from_triples([], [], [], shape=kept.shape)
    losses = []
    for seen in (kept, empty):
        chance = model.fold_in(seen).probabilities(rows, columns)
        losses.append(-np.mean(np.log(np.where(values, chance, 1 - chance))))
    assert losses[0] < losses[1] - 0.05


@pytest.mark.parametrize("product", ["or", "xor"])
def test_each_row_on_its_own(product):
    model = FoldIn(random_ensemble(1, product=product), SCALE)
    seen = random_observations(3, shape=(6, 9))
    together = chances(model.fold_in(seen))
    for row in range(6):
        alone = chances(model.fold_in(seen.take_rows([row])))
        np.testing.assert_array_equal(alone[0], together[row])
    turned = chances(model.fold_in(seen.take_rows(np.arange(6)[::-1])))
    np.testing.assert_array_equal(turned[::-1], together)


def test_threads_change_nothing():
    seen = random_observations(3, shape=(20, 9))
    one, two = (FoldIn(random_ensemble(1), SCALE, n_jobs).fold_in(seen) for n_jobs in (None, 2))
    np.testing.assert_array_equal(chances(one), chances(two))


def test_rows_without_entries_get_the_priors():
    ensemble = random_ensemble(1)
    new = FoldIn(ensemble, SCALE).fold_in(Observations.from_triples([], [], [], shape=(2, 9)))
    features, _ = make_features(np.array([0, 0]), like=SCALE)
    for old_family, new_family in zip(ensemble.families, new.families, strict=True):
        for old, member in zip(old_family.members, new_family.members, strict=True):
            np.testing.assert_allclose(member.rows, features.elsewhere @ old.priors[0], rtol=1e-6)
            np.testing.assert_allclose(member.row_variance, [old.priors[1]] * 2, rtol=1e-6)
            for a, b in zip(old.layers, member.layers, strict=True):
                np.testing.assert_allclose(b.rows, [a.rows.mean(axis=0)] * 2, rtol=1e-5)
                assert b.columns is a.columns
    np.testing.assert_allclose(new.plain.rows, [ensemble.plain.rows.mean(axis=0)] * 2, rtol=1e-5)
    assert "has no entries" in explain(new, random_observations(0, (2, 9), 0.0), 0, 0).sentence


def test_more_ones_higher_offset():
    ensemble = random_ensemble(2)
    table = np.full((2, 9), np.nan)
    table[:, :6] = [[1], [0]]
    new = FoldIn(ensemble, SCALE).fold_in(Observations.from_dense(table))
    for family in new.families:
        for member in family.members:
            assert member.rows[0, -1] > member.rows[1, -1]


def test_bits_of_levels_say_on_which_side_of_the_cut_they_are():
    ensemble = replace(random_ensemble(4, cuts=CUTS, cut=2), plain=None)
    seen = random_observations(3, shape=(6, 9))
    new = FoldIn(ensemble, SCALE).fold_in(seen)
    assert new.cut == 2
    families = []
    for family in ensemble.families:
        members = (m._replace(cuts=np.array([-np.inf, CUTS[2], np.inf])) for m in family.members)
        families.append(replace(family, members=tuple(members)))
    binary = replace(ensemble, families=tuple(families), cut=1)
    np.testing.assert_array_equal(chances(new), chances(FoldIn(binary, SCALE).fold_in(seen)))


def test_features_of_rows_are_average_ones():
    """A feature that the fit had is 0 for new rows, whatever its coefficient is."""
    ensemble, seen = random_ensemble(1), random_observations(0, (2, 9))
    families = []
    for family in ensemble.families:
        members = (
            m._replace(
                priors=(np.vstack([m.priors[0], np.ones(m.priors[0].shape[1])]), *m.priors[1:])
            )
            for m in family.members
        )
        families.append(replace(family, members=tuple(members)))
    with_feature = replace(ensemble, families=tuple(families))
    found, expected = (
        chances(FoldIn(model, SCALE).fold_in(seen)) for model in (with_feature, ensemble)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_plain_model_alone():
    ensemble = replace(
        random_ensemble(1),
        families=(),
        plain=random_plain(np.random.default_rng(0), (7, 9), weight=1.0),
    )
    table = np.full((2, 9), np.nan)
    table[:, :5] = [[1], [0]]
    ones, zeros = chances(FoldIn(ensemble, SCALE).fold_in(Observations.from_dense(table)))
    assert (ones > zeros).all()


def test_they_are_asked_like_other_rows():
    ensemble, table = fitted()
    seen = planted().take_rows([4, 9])
    new = FoldIn(ensemble, table.count_scales[0]).fold_in(seen)
    found = recommend(new, seen, [1, 0], n=3, trained=ensemble)
    assert (found.columns >= 0).all() and found.reasons[0][0].startswith("because ")
    told = explain(new, seen, 1, int(found.columns[0, 0]), trained=ensemble)
    assert told.probability == pytest.approx(found.probabilities[0, 0], abs=1e-6)
    own = explain(ensemble, planted(), 9, int(found.columns[0, 0]))
    for a, b in zip(told.parts, own.parts, strict=True):
        assert a.log_odds == pytest.approx(b.log_odds, abs=0.4)


def test_wrong_columns():
    with pytest.raises(ValueError, match="expected rows of 9 columns, as in the fit, but got 8"):
        FoldIn(random_ensemble(1), SCALE).fold_in(random_observations(0, (2, 8)))
