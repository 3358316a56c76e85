"""Small ensembles for tests: made up at random, or fitted to a small planted table."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from boolweave import BooleanCompletion, Observations
from boolweave.completion.answers.explaining import Explainer
from boolweave.completion.chain import BINARY_CUTS, Chain
from boolweave.completion.ensemble import (
    Ensemble,
    Family,
    LayerFactors,
    Member,
    PlainBoolean,
    Structure,
)
from boolweave.completion.fitting import Fitted
from boolweave.completion.table import Pattern, Table
from boolweave.data.labels import positions
from boolweave.recommend import recommend_at

STRUCTURES = (Structure(2), Structure(1, 2, 3, 0.7))


def random_member(random, shape, structure=STRUCTURES[1], cuts=BINARY_CUTS, n_features=2):
    D = structure.n_directions + 1
    sides = []
    for n in shape:
        sides += [random.normal(size=(n, D)), random.gamma(1.0, 0.2, size=(n, D))]
    layers = tuple(
        LayerFactors(
            random.uniform(size=(shape[0], structure.n_components)).astype(np.float32),
            random.uniform(size=(structure.n_components, shape[1])).astype(np.float32),
            structure.strength * (1 if i % 2 == 0 else -1),
        )
        for i in range(structure.n_layers)
    )
    priors = []
    for _ in range(2):
        coefficients = np.zeros((n_features, D))
        coefficients[:, -1] = random.normal(size=n_features)
        priors += [coefficients, random.gamma(3.0, 0.3, size=D)]
    compact = (side.astype(np.float32) for side in sides)
    return Member(*compact, layers, cuts.copy(), tuple(priors))


def random_plain(random, shape, n_components=3, product="or", weight=0.2):
    rows, columns = random.uniform(size=(2, max(shape), n_components)).astype(np.float32)
    rows, columns = rows[: shape[0]], np.ascontiguousarray(columns[: shape[1]].T)
    return PlainBoolean(rows, columns, 0.1, 0.85, product, weight)


def random_ensemble(
    seed=0, shape=(7, 9), n_members=3, product="or", cuts=BINARY_CUTS, cut=1, n_pattern=0
):
    random = np.random.default_rng(seed)
    if n_pattern:
        return with_pattern(random_ensemble(seed, shape, n_members, product, cuts, cut), n_pattern)
    families = tuple(
        Family(s, tuple(random_member(random, shape, s, cuts) for _ in range(n_members)), weight)
        for s, weight in zip(STRUCTURES, (0.5, 0.4), strict=True)
    )
    return Ensemble(shape, families, random_plain(random, shape, product=product), 0.1, cut)


def with_pattern(ensemble, n_features):
    """The ensemble with a random pattern of entries, which its first family uses."""
    random = np.random.default_rng(0)
    rows, columns, loadings = (
        random.normal(size=(ensemble.shape[side], n_features)) for side in (0, 1, 1)
    )
    pattern = Pattern(rows, columns, loadings, random.normal(size=n_features), 2.5)
    first, *others = ensemble.families
    members = []
    for member in first.members:
        priors = list(member.priors)
        for i in (0, 2):
            more = 0.3 * random.normal(size=(n_features, priors[i].shape[1]))
            priors[i] = np.concatenate([priors[i], more])
        members.append(member._replace(priors=tuple(priors)))
    structure = replace(first.structure, pattern=True)
    families = (replace(first, structure=structure, members=tuple(members)), *others)
    return replace(ensemble, families=families, pattern=pattern)


def random_observations(seed=0, shape=(7, 9), share=0.5, labels=True):
    random = np.random.default_rng(seed)
    table = np.where(random.random(shape) < share, random.integers(0, 2, shape), np.nan)
    names = {
        "row_labels": [f"r{m}" for m in range(shape[0])],
        "column_labels": [f"c{n}" for n in range(shape[1])],
    }
    return Observations.from_dense(table, **(names if labels else {}))


@lru_cache
def planted(shape=(60, 40), observed=0.7, seed=3):
    """Entries of offsets, one direction and a Boolean product: observations."""
    random = np.random.default_rng(seed)
    a, b = 0.6 * random.normal(size=shape[0]), 0.6 * random.normal(size=shape[1])
    u, v = random.normal(size=shape[0]), random.normal(size=shape[1])
    z = random.random((shape[0], 2)) < 0.5
    z = (z.astype(int) @ (random.random((2, shape[1])) < 0.5)) > 0
    mean = a[:, None] + b + np.outer(u, v) + 0.8 * (2 * z - 1)
    table = (mean + random.normal(size=shape) > 0).astype(float)
    table[random.random(shape) > observed] = np.nan
    return Observations.from_dense(table)


@lru_cache
def fitted(n_members=3):
    """The ensemble of a small real fit to `planted()`, and its table."""
    table = Table.of(planted())
    families = []
    for i, (structure, weight) in enumerate([(Structure(2), 0.5), (Structure(1, 2, 3, 0.6), 0.5)]):
        members = tuple(
            Chain.start(table, structure, np.random.default_rng([i, j])).member(20, 15)
            for j in range(n_members)
        )
        families.append(Family(structure, members, weight))
    return Ensemble(table.shape, tuple(families), None, 0.05), table


def explain(ensemble, seen, row, column, trained=None):
    return Explainer(ensemble, seen, trained).explain(row, column)


def recommend(ensemble, seen, rows, n=10, trained=None):
    return recommend_at(Explainer(ensemble, seen, trained), positions(rows, seen, "row"), n)


def model_of(ensemble, seen, selection=(), **parameters):
    """A fitted estimator with this ensemble; levels are made up if it has thresholds for some."""
    model = BooleanCompletion(**parameters)
    n_levels = len(ensemble.families[0].members[0].cuts) - 1 if ensemble.families else 2
    levels = np.where(seen.values == 1, ensemble.cut, np.arange(seen.n_observed) % ensemble.cut)
    table = Table.of(seen, levels.astype(np.uint8), n_levels=n_levels)
    return model._keep(table, Fitted(ensemble, list(selection), False))


def all_pairs(shape):
    rows, columns = np.indices(shape)
    return rows.ravel(), columns.ravel()
