# %% [markdown]
# # Animals and their traits
#
# Five factors rediscover most of the classes of a small zoo from fifteen traits, and show where
# biology is untidy.
#
# ## The question
#
# Take a table of animals and traits: has hair, lays eggs, can fly. Which bundles of traits go
# together, and which animals carry which bundles?
#
# ## The data
#
# The table has 101 animals and 15 traits, and no holes. Each animal also belongs to a class, such
# as mammal or bird, which we keep aside.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave import factorize
from boolweave.datasets import load_zoo

zoo = load_zoo()
animals, traits = zoo.observations.row_labels, zoo.observations.column_labels
print(zoo.observations)
print(*traits, sep=", ")
# > Observations(101 rows × 15 columns, 1515 of 1515 entries observed, 43.6% ones)
# > hair, feathers, eggs, milk, airborne, aquatic, predator, toothed, backbone, breathes, venomous, fins, tail, domestic, catsize

# %% [markdown]
# ## Five bundles
#
# A factor is a bundle of traits together with the animals that have it. `factorize` looks for the
# factors that explain the table with the fewest wrong entries. We ask for five.

# %%
found = factorize(zoo.observations, n_components=5, random_state=0)
print(f"{found.cost:.0f} of {zoo.observations.n_observed} entries are wrong", end=", ")
print(f"and no five factors have fewer than {np.ceil(found.bound):.0f} wrong ones")
for k in range(5):
    print(f"factor {k + 1}, {found.X[:, k].sum()} animals:", ", ".join(traits[found.Y[k] == 1]))
# > 108 of 1515 entries are wrong, and no five factors have fewer than 94 wrong ones
# > factor 1, 41 animals: hair, milk, toothed, backbone, breathes, tail, catsize
# > factor 2, 24 animals: feathers, eggs, backbone, breathes, tail
# > factor 3, 23 animals: eggs, aquatic, toothed, backbone, fins, tail
# > factor 4, 56 animals: predator
# > factor 5, 26 animals: eggs, airborne, breathes

# %% [markdown]
# The bundles speak for themselves: hair and milk, feathers and eggs, fins and water, hunters, and
# what flies and lays eggs. An animal may have several bundles at once. A hawk has three of them:

# %%
hawk = list(animals).index("hawk")
print("hawk:", [k + 1 for k in range(5) if found.X[hawk, k]])
# > hawk: [2, 4, 5]

# %% [markdown]
# ## Bundles and classes
#
# Now we bring the classes back, and count what share of each class has which bundle.

# %% tags=["gallery"]
classes = ["mammal", "bird", "reptile", "fish", "amphibian", "insect", "invertebrate"]
names = ["hair and milk", "feathers and eggs", "fins and water", "predator", "flies, lays eggs"]
share = np.array([found.X[zoo.row_groups == each].mean(axis=0) for each in classes])

figure, axes = plt.subplots(figsize=(7.4, 4.4), layout="constrained")
axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes.set_xticks(range(5), names)
axes.set_yticks(range(7), classes)
for (i, k), value in np.ndenumerate(share):
    colour = "white" if value > 0.5 else "black"
    axes.text(k, i, f"{value:.0%}", ha="center", va="center", color=colour)
axes.set_title("Share of each class that has a bundle", loc="left")
plt.show()

for each, values in zip(classes, share):
    print(f"{each:13}", "  ".join(f"{value:4.0%}" for value in values))
# > mammal        100%    0%   12%   54%    0%
# > bird            0%  100%    0%   45%   80%
# > reptile         0%   80%   20%   80%    0%
# > fish            0%    0%  100%   69%    0%
# > amphibian       0%    0%  100%   75%    0%
# > insect          0%    0%    0%   12%  100%
# > invertebrate    0%    0%    0%   80%   20%

# %% [markdown]
# All mammals have the first bundle, all birds the second and all fish the third. All insects have
# the last one, which they share with four fifths of the birds. Some mammals have the bundle of
# the fish as well:

# %%
print(*animals[(zoo.row_groups == "mammal") & (found.X[:, 2] == 1)], sep=", ")
# > dolphin, platypus, porpoise, seal, sealion

# %% [markdown]
# Reptiles and amphibians have no bundle of their own. Most reptiles go with the birds, with which
# they share much, if not the feathers, and amphibians go with the fish. What unites the remaining
# invertebrates is little more than that most of them hunt.
#
# ## Where biology is untidy
#
# Entries that the factors get wrong are worth a look. These animals have the most of them: traits
# that the factors expect and the animal lacks, and traits that it has and they do not expect.

# %%
table = zoo.observations.to_dense()
wrong = (table != found.Z).sum(axis=1)
for i in np.argsort(-wrong, kind="stable")[:6]:
    lacks = traits[(found.Z[i] == 1) & (table[i] == 0)]
    also = traits[(found.Z[i] == 0) & (table[i] == 1)]
    print(f"{animals[i]}: expected {', '.join(lacks) or 'nothing'}; not expected {', '.join(also)}")
# > frog 2: expected fins, tail; not expected breathes, venomous
# > cavy: expected tail, catsize; not expected domestic
# > frog: expected fins, tail; not expected breathes
# > honeybee: expected nothing; not expected hair, venomous, domestic
# > octopus: expected nothing; not expected eggs, aquatic, catsize
# > pitviper: expected feathers; not expected toothed, venomous

# %% [markdown]
# The frogs sit in the bundle of the fish and lack the fins and the tail. The cavy is a mammal
# without a tail that is smaller than a cat. The honeybee has hair, like a mammal, and venom. The
# table is right about them: the world is not a product of five bundles, and the wrong entries say
# where.
#
# ## What it means
#
# Five bundles account for all but 108 of the 1515 entries. The lower bound says that this is
# close to the best that five factors can do: no others have fewer than 94 wrong entries.
#
# ## What to read next
#
# - [How many factors?](rank.md) asks whether five was a good number.
# - [Fewest errors](../factors.md) explains how the search works, and compares it with published
#   results.
# - [Fossils](fossils.md) has a table whose zeros cannot be trusted.
