# %% [markdown]
# # How many factors?
#
# More factors always explain more. This page shows three ways to choose their number, on a table
# whose answer is known and on one where it is not.
#
# ## The question
#
# A factorization needs a number of factors. With too few, structure is lost; with too many, the
# factors begin to describe noise. Where is the right place to stop?
#
# ## A table with a known answer
#
# We plant four factors and flip one entry in twenty.

# %%
import matplotlib.pyplot as plt

from boolweave import select_rank
from boolweave.datasets import load_zoo, make_boolean

planted = make_boolean(100, 60, 4, flip=0.05, random_state=0)
print(planted.observations)
# > Observations(100 rows × 60 columns, 6000 of 6000 entries observed, 45.4% ones)

# %% [markdown]
# ## The shortest description
#
# The first way asks how many bits it takes to write the table down: the factors, and a list of
# the entries that they get wrong. A further factor pays if it saves more errors than it costs.

# %%
by_length = select_rank(
    planted.observations, ranks=range(2, 7), objective="posterior", random_state=0
)
print(by_length)
# >  rank           bits
# >     2       4272.055
# >     3       3537.155
# >     4       2437.285  <- best
# >     5       2449.874
# >     6       2462.463
# > 4 factors; 4 to 6 are nearly as good

# %% [markdown]
# The description is shortest with four factors, which is the number that we planted. This is also
# what happens if no number is given: `BooleanMatrixFactorization()` chooses by description
# length. The last line says how clear the choice is.
#
# ## The best prediction
#
# The second way hides entries and asks how well they are predicted.

# %%
by_prediction = select_rank(
    planted.observations, ranks=range(2, 7), criterion="heldout", random_state=0
)
losses = dict(zip(by_prediction.ranks, by_prediction.scores))
for k, loss in losses.items():
    print(f"number of factors {k}: log-loss {loss:.4f}")
# > number of factors 2: log-loss 0.4589
# > number of factors 3: log-loss 0.3556
# > number of factors 4: log-loss 0.2099
# > number of factors 5: log-loss 0.2098
# > number of factors 6: log-loss 0.2103

# %% tags=["gallery"]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].plot(by_length.ranks, by_length.scores, marker="o", color="#1f3a5f")
axes[0].set_title("Bits to describe the table", loc="left")
axes[1].plot(by_prediction.ranks, by_prediction.scores, marker="o", color="#009e73")
axes[1].set_title("Log-loss on hidden entries", loc="left")
for panel in axes:
    panel.axvline(4, color="#8a8a8a", linestyle="--", linewidth=1)
    panel.set_xticks(by_length.ranks)
    panel.set_xlabel("number of factors")
    panel.grid(alpha=0.3)
plt.show()

# %% [markdown]
# Both curves have a corner at four, where the dashed line is. To the left, every factor helps a
# lot. To the right, the description grows slowly, and the loss on hidden entries stays flat up to
# the fourth digit, which is chance. Look for the corner rather than for the lowest point.
#
# ## A table without a known answer
#
# The third way is for factors with the fewest wrong entries. `select_rank` without options gives
# the whole curve of errors against the number of factors. The table is the zoo: animals and their traits.

# %%
zoo = load_zoo().observations
curve = select_rank(zoo)
print(curve)
# >  rank           bits     missed false ones       cost  (less is better)
# >     1        1350.44        314         70        384  ##############################
# >     2       1237.914        158         97        255  ####################
# >     3       1108.983        129         49        178  ##############  <- elbow
# >     4       1099.863         94         44        138  ###########
# >     5       1096.427         68         40        108  ########  <- best
# >     6       1099.604         54         30         84  #######
# >     7       1110.276         44         19         63  #####
# >     8       1103.078         31         18         49  ####
# >     9       1107.015         14         22         36  ###
# >    10       1117.687         16          8         24  ##
# >    11        1128.36          7          9         16  #
# > 5 factors; 3 to 10 are nearly as good; the curve bends at 3

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].plot(curve.ranks, curve.costs, marker="o", color="#d55e00")
axes[0].set_title("Wrong entries of the zoo", loc="left")
axes[0].set_ylim(bottom=0)
axes[1].plot(curve.ranks, curve.scores, marker="o", color="#1f3a5f")
axes[1].set_title("Bits to describe the zoo", loc="left")
for panel in axes:
    panel.set_xlabel("number of factors")
    panel.grid(alpha=0.3)
plt.show()

# %% [markdown]
# The errors fall with every factor, and there is no corner. The description length falls steeply
# up to three factors and is nearly flat from there on; its lowest point is at five. That is what
# real tables look like: there is no true number of factors, but a choice between a short account
# and a close one.
#
# ## What it means
#
# - If factors lie behind the table, the description length and the held-out entries show their
#   number as a corner of the curve.
# - If there is no corner, take the fewest factors that are good enough for your purpose.
# - `n_components="auto"` takes the number with the shortest description, and
#   `n_components="few"` the elbow of the curve.
#
# ## What to read next
#
# - [Rank and noise](../rank-and-noise.md) has both criteria in detail.
# - [Animals and their traits](zoo.md) shows the five factors of the zoo.
