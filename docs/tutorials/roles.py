# %% [markdown]
# # Roles from access rights
#
# Grants of access pile up one by one over the years. A cover finds the fewest roles that explain
# them all, proves that there are no fewer, and shows which grants fit no role.
#
# ## The question
#
# In many companies nobody ever wrote down which job needs which rights. There is only a list of
# who may do what. Which roles would give everybody exactly the rights they have, with as few
# roles as possible?
#
# ## The data
#
# We invent a small company: six jobs with their rights, some rights that everybody has, sixty
# people with one or two jobs each, and a handful of grants that were made by hand and never taken
# back. The list of grants is all that the next step gets to see.

# %%
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from boolweave import Observations, cover

JOBS = {
    "everybody": ["mail", "calendar", "wiki", "timesheet"],
    "engineer": ["source", "build", "issues", "staging"],
    "operator": ["staging", "production", "logs", "pager"],
    "analyst": ["warehouse", "dashboards", "notebooks"],
    "sales": ["customers", "quotes", "dashboards"],
    "accountant": ["invoices", "ledger", "payroll"],
    "manager": ["timesheet approval", "budget", "dashboards", "hiring"],
}
rights = sorted({right for job in JOBS.values() for right in job})
jobs = [name for name in JOBS if name != "everybody"]

rng = np.random.default_rng(7)
grants = np.zeros((60, len(rights)), dtype=np.uint8)
departments = []
for person in range(60):
    own = rng.choice(jobs, size=rng.choice([1, 2], p=[0.7, 0.3]), replace=False)
    departments.append(own[0])
    for job in ["everybody", *own]:
        grants[person, [rights.index(right) for right in JOBS[job]]] = 1
by_hand = [(3, "production"), (17, "ledger"), (17, "payroll"), (28, "warehouse"), (44, "source")]
for person, right in by_hand:
    grants[person, rights.index(right)] = 1

people = [f"person {number:02d}" for number in range(60)]
table = Observations.from_dense(grants, row_labels=people, column_labels=rights)
print(table)
# > Observations(60 rows × 22 columns, 1320 of 1320 entries observed, 38.8% ones)

# %% [markdown]
# ## The fewest roles
#
# `cover` looks for the fewest roles that give every grant and nothing else. It also returns a
# lower bound that it has proven.


# %%
def show(found):
    for k, role in enumerate(found.Y, start=1):
        special = [name for name, one in zip(rights, role) if one and name not in BASIC]
        print(f"role {k:2}, {found.X[:, k - 1].sum():2} people: {', '.join(special)}")


BASIC = JOBS["everybody"]
exact = cover(table, random_state=0)
print(f"{exact.cost:.0f} roles; no cover has fewer than {exact.bound:.0f}")
show(exact)
# > 10 roles; no cover has fewer than 10
# > role  1, 17 people: build, issues, source, staging
# > role  2, 15 people: invoices, ledger, payroll
# > role  3, 16 people: customers, dashboards, quotes
# > role  4, 11 people: budget, dashboards, hiring, timesheet approval
# > role  5, 11 people: dashboards, notebooks, warehouse
# > role  6,  8 people: logs, pager, production, staging
# > role  7,  1 people: ledger, payroll
# > role  8,  1 people: production
# > role  9,  1 people: source
# > role 10,  1 people: warehouse

# %% [markdown]
# Ten roles explain all grants, and the bound says that no nine can. The first six roles are the
# six jobs of the company, although the cover has never heard of a job; each of them also has the
# four basic rights, which the list leaves out. The last four are there for the sake of a few
# grants: one person has each of them. Among all covers with ten roles, this is one with few
# assignments, so that nobody has a role whose rights the other roles give already.
#
# ## Leave the exceptions aside
#
# A role for a single odd grant helps nobody. We therefore ask for the fewest roles that explain
# 99% of the grants. The rest is a list to go through by hand.

# %%
most = cover(table, coverage=0.99, random_state=0)
print(f"{most.cost:.0f} roles explain {most.coverage:.1%} of {most.n_ones} grants")
show(most)
print("not explained:")
for person, right in most.missed:
    print(f"    {people[person]}: {rights[right]}")
