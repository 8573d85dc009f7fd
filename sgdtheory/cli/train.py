"""`sgdtheory train`: one network to a target loss, with its progress, checkpoints and a figure."""

from pathlib import Path

from sgdtheory.cli.distributed import DistributedFlags
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.network import NetworkFlags
from sgdtheory.cli.output import announce_model
from sgdtheory.cli.training_run import trained
from sgdtheory.training import CHECKPOINT_SECONDS


def train(
    network: NetworkFlags,
    processes: DistributedFlags,
    directory: Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Drawn | None:
    """Train a network to --target-loss or through --max-steps; print its curve, steps to the target and throughput.

    With --directory the run is kept there and survives being killed; sgdtheory resume goes on with it.

    Args:
        directory: Keep config, checkpoints, curve and result here; a run that is here goes on.
        checkpoint_seconds: Time between checkpoints.
    """
    from sgdtheory.training import train

    config = network.config
    entry_point = config.value("entry_point")
    announce_model(entry_point)
    return trained(
        lambda report: train(config, directory, checkpoint_seconds=checkpoint_seconds, progress=report),
        processes,
        directory,
        entry_point,
    )
