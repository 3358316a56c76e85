# %% [markdown]
# # The same fit on a cluster
#
# When a table is too large for one machine, a Dask cluster can do the work. This page runs a
# small one on your own machine, and shows that its answer is the same, bit for bit.
#
# ## The question
#
# A fit keeps messages for each observed entry and each factor. For billions of entries they do
# not fit into one machine. Does the answer change if several machines share the work?
#
# ## The data
#
# We plant four factors, show one entry in five, and flip a tenth of what is shown.

# %%
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import make_boolean
from boolweave.distributed import DaskBooleanMatrixFactorization

planted = make_boolean(1200, 800, 4, flip=0.1, observed=0.2, random_state=0)
seen = planted.observations
print(seen)
# > Observations(1200 rows × 800 columns, 192000 of 960000 entries observed, 50.7% ones)

# %% [markdown]
# ## On one machine

# %%
alone = BooleanMatrixFactorization(n_components=4, random_state=0).fit(seen)
wrong = alone.inverse_transform(alone.row_factors_) != planted.Z
print(f"entries that differ from what was planted: {wrong.mean():.2%}")
# > entries that differ from what was planted: 0.00%

# %% [markdown]
# ## On a cluster
#
# This cluster has two workers, which live in this process. For a real one, replace the two lines
# by `Client("tcp://scheduler:8786")`, with the address of your scheduler. The table is handed
# over as a Dask array in four blocks of rows, as it would come from files.

# %%
cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)
blocks = da.from_array(seen.to_dense().astype(np.float32), chunks=(300, -1))
together = DaskBooleanMatrixFactorization(n_components=4, random_state=0, client=client)
together.fit(blocks)
client.close()
cluster.close()

print("same components: ", np.array_equal(alone.components_, together.components_))
print("same log-odds:   ", np.array_equal(alone.row_log_odds_, together.row_log_odds_))
print("same iterations: ", alone.n_iter_ == together.n_iter_)
# > same components:  True
# > same log-odds:    True
# > same iterations:  True

# %% [markdown]
# The answers are the same down to the last bit. Each worker keeps the messages of its rows, and
# in each iteration the workers add up what their rows say about the columns. These sums are sums
# of whole numbers, which do not depend on the order in which they are taken.
#
# The picture shows what the workers got to see, what they found and what was planted, with rows
# and columns sorted by the planted factors.

# %% tags=["gallery"]
rows = np.lexsort(planted.X.T)
columns = np.lexsort(planted.Y)
found = together.inverse_transform(together.row_factors_)
panels = {"Seen": seen.to_dense(), "Found by the cluster": found, "Planted": planted.Z}
figure, axes = plt.subplots(1, 3, figsize=(10, 4.2), layout="constrained")
for panel, (title, matrix) in zip(axes, panels.items()):
    panel.imshow(
        matrix[np.ix_(rows, columns)], cmap="Blues", aspect="auto", interpolation="nearest"
    )
    panel.set_title(title, loc="left")
    panel.set_xticks([])
    panel.set_yticks([])
plt.show()

# %% [markdown]
# ## What it means
#
# A cluster changes the time and the memory that a fit takes, and nothing else. What you try on
# your own machine gives the same factors there. For a table as small as this one, a cluster is
# usually slower than a single machine, since messages between workers take time.
#
# ## What to read next
#
# - [Long runs and clusters](../scale.md) has checkpoints, lost workers, and how long a fit takes.
# - [Filling holes](../completion.md#on-a-cluster) runs a completion on a cluster.
