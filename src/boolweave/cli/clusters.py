"""The Dask cluster that a command runs on: found, or started and ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from boolweave.cli.output import talk

if TYPE_CHECKING:
    from boolweave.cli.options import Cluster
    from distributed import Client

# Seconds until a scheduler must have answered.
PATIENCE = 10.0


@contextmanager
def client_of(where: Cluster, quiet: bool) -> Iterator[Client | None]:
    """A Dask client, or None where no cluster is asked for; says where its dashboard is."""
    if where.scheduler is None and where.local_cluster is None:
        yield None
        return
    if where.scheduler is not None and where.local_cluster is not None:
        raise ValueError("--scheduler and --local-cluster exclude each other: give one of them")
    option = "--scheduler" if where.scheduler is not None else "--local-cluster"
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ImportError(f"{option} needs Dask: pip install 'boolweave[distributed]'") from None
    with ExitStack() as stack:
        if where.scheduler is not None:
            try:
                client = stack.enter_context(Client(where.scheduler, timeout=PATIENCE))
            except (OSError, TimeoutError, ValueError) as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                raise ValueError(
                    f"--scheduler: no answer from {where.scheduler} ({reason}); is it the address "
                    "of a running dask scheduler?"
                ) from None
            if not client.scheduler_info(n_workers=-1)["workers"]:
                raise ValueError(
                    f"--scheduler: {where.scheduler} has no workers; start some with: dask worker "
                    f"{where.scheduler}"
                )
        else:
            cluster = stack.enter_context(
                LocalCluster(n_workers=where.local_cluster, threads_per_worker=1, processes=True)
            )
            client = stack.enter_context(Client(cluster))
        talk(f"dashboard: {client.dashboard_link}", quiet)
        yield client
