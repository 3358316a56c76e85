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
# > seen where a genus belongs to the fauna: 39%
# > seen elsewhere: 1%

# %% [markdown]
# Of the genera that belong to a fauna, a site of that fauna shows about two fifths. The rest was
# not fossilized, not found or not there. Elsewhere, hardly any genus is found.
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
# > factor 5: 23 sites, MN 2 to 6; typical: Prosantorhinus, Procervulus, Aureliachoerus, Plesiaceratherium
# > factor 2: 27 sites, MN 4 to 10; typical: Brachypotherium, Anchitherium, Dicrocerus, Pseudaelurus
# > factor 6: 20 sites, MN 7 to 11; typical: Miotragocerus, Propotamochoerus, Parachleuastochoerus, Alicornops
# > factor 1: 27 sites, MN 9 to 13; typical: Gazella, Ceratotherium, Prostrepsiceros, Cremohipparion
# > factor 4: 28 sites, MN 9 to 13; typical: Tragoportax, Aceratherium, Microstonyx, Paramachairodus
# > factor 3: 27 sites, MN 13 to 17; typical: Stephanorhinus, Ursus, Nyctereutes, Gazella

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
# 6, and the latest one begins in MN 13. Each of them keeps to neighbouring units, and faunas of
# neighbouring ages overlap. Two factors share their time, MN 9 to 13. Two faunas at the same time
# suggest different places, or different landscapes.
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

print(f"sites without a factor: {np.sum(~model.row_factors_.any(axis=1))} of {len(dense)}")
# > zeros: 15258; expected in the fauna of the site: 2817
# > sites without a factor: 0 of 124

# %% [markdown]
# Almost a fifth of the zeros stand where the fauna has a one: these are genera that one might look
# for in the collections again. Every site belongs to a fauna, the poorer ones, too. To describe
# the finds themselves with as few mistakes as possible, without a model of losses, one would use
# `objective="errors"`.
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
