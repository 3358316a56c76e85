# %% [markdown]
# # Who is ill? Pooled tests
#
# A laboratory with 96 samples, few of them positive, does not need 96 tests. With 40 tests on
# mixed samples it finds the positive ones, even though some of the tests are wrong.
#
# ## The question
#
# Suppose that about two samples in a hundred are positive. Testing each one alone wastes nearly
# all tests on negative samples. If we mix samples into pools, a pool is positive as soon as one
# of its samples is. How can we tell from the pools which samples it was?
#
# This is a Boolean product with one known factor. The known factor says which sample went into
# which pool; the unknown one says which samples are positive.
#
# ## A design
#
# `design_pools` draws a design in which every sample goes into the same number of pools.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave.decoding import design_pools, group_testing, simulate

PREVALENCE, SENSITIVITY, SPECIFICITY = 0.02, 0.95, 0.99

design = design_pools(items=96, pools=40, prevalence=PREVALENCE, random_state=0)
print("pools and samples:", design.shape)
print("pools that a sample goes into:", int(design.sum(axis=0).max()))
print("samples in a pool:", int(design.sum(axis=1).min()), "to", int(design.sum(axis=1).max()))
# > pools and samples: (40, 96)
# > pools that a sample goes into: 14
# > samples in a pool: 33 to 34

# %% [markdown]
# ## A day in the laboratory
#
# We play one day. Samples 11 and 58 are positive. A test misses a positive pool in 5% of the
# cases, and raises a false alarm on a negative one in 1%.

# %%
positive = np.zeros(96, dtype=bool)
positive[[11, 58]] = True
in_pool = (design @ positive) > 0
rng = np.random.default_rng(3)
wrong = rng.random(40) < np.where(in_pool, 1 - SENSITIVITY, 1 - SPECIFICITY)
outcomes = in_pool ^ wrong
print("pools with a positive sample:", int(in_pool.sum()))
print("pools that test positive:", int(outcomes.sum()))
print("tests that are wrong:", int(wrong.sum()))
# > pools with a positive sample: 24
# > pools that test positive: 22
# > tests that are wrong: 2

# %% [markdown]
# ## From pools to samples
#
# `group_testing` passes messages between pools and samples until every sample has a probability
# of being positive.

# %%
result = group_testing(design, outcomes, PREVALENCE, SENSITIVITY, SPECIFICITY)
print("reported as positive:", result.items.tolist())
print(f"wrong samples to expect: {float(result.expected_errors):.3f}")
for item in np.argsort(-result.probabilities)[:4]:
    print(f"sample {item}: {result.probabilities[item]:.4f}")
# > reported as positive: [11, 58]
# > wrong samples to expect: 0.000
# > sample 58: 1.0000
# > sample 11: 1.0000
# > sample 38: 0.0001
# > sample 76: 0.0001

# %% [markdown]
# Both positive samples are found, and nothing else is reported, although two of the 40 tests were
# wrong. The picture shows all probabilities, on a logarithmic scale: the next samples are far
# behind.

# %% tags=["gallery"]
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
colours = np.where(positive, "#c53030", "#1f3a5f")
axes.scatter(range(96), result.probabilities, color=colours, s=np.where(positive, 70, 16))
axes.set_yscale("log")
axes.set_ylim(top=3)
axes.set_xlabel("sample")
axes.set_ylabel("probability")
axes.set_title("Probability that a sample is positive; the positive ones in red", loc="left")
axes.grid(axis="y", alpha=0.3)
plt.show()

# %% [markdown]
# ## How many pools are enough?
#
# One lucky day proves little. `simulate` plays hundreds of days with the same design, and counts
# how often the reported set is exactly right. It also tries two simple rules, which are meant for
# tests that never err: COMP reports every sample that is in no negative pool, and DD only those
# that alone can explain a positive pool.

# %%
pools = [16, 24, 32, 40, 48]
exact = {"boolweave": [], "COMP": [], "DD": []}
for n in pools:
    trial = simulate(
        design_pools(items=96, pools=n, prevalence=PREVALENCE, random_state=0),
        PREVALENCE,
        sensitivity=SENSITIVITY,
        specificity=SPECIFICITY,
        random_state=0,
    )
    exact["boolweave"].append(trial.errors.exact)
    exact["COMP"].append(trial.baselines["COMP"].exact)
    exact["DD"].append(trial.baselines["DD"].exact)
for name, shares in exact.items():
    print(f"{name:10}", "  ".join(f"{n} pools {share:.0%}" for n, share in zip(pools, shares)))

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, shares), colour in zip(exact.items(), ("#1f3a5f", "#e69f00", "#009e73")):
    axes.plot(pools, shares, marker="o", label=name, color=colour)
axes.set_xlabel("number of pools")
axes.set_xticks(pools)
axes.yaxis.set_major_formatter("{x:.0%}")
axes.set_ylim(0, 1)
axes.set_title("Days on which exactly the positive samples are reported", loc="left")
axes.grid(axis="y", alpha=0.3)
axes.legend()
plt.show()
# > boolweave  16 pools 56%  24 pools 74%  32 pools 80%  40 pools 89%  48 pools 92%
# > COMP       16 pools 42%  24 pools 48%  32 pools 47%  40 pools 42%  48 pools 40%
# > DD         16 pools 42%  24 pools 52%  32 pools 48%  40 pools 42%  48 pools 40%

# %% [markdown]
# ## What it means
#
# With 40 pools, less than half of the 96 single tests, the answer is exactly right on 89% of the
# days, and more pools help further. The simple rules get worse from some number of pools on,
# because one wrong test is enough to mislead them, and more tests mean more wrong ones.
#
# ## What to read next
#
# - [Decoding](../decoding.md) says more about designs, dilution, prevalences that differ between
#   samples, and which samples to test again.
# - `boolweave pools 96 --prevalence 0.02 -o design.csv` draws a design on the [command
#   line](../cli.md), and `boolweave group-test` reads the outcomes.
# - [A picture through a noisy channel](parity.md) has a known factor, too, with XOR in place of
#   OR.
