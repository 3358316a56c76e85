"""Each public call once, on tables that take no time: to compile what users call, and to time it.

    python scripts/public_calls.py NAME        the first and the second call in a process
    python scripts/public_calls.py --compile   the kernels of all calls, into the package

The first form prints JSON: seconds until the first answer, imports included, seconds of the
processor for it, and seconds of the second call. The second form is for `scripts/build_dist.py`: it
writes into the folder of the package that it imports. Calls that come first in the list are those
that are timed; the others are more ways to call the same functions, with other kernels.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

BEGAN = time.perf_counter()

Call = Callable[[], Any]


def timed_calls() -> dict[str, Call]:
    """The calls with a time limit, by name."""
    import numpy as np

    holes, table = holey(), planted()
    pools = np.kron(np.eye(4, dtype=np.uint8), np.ones((1, 3), dtype=np.uint8))

    def factorize() -> Any:
        import boolweave

        return boolweave.factorize(table, 3, random_state=0)

    def complete() -> Any:
        import boolweave

        return boolweave.complete(holes, random_state=0).completed

    def fit() -> Any:
        import boolweave

        return boolweave.BooleanMatrixFactorization(3, random_state=0).fit(holes)

    def sparse_fit() -> Any:
        import scipy.sparse

        import boolweave

        ones = scipy.sparse.csr_array(table)
        model = boolweave.BooleanMatrixFactorization(3, zeros="collective", random_state=0)
        return model.fit(ones)

    def cover() -> Any:
        import boolweave

        return boolweave.cover(table, random_state=0)

    def group_testing() -> Any:
        from boolweave.decoding import group_testing

        return group_testing(pools, [1, 0, 0, 1], prevalence=0.1, sensitivity=0.95)

    def decode() -> Any:
        from boolweave.decoding import ParityCheckCode

        checks = [[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]]
        return ParityCheckCode(checks).decode(np.array([-1.0, 2, 2, 2, 2, 2, 2]))

    calls = (factorize, complete, fit, sparse_fit, cover, group_testing, decode)
    return {call.__name__: call for call in calls}


def planted() -> Any:
    """A table (40, 24) of three factors and a few wrong entries."""
    import numpy as np

    random = np.random.default_rng(0)
    factors = (random.random((40, 3)) < 0.4, random.random((3, 24)) < 0.4)
    table = (factors[0].astype(int) @ factors[1].astype(int) > 0) ^ (random.random((40, 24)) < 0.02)
    return table.astype(np.uint8)


def holey() -> Any:
    """The same with a fifth of the entries missing."""
    import numpy as np

    table = planted()
    return np.where(np.random.default_rng(1).random(table.shape) < 0.2, np.nan, table)


def other_calls() -> Iterator[Call]:
    """More ways to call the same functions: products, methods, numbers, weights, new rows."""
    import numpy as np
    import scipy.sparse

    import boolweave
    from boolweave import baselines
    from boolweave.decoding import (
        ParityCheckCode,
        bsc_llr,
        design_pools,
        group_testing,
        infer_factor,
        simulate,
    )

    table, holes = planted(), holey()
    ones, weights = scipy.sparse.csr_array(table), np.linspace(0.5, 2.0, len(table))

    def model(**parameters: Any) -> Any:
        given: dict[str, Any] = {"n_components": 3, "random_state": 0, **parameters}
        return boolweave.BooleanMatrixFactorization(**given)

    def used(fitted: Any, rows: Any) -> None:
        """Everything that a fitted model answers."""
        fitted.transform(rows)
        fitted.predict(rows)
        fitted.predict_proba(rows)
        fitted.score(rows)
        many = np.arange(4000)
        fitted.predict_proba(many % 40, many % 24)
        fitted.recommend(np.arange(40), n=3)
        fitted.explain(0, 0)

    def used_baseline(method: Any) -> None:
        method.fit(holes)
        method.predict_proba(np.arange(24), np.arange(24))

    for data in (table, holes):
        yield lambda data=data: boolweave.factorize(data, random_state=0, max_time=2)
        yield lambda data=data: boolweave.factorize(data, 3, random_state=0, false_one_weight=3)
        yield lambda data=data: boolweave.factorize(data, 3, sample_weight=weights, random_state=0)
        yield lambda data=data: boolweave.factorize(data, 3, product="xor", random_state=0)
        for product in ("or", "xor"):
            for method in ("auto", "max-sum", "sum-product"):
                for messages in ("uint8", "float32"):
                    given = {"product": product, "method": method, "messages": messages}
                    yield lambda data=data, given=given: used(model(**given).fit(data), data)
        yield lambda data=data: model(method="paper").fit(data)
        yield lambda data=data: model(noise=boolweave.Channel(0.1, 0.8)).fit(data)
        yield lambda data=data: model(decimation=0.5).fit(data)
        yield lambda data=data: used(model(objective="errors").fit(data), data)
        yield lambda data=data: model(n_components="auto").fit(data)
        yield lambda data=data: boolweave.select_rank(data, range(1, 4), random_state=0)
        yield lambda data=data: boolweave.cover(data, objective="assignments", random_state=0)
    yield lambda: boolweave.select_rank(holes, range(1, 3), "heldout", random_state=0)
    yield lambda: used(model(zeros="collective").fit(ones), ones)
    yield lambda: model(zeros="collective", method="max-sum").fit(ones)
    yield lambda: model(zeros="collective", messages="float32").fit(ones)
    yield lambda: model(absent="missing").fit(ones)
    completion = boolweave.BooleanCompletion
    few = {"n_members": 2, "random_state": 0}
    yield lambda: used(completion(**few).fit(holes), holes)
    yield lambda: used(completion(n_layers=1, n_directions=2, **few).fit(holes), holes)
    yield lambda: completion(n_layers=0, n_directions=2, **few).fit(holes, sample_weight=weights)
    rated = np.where(np.isnan(holes), np.nan, 1.0 + np.arange(24) % 2 + 3 * holes)
    yield lambda: completion(n_layers=1, **few).fit(holes, ratings=rated)
    yield lambda: completion(**few).fit(holes, row_features=weights[:, None])
    for given in (
        {"coverage": 0.9}, {"false_ones": 3}, {"n_components": 2}, {"closed": True},
        {"max_rows": 5, "min_columns": 2}, {"max_roles_per_row": 2}, {"fixed": table[:2]},
        {"conflicts": [[0, 1]]}, {"row_attributes": {"team": [str(i % 3) for i in range(40)]}},
    ):  # fmt: skip
        yield lambda given=given: boolweave.cover(ones, random_state=0, **given)
    design = design_pools(items=40, pools=20, prevalence=0.05, random_state=0)
    outcomes = design[:, [3, 9]].toarray().max(axis=1)
    for prevalence in (0.05, "learn"):
        yield lambda prevalence=prevalence: group_testing(design, outcomes, prevalence)
        yield lambda prevalence=prevalence: group_testing(design, outcomes, prevalence, 0.9, 0.95)
    yield lambda: simulate(design, 0.05, 0.9, 0.95, trials=20, random_state=0)
    random = np.random.default_rng(0)
    code = ParityCheckCode((random.random((30, 60)) < 0.08).astype(np.uint8))
    for words in (1, 3, 40):
        received = bsc_llr((random.random((words, 60)) < 0.05).astype(np.uint8), 0.05)
        for method in ("sum-product", "max-sum"):
            for schedule in ("flooding", "serial"):
                yield lambda r=received, m=method, s=schedule: code.decode(r, method=m, schedule=s)
    for product in ("or", "xor"):
        for method in ("sum-product", "max-sum"):
            given = {"product": product, "method": method}
            yield lambda given=given: infer_factor(table[:, :3], table, **given)
    for loss in ("logistic", "hinge", "quadratic", "ordinal"):
        yield lambda loss=loss: used_baseline(baselines.GLRM(2, loss=loss, random_state=0))
    for name in ("Asso", "GreConD", "OneBitCompletion", "BiasModel", "Majority"):
        yield lambda name=name: used_baseline(getattr(baselines, name)())


def compile_all() -> None:
    """Make all calls; what they compile goes into the package."""
    from boolweave.engine.kernels import jit

    jit.baseline = jit.Baseline.begin(jit.PACKAGE / "compiled")
    warnings.simplefilter("ignore")
    for call in (*timed_calls().values(), *other_calls()):
        call()


def main() -> None:
    if sys.argv[1:] == ["--compile"]:
        compile_all()
        return
    (name,) = sys.argv[1:]
    call = timed_calls()[name]
    warnings.simplefilter("ignore")
    call()
    first, processor = time.perf_counter() - BEGAN, time.process_time()
    call()
    seconds = {
        "first": first,
        "processor": processor,
        "second": time.perf_counter() - BEGAN - first,
        "processor_of_second": time.process_time() - processor,
    }
    print(json.dumps({"call": name, **{key: round(value, 3) for key, value in seconds.items()}}))


if __name__ == "__main__":
    main()
