# %% [markdown]
# # Which film next?
#
# From the ratings that people tweeted, we predict who likes which film, recommend films with
# reasons, and find out how much of a rating is taste and how much is just a good film or a generous
# person.
#
# ## The question
#
# People have rated a few dozen films each, out of hundreds. Which of the others would they like?
#
# ## The data
#
# MovieTweetings collects ratings from Twitter. The package ships a part of it, from 2013: a row
# is a person and a column is a film. A one is a rating of eight or more out of ten, and a zero is
# a lower one. Most entries are missing: nobody has seen everything.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave import BooleanCompletion, metrics
from boolweave.datasets import load_movietweetings

films = load_movietweetings()
ratings, titles = films.observations, films.observations.column_labels
print(ratings)
# > Observations(563 rows × 468 columns, 17512 of 263484 entries observed, 44.9% ones)

# %% [markdown]
# ## Predict
#
# We hide a tenth of the ratings and predict them. `BooleanCompletion` gives a probability to
# every pair of a person and a film.

# %%
kept, people, columns, liked = ratings.hide(0.1, random_state=0)
model = BooleanCompletion(n_directions=2, n_layers=0, n_members=4, random_state=0).fit(kept)
chance = model.predict_proba(people, columns)

count = np.bincount(kept.indices)
share = np.bincount(kept.indices, weights=kept.values) / count  # of good ratings, for each film
print(f"right, if nobody likes anything: {np.mean(liked == 0):.1%}")
print(
    f"right, if everybody agrees with the majority: {np.mean((share[columns] > 0.5) == liked):.1%}"
)
print(f"right, with BooleanCompletion: {metrics.accuracy(liked, chance > 0.5):.1%}")
# > right, if nobody likes anything: 55.2%
# > right, if everybody agrees with the majority: 71.0%
# > right, with BooleanCompletion: 76.4%

# %% [markdown]
# ## What matters
#
# The model was compared with simpler ones, on entries that it held out for itself. Offsets know
# how good a film is and how generous a person is. The pattern adds which films somebody chose to
# rate, whatever the ratings. Directions add taste: people who like this also like that.

# %%
for line in model.selection_:
    print(f"{line['model']:34} log-loss {line['log_loss']:.4f}")
# > blend                              log-loss 0.4943
# > offsets + pattern + 2 directions   log-loss 0.4945
# > offsets + pattern                  log-loss 0.5009
# > offsets + 2 directions             log-loss 0.5023

# %% [markdown]
# Choices and taste both help, but by little: with some thirty ratings a person, most of what can
# be predicted is in the offsets. It is worth knowing this before building anything more elaborate.
# The `blend` in the first line is what the fitted model uses.
#
# ## A stranger
#
# What would we recommend to somebody of whom we know nothing? An empty row answers that. For each
# film, the picture compares the share of good ratings with the probability that a stranger likes
# it.

# %% tags=["gallery"]
nothing_known = np.full((1, len(titles)), np.nan)
stranger = model.predict_proba(nothing_known)[0]

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
axes.plot([0, 1], [0, 1], color="#8a8a8a", linestyle="--", linewidth=1)
few = count < 20
axes.scatter(share[few], stranger[few], s=16, color="#e69f00", label="fewer than 20 ratings")
axes.scatter(share[~few], stranger[~few], s=16, color="#1f3a5f", label="20 ratings or more")
for title, place in {
    "Movie 43 (2013)": (0.15, 0.02),
    "Pacific Rim (2013)": (0.68, 0.44),
    "Django Unchained (2012)": (0.70, 0.56),
}.items():
    n = list(titles).index(title)
    arrow = {"arrowstyle": "-", "color": "#8a8a8a"}
    axes.annotate(title, (share[n], stranger[n]), place, arrowprops=arrow)
axes.set_xlabel("share of good ratings")
axes.set_ylabel("probability that a stranger likes it")
axes.set_title("What people said, and what to expect", loc="left")
axes.legend(loc="upper left")
plt.show()

