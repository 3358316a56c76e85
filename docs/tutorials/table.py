# %% [markdown]
# # A table with categories
#
# Ages, cities, plans and lists of choices are not zeros and ones. `TableEncoder` turns such a
# table into named columns of zeros and ones, and turns what was found there back into cells.
#
# ## The question
#
# A company has a list of its customers: age, city, plan, the channels they use, whether they want
# reminders. Some cells are empty. What kinds of customers are there, and what belongs in the
# empty cells?
#
# ## The data
#
# We make the list ourselves, so that we know the answer: there are three kinds of customers,
# students, families and retired people. Many of them differ from their kind in something, and
# many cells get lost.

# %%
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from boolweave import BooleanMatrixFactorization, TableEncoder

CHANNELS = ["app", "letter", "phone", "video"]
KINDS = {  # youngest, oldest, city, plan, channels, reminders
    "student": (18, 27, "Lund", "basic", ["app", "video"], "no"),
    "family": (32, 50, "Malmö", "family", ["app", "letter", "phone"], "yes"),
    "retired": (62, 80, "Ystad", "basic", ["letter", "phone"], "yes"),
}
rng = np.random.default_rng(1)


def customer(kind):
    youngest, oldest, city, plan, channels, reminders = KINDS[kind]
    odd = rng.random(4) < 0.12  # where this customer is not typical
    return {
        "age": int(rng.integers(18, 80) if odd[0] else rng.integers(youngest, oldest + 1)),
        "city": str(rng.choice(["Lund", "Malmö", "Ystad"])) if odd[1] else city,
        "plan": str(rng.choice(["basic", "plus", "family"])) if odd[2] else plan,
        "channels": "; ".join(c for c in CHANNELS if (c in channels) ^ (rng.random() < 0.06)),
        "reminders": {"yes": "no", "no": "yes"}[reminders] if odd[3] else reminders,
    }


kinds = rng.choice(list(KINDS), size=300, p=[0.4, 0.35, 0.25])
whole = pl.DataFrame([customer(kind) for kind in kinds])

lost = dict(zip(("age", "city", "plan"), rng.random((3, 300)) < 0.15))
customers = whole.with_columns(
    pl.when(pl.Series(holes)).then(None).otherwise(pl.col(name)).alias(name)
    for name, holes in lost.items()
)
print(customers.head(5))
# > shape: (5, 5)
# > ┌──────┬───────┬────────┬────────────────────┬───────────┐
# > │ age  ┆ city  ┆ plan   ┆ channels           ┆ reminders │
# > │ ---  ┆ ---   ┆ ---    ┆ ---                ┆ ---       │
# > │ i64  ┆ str   ┆ str    ┆ str                ┆ str       │
# > ╞══════╪═══════╪════════╪════════════════════╪═══════════╡
# > │ null ┆ Malmö ┆ family ┆ app; letter; phone ┆ yes       │
# > │ 44   ┆ Ystad ┆ null   ┆ letter; phone      ┆ yes       │
# > │ 27   ┆ Lund  ┆ family ┆ phone; video       ┆ no        │
# > │ 78   ┆ Ystad ┆ plus   ┆ letter; phone      ┆ yes       │
# > │ 26   ┆ null  ┆ basic  ┆ app; video         ┆ no        │
# > └──────┴───────┴────────┴────────────────────┴───────────┘

# %% [markdown]
# ## From cells to columns
#
# The encoder looks at each column and decides what it holds. We say only where to cut the ages.

# %%
encoder = TableEncoder(bins={"age": [30, 55]})
bits = encoder.fit_transform(customers)
names = encoder.get_feature_names_out()
print(bits.shape)
print(*names, sep="\n")
# > (300, 14)
# > age < 30
# > 30 ≤ age < 55
# > age ≥ 55
# > city = Lund
# > city = Malmö
# > city = Ystad
# > plan = basic
# > plan = family
# > plan = plus
# > channels: app
# > channels: letter
# > channels: phone
# > channels: video
# > reminders

