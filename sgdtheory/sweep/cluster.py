"""Executors on several machines, by dask.distributed."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor

from sgdtheory._common.arguments import whole_number

TIMEOUT = "30s"


@contextlib.contextmanager
def cluster_executor(address: str, jobs: int = 1) -> Iterator[Executor]:
    """Open an executor on the workers of a cluster, for `sweep`; the store must be on a file system that all share.

    >>> from sgdtheory.sweep import cluster_executor, read_grid, sweep
    >>> with cluster_executor("slurm", jobs=8) as executor:  # doctest: +SKIP
    ...     table = sweep(read_grid("sweep.toml"), "runs", executor=executor)

    If a worker is lost, another one resumes its unit of runs from the checkpoints.

    Args:
        address: HOST:PORT of a dask scheduler, or "slurm" for workers that are started as SLURM jobs, configured by
            dask's own jobqueue.slurm (cores, memory, queue, …).
        jobs: number of SLURM jobs.

    Raises:
        ValueError: if the `[cluster]` extra is not installed, there is no scheduler, or SLURM is not configured.
        OSError: if the workers of one unit were lost four times, or the scheduler was lost.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise ValueError("cluster needs dask: pip install 'distributed>=2024.1' (extra [cluster])") from None
    with contextlib.ExitStack() as stack:
        jobs = whole_number("jobs", jobs, 1)
        scheduler = stack.enter_context(_slurm(jobs)) if address == "slurm" else address
        try:
            client = stack.enter_context(Client(scheduler, timeout=TIMEOUT))
        except (OSError, ValueError) as error:
            raise ValueError(f"cluster must be a running dask scheduler's HOST:PORT, got {address}: {error}") from None
        with client.get_executor(retries=3, pure=False) as executor:
            try:
                yield executor
            except (KilledWorker, CancelledError):
                raise OSError(
                    "workers of the cluster died again and again, or its scheduler did; finished runs stay, run the "
                    "sweep again to go on"
                ) from None


def _slurm(jobs: int):
    """Start a cluster of SLURM jobs."""
    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        raise ValueError("cluster slurm needs dask: pip install 'dask-jobqueue>=0.9' (extra [cluster])") from None
    try:
        cluster = SLURMCluster()
        cluster.scale(jobs=jobs)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"cluster slurm could not be started ({reason}): set jobqueue.slurm in dask's configuration"
        ) from None
    return cluster