# %%
gap = np.abs(stranger - share)
print(f"mean distance, films with fewer than 20 ratings: {gap[few].mean():.3f}")
print(f"mean distance, films with 20 ratings or more:    {gap[~few].mean():.3f}")
best = np.argsort(-stranger)[:5]
print(*[f"{titles[n]}, {stranger[n]:.0%}" for n in best], sep="\n")
# > mean distance, films with fewer than 20 ratings: 0.069
# > mean distance, films with 20 ratings or more:    0.065
# > The Shawshank Redemption (1994), 98%
# > The Lord of the Rings: The Return of the King (2003), 97%
# > Schindler's List (1993), 97%
# > Se7en (1995), 96%
# > The Dark Knight (2008), 96%

# %% [markdown]
# The films at the top are favourites that nearly everybody rated highly. The shares of films with
# few ratings are corrected a little more than the others: a handful of enthusiasts proves less
# than a crowd. It also matters who rated a film, since a good rating from a strict person counts
# for more.
#
# ## Somebody in particular
#
# A new viewer is a new row. This one likes horror films and did not care for romance.

# %%
mine = nothing_known.copy()
said = {
    "The Cabin in the Woods (2011)": 1,
    "Evil Dead (2013)": 1,
    "The Conjuring (2013)": 1,
    "The Great Gatsby (2013)": 0,
    "Silver Linings Playbook (2012)": 0,
}
for title, value in said.items():
    mine[0, list(titles).index(title)] = value
now = model.predict_proba(mine)[0]
for title in ("The Dark Knight (2008)", "Stoker (2013)", "Safe Haven (2013)"):
    n = list(titles).index(title)
    print(f"{title}: {stranger[n]:.0%} for a stranger, {now[n]:.0%} for this viewer")
unrated = np.isnan(mine[0])
change = np.abs(now - stranger)[unrated].max()
print(f"largest change of a film that was not rated: {change:.0%}")
# > The Dark Knight (2008): 96% for a stranger, 97% for this viewer
# > Stoker (2013): 38% for a stranger, 42% for this viewer
# > Safe Haven (2013): 47% for a stranger, 45% for this viewer
# > largest change of a film that was not rated: 6%

# %% [markdown]
# Five ratings do not move the predictions far, by 4% at most. `explain` shows what a prediction
# is made of, in log-odds:

# %%
for sentence in model.explain(mine, "Stoker (2013)").sentences():
    print(sentence)
# > row 1, Stoker (2013): 1 with a probability of 42%, log-odds -0.33
# > -0.09 base: ones are less common than zeros in an average row and column
# > +0.31 row offset: ones are more common in row 1 than in an average row (5 entries)
# > +0.38 column offset: ones are more common in Stoker (2013) than in an average column (85 entries)
# > -0.91 pattern: which columns row 1 has entries in, such as Evil Dead (2013), Silver Linings Playbook (2012), and which rows Stoker (2013) has entries in
# > -0.02 directions: The Cabin in the Woods (2011) (1), Evil Dead (2013) (1), Silver Linings Playbook (2012) (0) are like Stoker (2013)

# %% [markdown]
# Somebody who liked three films out of five is a little more generous than average. The largest
# part here comes from the pattern: which films this viewer has rated, and who has rated this film,
# whatever the ratings. Taste is the line of the directions, and after five ratings it says little.
#
# `recommend` takes the films that this viewer has not rated and sorts them by their probability:

# %%
found = model.recommend(mine, n=3)
for column, probability in zip(found.columns[0], found.probabilities[0]):
    print(f"{titles[column]}: {probability:.0%}")
# > The Shawshank Redemption (1994): 99%
# > The Lord of the Rings: The Return of the King (2003): 98%
# > Se7en (1995): 98%

# %% [markdown]
# ## What it means
#
# Predictions for single people are right three times out of four here, and most of that comes
# from knowing films and people in general. A recommender that claims to know your taste should
# first be compared with offsets; `BooleanCompletion` makes this comparison by itself.
#
# ## What to read next
#
# - [Filling holes](../completion.md) uses the ratings behind the zeros and ones, features of
#   films, and intervals.
# - [Evaluation](../evaluation.md) has the measures that recommender people use.
# - [The holes of a survey](survey.md) checks whether the probabilities are honest.
