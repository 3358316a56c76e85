# %% [markdown]
# # What divides a Senate?
#
# Two factors, found from the votes alone, turn out to be the two parties. The same two factors
# show who crossed the aisle, and how the Senate changed from one Congress to the next.
#
# ## The question
#
# A roll call is a list of yeas and nays. Over two years a Senate takes hundreds of them, and
# nobody can read them all. Is there a short account of who voted with whom, and on what?
#
# ## The data
#
# The package ships the roll calls of seven Congresses, from Voteview. This is the 107th, which
# sat in 2001 and 2002. A row is a roll call and a column is a senator; a one is a yea, a zero is
# a nay, and whoever did neither is missing. The parties of the senators are known, but we keep
# them aside for now.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import CONGRESSES, load_senate
from boolweave.plot import plot_tiles

senate = load_senate(107)
votes = senate.observations
print(votes)
# > Observations(633 rows × 102 columns, 61684 of 64566 entries observed, 69.5% ones)

# %% [markdown]
# ## Two factors
#
# A factor is a set of roll calls together with a set of senators: on these roll calls, these
# senators vote yea. A vote is expected to be a yea if the roll call and the senator share a
# factor, and a nay otherwise. We ask for the two factors with the fewest exceptions.

# %%
model = BooleanMatrixFactorization(n_components=2, objective="errors", random_state=0).fit(votes)
agree = model.predict(votes.rows_of_entries(), votes.indices) == votes.values
print(f"votes that agree with the two factors: {agree.mean():.1%}")
print(f"votes that a yea for everybody would get right: {votes.values.mean():.1%}")
# > votes that agree with the two factors: 90.5%
# > votes that a yea for everybody would get right: 69.5%

# %% [markdown]
# Who is in these factors? `components_` has a row for each factor and a column for each senator.

# %%
senators, party = votes.column_labels, senate.column_groups
for k, members in enumerate(model.components_, start=1):
    inside = members == 1
    counts = {str(p): int(np.sum(party[inside] == p)) for p in ("Democrat", "Republican")}
    print(f"factor {k}: {inside.sum()} senators, {counts}")
    for name in senators[inside & (party == "Independent")]:
        print(f"    and {name}")
# > factor 1: 51 senators, {'Democrat': 50, 'Republican': 0}
# >     and Jeffords (I-VT)
# > factor 2: 54 senators, {'Democrat': 3, 'Republican': 50}
# >     and Barkley (I-MN)

# %% [markdown]
# The factors are the parties. All fifty Democrats are in the first factor and no Republican is;
# all Republicans are in the second. Nobody told the model about parties. It also places the two
# independents. Jim Jeffords left the Republicans in 2001 and sided with the Democrats; as an
# independent he is in the first factor, and the column of his votes as a Republican is in the
# second. Dean Barkley served only in the last weeks of this Congress, so there are few votes to
# place him by.
#
# Three Democrats are in both factors. The model expects a yea from them whenever either party is
# in favour:

# %%
print(*senators[model.components_.sum(axis=0) == 2], sep="\n")
# > Breaux (D-LA)
# > Miller (D-GA)
# > Ben Nelson (D-NE)

# %% [markdown]
# ## What the roll calls look like
#
# A roll call in both factors had yeas from both sides; one in a single factor went along party
# lines.

# %%
first, second = model.row_factors_.T
print("both parties in favour:", int(np.sum((first == 1) & (second == 1))))
print("factor 1 alone:        ", int(np.sum((first == 1) & (second == 0))))
print("factor 2 alone:        ", int(np.sum((first == 0) & (second == 1))))
print("neither:               ", int(np.sum((first == 0) & (second == 0))))
print("along party lines:     ", int(np.sum(first != second)))
# > both parties in favour: 282
# > factor 1 alone:         212
# > factor 2 alone:         117
# > neither:                22
# > along party lines:      329

