# %% [markdown]
# # The holes of a survey
#
# People skip questions. This page fills the gaps of a table of yes and no answers, says how sure
# each guess is, and checks the guesses against answers that were hidden on purpose.
#
# ## The question
#
# A questionnaire comes back with empty boxes. What would these people have answered, and how far
# can such guesses be trusted?
#
# ## The data
#
# We take sixteen yes-or-no votes of the House of Representatives in 1984 as our questionnaire. A
# row is a member of the House and a column is a question. Some members took no clear side on some
# questions, and those boxes are empty.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave import BooleanCompletion, metrics
from boolweave.datasets import load_votes84

house = load_votes84()
answers = house.observations
print(answers)
# > Observations(435 rows × 16 columns, 6568 of 6960 entries observed, 52.1% ones)

# %% [markdown]
# ## First a test
#
# Nobody can check how well we fill the boxes that are really empty. We therefore hide a fifth of
# the answers that we do know, and predict those.
#
# `BooleanCompletion` has an offset for each row and column, a few directions along which people
# differ, and Boolean layers. Left alone, it chooses what helps, by entries that it holds out.
# Here we set the number of directions and leave the layers out, which makes it quicker.

# %%
kept, people, questions, truth = answers.hide(0.2, random_state=0)
model = BooleanCompletion(n_directions=2, n_layers=0, n_members=8, random_state=0).fit(kept)
chance = model.predict_proba(people, questions)
guess = chance > 0.5

more_common = np.nanmean(kept.to_dense(), axis=0) > 0.5
print(
    f"right, if we always take the more common answer: {np.mean(more_common[questions] == truth):.1%}"
)
print(f"right, with BooleanCompletion: {metrics.accuracy(truth, guess):.1%}")
# > right, if we always take the more common answer: 56.5%
# > right, with BooleanCompletion: 82.1%

# %% [markdown]
# ## Is the confidence honest?
#
# A guess is worth more if we know when to trust it. If the probabilities are honest, then of the
# answers to which the model gives a probability of 0.9, nine in ten are a yes. The picture
# compares the two; the larger a point, the more answers it stands for.

# %% tags=["gallery"]
tenth = np.minimum((10 * chance).astype(int), 9)
stated = [chance[tenth == i].mean() for i in range(10)]
actual = [truth[tenth == i].mean() for i in range(10)]
count = np.bincount(tenth, minlength=10)

figure, axes = plt.subplots(figsize=(5.4, 4.8), layout="constrained")
axes.plot([0, 1], [0, 1], color="#8a8a8a", linestyle="--", label="honest probabilities")
axes.scatter(stated, actual, s=count / 2 + 12, color="#1f3a5f", label="hidden answers")
axes.set_xlabel("probability of a yes, as stated")
axes.set_ylabel("share of these answers that are a yes")
axes.set_title("Stated and actual chances of a yes", loc="left")
axes.legend(loc="upper left")
plt.show()

# %%
sure = np.maximum(chance, 1 - chance) > 0.9
print(f"sure to more than 90%: {sure.mean():.0%} of the answers")
print(f"right among those: {np.mean(guess[sure] == truth[sure]):.1%}")
print(f"right among the others: {np.mean(guess[~sure] == truth[~sure]):.1%}")
print(f"calibration error: {metrics.expected_calibration_error(truth, chance):.3f}")
# > sure to more than 90%: 43% of the answers
# > right among those: 97.3%
# > right among the others: 70.6%
# > calibration error: 0.019

# %% [markdown]
# The points lie close to the line: the calibration error, the average distance from it, is small.
# Where the model is sure, it is nearly always right, and where it is not, it says so.
#
# ## The boxes that are really empty
#
# The same model has an answer for the boxes that were empty from the beginning. How many of them
# could we fill if we wanted to be right nine times out of ten?

# %%
empty = np.argwhere(np.isnan(answers.to_dense()))
filled = model.predict_proba(empty[:, 0], empty[:, 1])
print("empty boxes:", len(empty))
print("to be filled with more than 90%:", int(np.sum(np.maximum(filled, 1 - filled) > 0.9)))
# > empty boxes: 392
# > to be filled with more than 90%: 154

# %% [markdown]
# The others are better left open. `explain` says what a guess rests on. Here is one of the
# surest:

# %%
person, question = empty[np.argmax(filled)]
for sentence in model.explain(person, question).sentences():
    print(sentence)
# > representative 264, export-administration-act-south-africa: 1 with a probability of over 99%, log-odds +6.58
# > +0.31 base: ones are more common than zeros in an average row and column
# > -0.12 row offset: ones are less common in representative 264 than in an average row (12 entries)
# > +2.68 column offset: ones are more common in export-administration-act-south-africa than in an average column (255 entries)
# > +3.71 directions: anti-satellite-test-ban (1), mx-missile (1), duty-free-exports (1), adoption-of-the-budget-resolution (1) are like export-administration-act-south-africa and representative 23 (1), representative 190 (1), representative 334 (1), representative 228 (1) are like representative 264

# %% [markdown]
# ## What it means
#
# Holes can be filled, some of them well, and the probability shows which. In a report,
# fill what is nearly certain, and say how many boxes stayed open. For the final answer, fit once
# more to all known answers and leave the choice of the model to `BooleanCompletion`;
# `boolweave.complete` does that in one call.
#
# A caution: this works if the empty boxes are like the others. People who refuse to answer may
# differ from those who do, and no method can see that in the answers of the others.
#
# ## What to read next
#
# - [Filling holes](../completion.md) is the guide to all this, with intervals, new rows, ratings
#   and features.
# - [Which film next?](films.md) fills a table of which hardly anything is known.
# - [A table with categories](table.md) starts from answers that are not just yes and no.
