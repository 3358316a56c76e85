# %% [markdown]
# # Who agrees with whom?
#
# In a Polis conversation, people vote on short statements that others have written. This page finds
# the groups among the voters, what divides them, and what nearly all of them share.
#
# ## The question
#
# Hundreds of people voted on statements about the protection of biodiversity in New Zealand, and
# nobody saw all of them. Who agrees with whom, and about what?
#
# ## The data
#
# The Computational Democracy Project publishes such conversations ([CC BY](../data.md)), and this one ships
# with the package. A row is a participant and a column is a statement: 1 is agreement, −1 is
# disagreement, 0 is a pass, and a statement that somebody did not see is empty. This form is
# recognized; the five columns that describe a participant are left out.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from boolweave import factorize
from boolweave.datasets import example_file
from boolweave.io import read
from boolweave.io.dialect import Dialect

path = example_file("biodiversity-conversation.csv.gz")
about = ("group-id", "n-comments", "n-votes", "n-agree", "n-disagree")
votes = read(path, encode="auto", dialect=Dialect(drop=about)).observations
print(votes)
# > Observations(536 rows × 156 columns, 24252 of 83616 entries observed, 77.9% ones)

# %% [markdown]
# Some people voted only a few times, and some statements came late. We keep those who voted at
# least 40 times, and the statements that most of these people saw.

# %%
table = pd.DataFrame(votes.to_dense(), index=votes.row_labels, columns=votes.column_labels)
table = table[table.notna().sum(axis=1) >= 40]
table = table.loc[:, table.notna().mean() > 0.5]
print(f"{len(table)} people, {table.shape[1]} statements, {table.notna().mean().mean():.0%} known")
print(f"agreement in {table.mean().mean():.0%} of the votes")
# > 283 people, 71 statements, 75% known
# > agreement in 79% of the votes

# %% [markdown]
# ## Two factors
#
# A factor is a set of people who agree with a set of statements. We ask for the two that leave the
# fewest votes unexplained.

# %%
found = factorize(table, n_components=2, random_state=0)
for number, (statements, people) in enumerate(zip(found.Y, found.X.T, strict=True), start=1):
    print(f"factor {number}: {int(people.sum())} people × {int(statements.sum())} statements")
n_votes = int(table.notna().sum().sum())
print(f"{1 - found.cost / n_votes:.0%} of {n_votes} votes are as the factors say")
# > factor 1: 262 people × 60 statements
# > factor 2: 83 people × 46 statements
# > 88% of 15073 votes are as the factors say

# %% [markdown]
# The first factor is what nearly everybody agrees with. The people of the second one agree with
# more than that, or with other statements: they are the group that stands out. Where do they differ
# from the others?

# %% tags=["gallery"]
group = found.X[:, np.argmin(found.X.sum(axis=0))] == 1
inside, outside = table[group].mean(), table[~group].mean()
gap = inside - outside

figure, axes = plt.subplots(figsize=(5.6, 5.2), layout="constrained")
axes.plot([0, 1], [0, 1], color="#8a8a8a", linestyle="--")
axes.scatter(outside, inside, s=18, color="#1f3a5f")
for name in [*gap.nlargest(3).index, *gap.nsmallest(3).index]:
    axes.annotate(name, (outside[name], inside[name]), xytext=(4, 4), textcoords="offset points")
axes.set_xlabel("agreement among the others")
axes.set_ylabel("agreement in the group")
axes.set_title("Each point is a statement, with its number", loc="left")
plt.show()

# %%
print("the group agrees more often with:")
for name in gap.nlargest(3).index:
    print(f"  statement {name}: {inside[name]:.0%} against {outside[name]:.0%}")
print("the others agree more often with:")
for name in gap.nsmallest(3).index:
    print(f"  statement {name}: {outside[name]:.0%} against {inside[name]:.0%}")
both = np.minimum(inside, outside)
print(f"most people on both sides agree with {int((both > 0.5).sum())} of {len(both)} statements")
# > the group agrees more often with:
# >   statement 79: 86% against 2%
# >   statement 91: 90% against 15%
# >   statement 116: 88% against 18%
# > the others agree more often with:
# >   statement 92: 97% against 43%
# >   statement 17: 98% against 61%
# >   statement 60: 85% against 50%
# > most people on both sides agree with 57 of 71 statements

# %% [markdown]
# ## Is it the group that Polis found?
#
# Polis itself divides the participants into groups, by their positions in a plane. The export has
# them in the column `group-id`.

# %%
polis = pd.read_csv(path).set_index("participant")["group-id"]
polis = polis[table.index.astype(int)].to_numpy()
sides = pd.crosstab(
    pd.Series(np.where(group, "group", "others"), name="here"), pd.Series(polis, name="Polis")
)
print(sides.to_string())
# > Polis   0.0  1.0
# > here
# > group    50   33
# > others    7  193

# %% [markdown]
# It is: nearly all of one of the groups of Polis are in ours, which also has some of their
# neighbours.
#
# ## What it means
#
# The division is real, but smaller than the common ground: most statements find agreement on both
# sides, and only a few separate them. A conversation of this kind is well summarized by the
# statements far from the line in the picture, which divide, and those in its upper right corner,
# on which one could act.
#
# A caution: people who see few statements are left out here, and agreement with a statement depends
# on how it is worded.
#
# ## What to read next
#
# - [A Senate and its parties](senate.md) looks at votes that nobody had to write first.
# - [How many factors?](rank.md) says how to choose their number.
# - [Files](../files.md) lists the forms of files that are recognized.