# > 6 roles explain 99.0% of 512 grants
# > role  1, 17 people: build, issues, source, staging
# > role  2, 15 people: invoices, ledger, payroll
# > role  3, 16 people: customers, dashboards, quotes
# > role  4, 11 people: budget, dashboards, hiring, timesheet approval
# > role  5, 11 people: dashboards, notebooks, warehouse
# > role  6,  8 people: logs, pager, production, staging
# > not explained:
# >     person 03: production
# >     person 17: ledger
# >     person 17: payroll
# >     person 28: warehouse
# >     person 44: source

# %% [markdown]
# Now there are six roles, and they are exactly the jobs. The five grants that remain are the five
# that were made by hand. In a real company, this is the list to show to the owners of the
# systems: each line is either a mistake or a job that nobody has written down.

# %%
made = {(person, rights.index(right)) for person, right in by_hand}
print("exactly those made by hand:", made == {tuple(pair) for pair in most.missed.tolist()})
# > exactly those made by hand: True

# %% tags=["gallery"]
by_role = np.lexsort(most.X.T[::-1])[::-1]
in_roles, first_role = most.Y.sum(axis=0).astype(int), most.Y.argmax(axis=0)
by_use = np.lexsort([first_role, -in_roles])
left_over = np.zeros_like(grants)
left_over[tuple(most.missed.T)] = 1

figure, axes = plt.subplots(1, 2, figsize=(10, 6.4), layout="constrained", sharey=True)
for panel, rows, columns, title in (
    (axes[0], np.arange(60), np.arange(len(rights)), "The grants as they come"),
    (axes[1], by_role, by_use, "Sorted by role, exceptions in red"),
):
    panel.imshow(grants[np.ix_(rows, columns)], cmap="Blues", vmax=1.3, aspect="auto")
    at = np.nonzero(left_over[np.ix_(rows, columns)]) if panel is axes[1] else ([], [])
    panel.scatter(at[1], at[0], marker="s", s=40, color="#c53030")
    panel.set_xticks(range(len(rights)), np.array(rights)[columns], rotation=90)
    panel.set_yticks([])
    panel.set_title(title, loc="left")
axes[0].set_ylabel("60 people")
plt.show()

# %% [markdown]
# ## From an export, with names
#
# Systems that manage access export such a list with a line for each grant, and with what they
# know of the people. `Observations.from_long` makes a table of it, and `row_attributes` takes the
# export as it is: each role is then described by the attribute that its people share, and gets a
# name. "14 of 14" says that 14 people have this attribute, and that all of them have the role.
# The rule `min_rows=2` says that there shall be no role for one person.

# %%
export = pl.DataFrame(
    [
        (f"U{person:03d}", people[person], departments[person], rights[right])
        for person, right in np.argwhere(grants)
    ],
    schema=["UserID", "Name", "Department", "Entitlement"],
    orient="row",
)
listed = Observations.from_long(export, "UserID", "Entitlement")
named = cover(listed, min_rows=2, coverage=0.99, row_attributes=export, random_state=0)
for description in named.descriptions:
    print(description)
# > engineer: 14 of 14
# > accountant: 10 of 10
# > sales: 12 of 12
# > manager: 10 of 10
# > analyst: 9 of 9
# > operator: 5 of 5

# %% [markdown]
# The names are suggestions, to be changed by those who know the company. For a review, `changes`
# lists who would lose which right, and `review` has a line for each role: its size, what only this
# role gives, and the role that is most like it.

# %%
for line in named.changes().rows():
    print(*line)
for line in named.review().select("name", "rows", "columns", "covered_by_it_alone").rows():
    print(line)
# > U003 loses production
# > U017 loses ledger
# > U017 loses payroll
# > U028 loses warehouse
# > U044 loses source
# > ('engineer', 17, 8, 103)
# > ('accountant', 15, 7, 77)
# > ('sales', 16, 7, 74)
# > ('manager', 11, 8, 75)
# > ('analyst', 11, 7, 56)
# > ('operator', 8, 8, 47)

# %% [markdown]
# ## What it means
#
# A cover reads the structure of an organization from its grants: the roles, who has them, and
# what does not fit. Where the lower bound equals the number of roles, as in the first cover, there
# are no fewer. `cover` also works on sparse tables with thousands of users and permissions.
#
# ## What to read next
#
# - [Covers and roles](../covers.md) has the other limits and rules: false grants, sizes of roles,
#   roles that are fixed beforehand, and rights that no role may combine.
# - `boolweave cover export.csv --columns UserID,Entitlement --row-attributes export.csv` does the
#   same on the [command line](../cli.md).