# %% [markdown]
# The parties were divided on a little more than half of the roll calls, 329 of 633, and united on
# most of the others. The Democrats, who held the majority from June 2001 on, have more roll calls
# of their own.
#
# Here is the whole Senate, sorted by the factors: on the left the votes as they were cast, on the
# right what the two factors say. The strip at the top shows the parties, which the model has not
# seen.

# %% tags=["gallery"]
figure = plot_tiles(
    {"votes": votes.to_dense(), "two factors": model.inverse_transform(model.row_factors_)},
    model.row_factors_,
    model.components_,
    title="The 107th Senate, ordered by two factors",
    row_name="roll calls",
    column_name="senators",
    value_names=("yea", "nay", "did not vote"),
    column_groups=party,
    group_colours={"Democrat": "#2b6cb0", "Republican": "#c53030", "Independent": "#888888"},
)
figure

# %% [markdown]
# ## Who breaks ranks?
#
# The votes that the factors get wrong are as telling as those they get right. For every senator,
# we count the share of votes that go against the two factors.

# %%
wrong = np.bincount(votes.indices, weights=~agree, minlength=votes.shape[1])
cast = np.bincount(votes.indices, minlength=votes.shape[1])
rate = wrong / cast
often = cast >= 100
most = [n for n in np.argsort(-rate) if often[n]][:5]
for n in most:
    print(f"{senators[n]:18} {rate[n]:.1%} of {cast[n]} votes")
# > Chafee (R-RI)      29.1% of 632 votes
# > Jeffords (R-VT)    29.1% of 165 votes
# > Specter (R-PA)     23.9% of 623 votes
# > McCain (R-AZ)      23.7% of 600 votes
# > Ben Nelson (D-NE)  23.5% of 626 votes

# %% [markdown]
# At the top are two Republicans from New England: Lincoln Chafee of Rhode Island, and Jim
# Jeffords in the months before he left his party. Of the five, four are Republicans, and the only
# Democrat is Ben Nelson, whom the model has put into both factors.
#
# ## Seven Congresses
#
# Are two factors as good an account of the earlier Senates? The better they fit, the more a
# Senate votes as two blocks.

# %%
fit = []
for congress in CONGRESSES:
    seen = load_senate(congress).observations
    two = BooleanMatrixFactorization(n_components=2, objective="errors", random_state=0).fit(seen)
    fit.append(np.mean(two.predict(seen.rows_of_entries(), seen.indices) == seen.values))
    print(f"Congress {congress}, from {1787 + 2 * congress}: {fit[-1]:.1%}")

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot([1787 + 2 * congress for congress in CONGRESSES], fit, marker="o", color="#1f3a5f")
axes.set_xlabel("first year of the Congress")
axes.set_ylim(0.8, 1)
axes.set_yticks([0.8, 0.85, 0.9, 0.95, 1])
axes.yaxis.set_major_formatter("{x:.0%}")
axes.set_title("Votes that agree with two factors, by Congress", loc="left")
axes.grid(axis="y", alpha=0.3)
plt.show()
# > Congress 101, from 1989: 84.8%
# > Congress 102, from 1991: 84.4%
# > Congress 103, from 1993: 86.6%
# > Congress 104, from 1995: 88.2%
# > Congress 105, from 1997: 88.7%
# > Congress 106, from 1999: 91.1%
# > Congress 107, from 2001: 90.5%

# %% [markdown]
# ## What it means
#
# What divides a Senate is the party. In twelve years, the share of votes that two blocks explain
# rose from 84.8% to 90.5%.
#
# Two factors are a summary, not the truth: nearly one vote in ten still goes against them. How
# many factors a table supports is the subject of [How many factors?](rank.md).
#
# ## What to read next
#
# - [Animals and their traits](zoo.md) looks for factors with the fewest wrong entries.
# - [The holes of a survey](survey.md) predicts votes that were not cast.
# - [Rank and noise](../rank-and-noise.md) explains what is learned along with the factors.