# %% [markdown]
# A category has become a column for each of its levels, the list of channels a column for each
# channel, and the column of yes and no stays a single one. Where a cell was empty, all of its
# columns are missing.
#
# ## Three kinds
#
# We ask for three factors, as for any other table.

# %%
model = BooleanMatrixFactorization(n_components=3, random_state=0).fit(bits)
for k, members in enumerate(model.components_, start=1):
    print(f"factor {k}:", ", ".join(names[members == 1]))
# > factor 1: 30 ≤ age < 55, city = Malmö, plan = family, channels: app, channels: letter, channels: phone, reminders
# > factor 2: age < 30, city = Lund, plan = basic, channels: app, channels: video
# > factor 3: age ≥ 55, city = Ystad, plan = basic, channels: letter, channels: phone, reminders

# %% tags=["gallery"]
share = np.array([model.row_factors_[kinds == kind].mean(axis=0) for kind in KINDS])
chance = 1 / (1 + np.exp(-model.column_log_odds_))

figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", width_ratios=[1.2, 1])
axes[0].imshow(chance.T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes[0].set_yticks(range(len(names)), names)
axes[0].set_title("Columns of each factor", loc="left")
axes[1].imshow(share, cmap="Greens", vmin=0, vmax=1, aspect="auto")
axes[1].set_yticks(range(3), list(KINDS))
for (i, k), value in np.ndenumerate(share):
    colour = "white" if value > 0.5 else "black"
    axes[1].text(k, i, f"{value:.0%}", ha="center", va="center", color=colour)
axes[1].set_title("Customers of each kind in a factor", loc="left")
for panel in axes:
    panel.set_xticks(range(3), [f"factor {k + 1}" for k in range(3)])
plt.show()

for kind, values in zip(KINDS, share):
    print(f"{kind:8}", "  ".join(f"{value:4.0%}" for value in values))
# > student    0%   99%    2%
# > family    99%    4%    1%
# > retired    0%    1%  100%

# %% [markdown]
# The factors are the three kinds, described in the words of the table, and nearly every customer
# is in the right one.
#
# ## And back again
#
# The model has a probability for every column of zeros and ones. `most_probable` turns them back
# into cells: the likeliest city, the likeliest plan, and for a number a typical one of the
# likeliest interval.

# %%
rows, columns = np.indices(bits.shape)
guess = encoder.most_probable(model.predict_proba(rows, columns))
for name in ("city", "plan"):
    holes = lost[name]
    truth, filled = whole[name].to_numpy()[holes], guess[name].to_numpy()[holes]
    common = customers[name].drop_nulls().mode()[0]
    print(f"{name}: {holes.sum()} holes, {np.mean(filled == truth):.0%} filled correctly;", end=" ")
    print(f"the most common one would be right in {np.mean(truth == common):.0%}")
holes = lost["age"]
missed = np.abs(whole["age"].to_numpy() - guess["age"].to_numpy())[holes]
print(f"age: {holes.sum()} holes, half of them filled to within {np.median(missed):.0f} years")
# > city: 44 holes, 93% filled correctly; the most common one would be right in 41%
# > plan: 46 holes, 87% filled correctly; the most common one would be right in 65%
# > age: 58 holes, half of them filled to within 4 years

# %% [markdown]
# ## What it means
#
# Most of the holes are filled correctly, clearly more than the most common city or plan would get,
# and the factors describe the customers in the words of the table.
#
# On the command line nothing needs to be set up: `boolweave complete customers.csv` encodes such
# a table, fills its holes, and writes it back in its own form.
#
# ## What to read next
#
# - [Tables of any kind](../tables.md) has all kinds of columns, rules for the command line, and
#   pipelines of scikit-learn.
# - [The holes of a survey](survey.md) checks how sure such guesses are.
