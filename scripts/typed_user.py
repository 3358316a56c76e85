"""A program that uses boolweave with types, which ``mypy --strict`` must accept with the wheel.

`scripts/try_wheel.py --types` checks this, and runs the program.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boolweave import (
    BooleanCompletion,
    BooleanMatrixFactorization,
    Channel,
    Observations,
    TableEncoder,
    complete,
    cover,
    factorize,
    load,
    select_rank,
)
from boolweave.baselines import compare
from boolweave.datasets import load_zoo, make_boolean
from boolweave.decoding import ParityCheckCode, bsc_llr, design_pools, group_testing
from boolweave.metrics import log_loss


def factors(seen: Observations) -> NDArray[np.uint8]:
    model = BooleanMatrixFactorization(2, noise=Channel.symmetric(0.1), random_state=0).fit(seen)
    return model.components_


def held_out_loss(seen: Observations) -> float:
    kept, rows, columns, values = seen.hide(0.1, random_state=0)
    model = BooleanCompletion(n_components=1, n_layers=1, n_members=1, random_state=0).fit(kept)
    return log_loss(values, model.predict_proba(rows, columns))


def main() -> None:
    zoo = load_zoo()
    seen: Observations = zoo.observations
    found = factorize(seen, n_components=2, max_time=1.0, random_state=0)
    cost: float | None = found.cost
    roles = cover(seen, n_components=3)
    names: list[str] = [] if seen.row_labels is None else seen.row_labels.tolist()
    print(factors(seen).shape, held_out_loss(seen), cost, roles.X.shape, len(names))

    holes = make_boolean(20, 10, 1, observed=0.8, random_state=0).observations
    filled = complete(holes, n_components=1, n_layers=1, n_members=1, random_state=0)
    table = filled.completed
    print(select_rank(seen, ranks=range(1, 3), random_state=0).best, table.shape)

    code = ParityCheckCode(np.array([[1, 1, 0], [0, 1, 1]]))
    bits: NDArray[np.uint8] = code.decode(bsc_llr(np.array([1, 0, 0]), flip=0.05)).bits
    design = design_pools(items=10, pools=5, prevalence=0.1, random_state=0)
    pooled = group_testing(design, np.zeros(5, dtype=np.uint8), prevalence=0.1)
    print(bits.tolist(), np.concatenate([pooled.items]).size)

    encoder = TableEncoder()
    encoder.fit(np.array([["a"], ["b"]], dtype=object))
    BooleanMatrixFactorization(1, random_state=0).fit(seen).save(Path("model.npz"))
    again = load("model.npz")
    print(type(again).__name__, compare.__name__)


if __name__ == "__main__":
    main()
