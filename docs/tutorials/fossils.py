# %% [markdown]
# # Fossils, or when a zero is not a no
#
# Which mammals lived together, millions of years ago? Six factors of a table of fossil finds turn
# out to be faunas that follow each other in time, although the model never saw the ages of the
# sites.
#
# ## The question
#
# Whoever digs for fossils finds some of the animals that lived at a place, never all of them. A
# one in such a table is a fact. A zero says only that nothing was found. Can we still see which
# animals belong together?
#
# ## The data
#
# The rows are fossil sites in Europe, the columns are genera of land mammals. Each site has been
# dated to a unit of the Mammal Neogene scale, from MN 2, the oldest here, to MN 17, the youngest.
# That is roughly from twenty to two million years ago. We keep the dates aside.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import load_paleo

paleo = load_paleo()
finds = paleo.observations
genera = finds.column_labels
unit = np.array([int(name.removeprefix("MN ")) for name in paleo.row_groups])
print(finds)
print("units:", *np.unique(unit))
# > Observations(124 rows × 139 columns, 17236 of 17236 entries observed, 11.5% ones)
# > units: 2 3 4 5 6 7 9 10 11 12 13 14 15 16 17

# %% [markdown]
# ## Factors with losses
#
# By default, `BooleanMatrixFactorization` learns how often a one is seen where there should be a
# zero, and how often where there should be a one. So it can find out by itself that ones get lost.

# %%
model = BooleanMatrixFactorization(n_components=6, random_state=0).fit(finds)
print(f"seen where a genus belongs to the fauna: {model.noise_.one_given_one:.0%}")
print(f"seen elsewhere: {model.noise_.one_given_zero:.0%}")
# > seen where a genus belongs to the fauna: 75%
# > seen elsewhere: 8%

# %% [markdown]
# Of the genera that belong to a fauna, a site of that fauna shows about three quarters. The rest
# was not fossilized, not found or not there.
#
# ## Faunas in time
#
# A factor is a set of sites and a set of genera: a fauna. We now sort the factors by the median
# age of their sites, which the model does not know.

# %%
median = [np.median(unit[model.row_factors_[:, k] == 1]) for k in range(6)]
order = np.argsort(median, kind="stable")
for k in order:
    sites = unit[model.row_factors_[:, k] == 1]
    typical = genera[np.argsort(-model.column_log_odds_[k])[:4]]
    print(f"factor {k + 1}: {len(sites):2} sites, MN {sites.min()} to {sites.max()};", end=" ")
    print("typical:", ", ".join(typical))
# > factor 5: 13 sites, MN 4 to 6; typical: Prosantorhinus, Dorcatherium, Hyotherium, Lagomeryx
# > factor 4: 10 sites, MN 4 to 7; typical: Pseudaelurus, Amphicyon, Brachypotherium, Anchitherium
# > factor 2: 15 sites, MN 6 to 11; typical: Alicornops, Chalicotherium, Miotragocerus, Dorcatherium
# > factor 3: 27 sites, MN 9 to 13; typical: Tragoportax, Microstonyx, Gazella, Hipparion
# > factor 6:  5 sites, MN 12 to 12; typical: Deinotherium, Pliohyrax, Helladotherium, Protragelaphus
# > factor 1: 14 sites, MN 13 to 17; typical: Nyctereutes, Ursus, Stephanorhinus, Pliocrocuta

# %% tags=["gallery"]
units = np.unique(unit)
share = np.array([model.row_factors_[unit == u].mean(axis=0) for u in units])

figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
picture = axes.imshow(share[:, order].T, cmap="Greens", vmin=0, vmax=1, aspect="auto")
axes.set_xticks(range(len(units)), [f"MN {u}\n{np.sum(unit == u)}" for u in units], fontsize=8)
axes.set_yticks(range(6), [f"factor {k + 1}" for k in order])
axes.set_xlabel("unit, and number of its sites; the oldest on the left")
figure.colorbar(picture, label="share of the sites in the factor")
axes.set_title("Faunas follow each other in time", loc="left")
plt.show()

# %% [markdown]
# The factors form a diagonal from the oldest sites to the youngest: the earliest fauna ends in MN
# 6, and the latest one begins in MN 13. Each of them keeps to a few neighbouring units, and
# faunas of neighbouring ages overlap. One factor lies within a single unit, MN 12, beside another
# one of that time. Two faunas at the same time suggest different places, or different landscapes.
#
# ## What was probably there
#
# With factors one can look at the zeros again. `kind="latent"` asks for the probability that a
# genus belongs to the fauna of a site, whether or not it was found there.

# %%
dense = finds.to_dense()
rows, columns = np.nonzero(dense == 0)
chance = model.predict_proba(rows, columns, kind="latent")
print(f"zeros: {len(rows)}; expected in the fauna of the site: {np.sum(chance > 0.5)}")

covered = model.row_factors_.any(axis=1)
print(f"sites without a factor: {np.sum(~covered)} of {len(covered)}")
print(f"genera found at a site with a factor: {dense[covered].sum(axis=1).mean():.0f} on average")
print(f"genera found at one without: {dense[~covered].sum(axis=1).mean():.0f} on average")
# > zeros: 15258; expected in the fauna of the site: 257
# > sites without a factor: 48 of 124
# > genera found at a site with a factor: 18 on average
# > genera found at one without: 12 on average

# %% [markdown]
# More than two hundred zeros stand where the fauna would have a one: these are genera that one
# might look for in the collections again. The model is also honest about its limits. Many sites
# belong to no factor, and they are the poorer ones: with few finds, there is little to say.
#
# ## What it means
#
# A table in which ones get lost still has its structure, if the method allows for the loss. The
# two rates that were learned say how far a one and a zero can be trusted.
#
# ## What to read next
#
# - [Rank and noise](../rank-and-noise.md) says how the two rates of errors are learned.
# - [Data sets](../data.md) has the source of this table.
# - [What divides a Senate?](senate.md) looks at votes in the same way.
