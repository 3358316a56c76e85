# %% [markdown]
# # A survey as it was downloaded
#
# Two lines of names, a respondent number, brackets of age and income, and skipped questions: this
# page reads such a file without any preparation, and looks for groups among the answers.
#
# ## The question
#
# Do people who take one risk take the others, too? And do they order their steak differently?
#
# ## The data
#
# FiveThirtyEight asked a few hundred people which risks they take and how they like their steak,
# and published the answers ([CC BY](../data.md)) as the survey tool wrote them. The file ships with the
# package. Its first lines show what a program has to cope with:

# %%
import matplotlib.pyplot as plt
import pandas as pd

from boolweave import factorize
from boolweave.datasets import example_file
from boolweave.io import read

path = example_file("steak-risk-survey.csv")
for line in path.read_text("utf-8").splitlines()[:3]:
    print(line[-150:])
# > eated on your significant other?,Do you eat steak?,How do you like your steak prepared?,Gender,Age,Household Income,Education,Location (Census Region)
# > ,Response,Response,Response,Response,Response,Response,Response,Response,Response,Response,Response,Response,Response,Response
# > 3237565956,Lottery B,,,,,,,,,,,,,

# %% [markdown]
# ## The reading plan
#
# `read` with `encode="auto"` decides for each column what it is, and says so in a plan. On the
# command line, `boolweave info steak-risk-survey.csv` prints the same.

# %%
reading = read(path, encode="auto")
for column in reading.plan:
    print(f"{column.name[-45:]:<46}{column.kind:<10}{column.encoding}")
# > RespondentID                                  id        row labels
# > o bet, would you play Lottery A or Lottery B? category  levels
# > Do you ever smoke cigarettes?                 yes/no    one column
# > Do you ever drink alcohol?                    yes/no    one column
# > Do you ever gamble?                           yes/no    one column
# > Have you ever been skydiving?                 yes/no    one column
# > Do you ever drive above the speed limit?      yes/no    one column
# > e you ever cheated on your significant other? yes/no    one column
# > Do you eat steak?                             yes/no    one column
# > How do you like your steak prepared?          ordered   thresholds
# > Gender                                        category  levels
# > Age                                           ordered   thresholds
# > Household Income                              ordered   thresholds
# > Education                                     ordered   thresholds
# > Location (Census Region)                      category  levels

# %% [markdown]
# The respondent number names the rows. Answers with an order, such as brackets of income, become
# thresholds: everybody who earns more than the bracket has a one. If a line of the plan were
# wrong, we would write the plan to a file, correct it there, and read the survey by it.
#
# ## The risks
#
# The encoded answers are an ordinary 0/1 table with holes. We take the six questions about risks.

# %%
seen = reading.observations
answers = pd.DataFrame(seen.to_dense(), index=seen.row_labels, columns=seen.column_labels)
risks = {
    "Do you ever smoke cigarettes?": "smokes",
    "Do you ever drink alcohol?": "drinks",
    "Do you ever gamble?": "gambles",
    "Have you ever been skydiving?": "has been skydiving",
    "Do you ever drive above the speed limit?": "speeds",
    "Have you ever cheated on your significant other?": "has cheated",
}
taken = answers[list(risks)].rename(columns=risks).dropna(how="all")
print(taken.mean().sort_values(ascending=False).map("{:.0%}".format).to_string())
# > speeds                89%
# > drinks                77%
# > gambles               48%
# > has cheated           17%
# > smokes                16%
# > has been skydiving     7%

# %% [markdown]
# If risks came in groups, a few factors with several columns each would describe them. Here are the
# three factors with the fewest wrong entries:

# %%
found = factorize(taken, n_components=3, random_state=0)
for number, (own, people) in enumerate(zip(found.Y, found.X.T, strict=True), start=1):
    names = ", ".join(taken.columns[own == 1])
    print(f"factor {number}: {int(people.sum())} people, {names}")
print(f"{found.cost:.0f} of {int(taken.notna().sum().sum())} answers differ from the factors")
# > factor 1: 480 people, speeds
# > factor 2: 416 people, drinks
# > factor 3: 257 people, gambles
# > 212 of 3231 answers differ from the factors

# %% [markdown]
# Every factor has a single column. The report of `boolweave factorize` flags such factors, because
# they say nothing about what belongs together: here, one common risk tells little about another.
# The correlations confirm that. These are the largest:

# %%
together = taken.corr().stack()
together = together[[a < b for a, b in together.index]].sort_values(ascending=False)
for (first, second), correlation in together.head(3).items():
    print(f"{first} and {second}: {correlation:.2f}")
# > drinks and gambles: 0.23
# > gambles and smokes: 0.20
# > drinks and speeds: 0.20

# %% [markdown]
# ## The steak
#
# How many risks somebody takes can still be counted. We compare those who take at least three with
# the others, among those who eat steak.

# %% tags=["gallery"]
order = reading.plan["How do you like your steak prepared?"].levels
above = [f"How do you like your steak prepared? ≥ {level}" for level in order[1:]]
doneness = answers.loc[taken.index, above].dropna().sum(axis=1).astype(int)
brave = taken.sum(axis=1).loc[doneness.index] >= 3
shares = pd.DataFrame(
    {
        name: doneness[group].value_counts(normalize=True).reindex(range(len(order)), fill_value=0)
        for name, group in (("at least three risks", brave), ("fewer", ~brave))
    }
)
shares.index = list(order)

figure, axes = plt.subplots(figsize=(7.2, 4), layout="constrained")
shares.plot.bar(ax=axes, color=["#1f3a5f", "#c9a227"], rot=0)
axes.set_ylabel("share of the group")
axes.set_title("How people with many and with few risks like their steak", loc="left")
plt.show()

# %%
print(f"{int(brave.sum())} people take at least three risks, {int((~brave).sum())} fewer")
print((100 * shares).round().astype(int).to_string())
# > 236 people take at least three risks, 196 fewer
# >              at least three risks  fewer
# > Rare                            6      5
# > Medium rare                    38     39
# > Medium                         32     29
# > Medium Well                    17     18
# > Well                            8      9

# %% [markdown]
# ## What it means
#
# Not every table has groups, and it is good to be told so: these risks are taken nearly
# independently of each other, and neither do they show in how people order their steak, which is
# what FiveThirtyEight found, too. What takes most of the time with a survey, reading it, took one
# line.
#
# ## What to read next
#
# - [Tables with categories](../tables.md) lists all kinds of columns, and how to correct a plan.
# - [The holes of a survey](survey.md) fills skipped questions and checks the guesses.
# - [Who agrees with whom?](conversation.md) does this for votes in a public conversation.
