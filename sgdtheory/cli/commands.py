"""The commands by subject: what each does in a line, an example of it, and its main flags.

A new command is one entry here and one function of its name in a module beside this one. A flag that has become a
command of its own is a line of `MOVED`, so that its old spelling is refused with the new one; one that a command cannot
have may say why in `REFUSED`.
"""

import importlib
from typing import NamedTuple

from sgdtheory.cli.function_command import Command, command_of


class Entry(NamedTuple):
    """A command."""

    summary: str  # what it does, in at most 60 characters
    example: str  # that works as it stands, without `sgdtheory`
    main: str = ""  # names of the flags that `--help` shows, those that most users need; empty: all of them
    module: str = ""  # of `sgdtheory.cli`, which has the function; empty: the module is called as the command


BRIEF = "more"  # The overview shows only the names of the commands in this group.
POWER_LAW = "--capacity 2 --source 3"
GROUPS: dict[str, dict[str, Entry]] = {
    "theory of a power law": {
        "risk": Entry(
            "exact risk, beside Theorem 7's bound",
            f"risk {POWER_LAW} --batch-size 32 --learning-rate 0.5 --num-samples 1e6",
            main="capacity source batch_size learning_rate num_samples noise_variance method schedule average json",
        ),
        "path": Entry(
            "exact loss curves of several algorithms",
            f"path {POWER_LAW} --batch-size 32 --learning-rate 0.5 --num-samples 1e6 --algorithm 'cosine last'",
            main="capacity source batch_size learning_rate num_samples algorithm noise_variance plot json",
        ),
        "bounds": Entry(
            "published bounds, beside the exact risk",
            f"bounds {POWER_LAW} --dim 50 --batch-size 1 --learning-rate 0.1 --num-samples 1e5",
            module="risk",
            main="capacity source dim batch_size learning_rate num_samples noise_variance plot json",
        ),
        "schedule": Entry(
            "best learning rates and batch sizes, and what others lose",
            f"schedule {POWER_LAW} --num-samples 1e5 --batch-size 64",
            main="capacity source num_samples batch_size num_steps dim noise_variance method plot json",
        ),
        "simulate": Entry(
            "simulated risk, beside the exact one",
            f"simulate {POWER_LAW} --batch-size 16 --learning-rate 0.2 --num-samples 1e3 1e4",
            main="capacity source batch_size learning_rate num_samples num_replicas method schedule average seed json",
        ),
        "cbs": Entry(
            "critical batch size, beside Corollary 8",
            f"cbs {POWER_LAW} --num-samples 1e4 1e6 1e8",
            main="capacity source num_samples noise_variance overhead method schedule average plot json",
        ),
        "explore": Entry(
            "all of this on a page with sliders",
            "explore --port 5006",
        ),
    },
    "your data and measurements": {
        "features": Entry(
            "spectrum, exponents and critical batch size of features",
            "features X.npy y.npy --plot spectrum.png",
            main="features targets num_samples overhead simulate write level plot json",
        ),
        "fit": Entry(
            "critical batch size from steps to a target, or logs",
            "fit steps.csv --batch-size bs --steps steps --group model --size params",
            main="files batch_size steps group target_loss data reference overhead steps_csv plot json",
        ),
        "fit-grid": Entry(
            "critical batch size from a grid of losses, or logs",
            "fit-grid grid.csv --batch-size bs --samples tokens --plot grid.png",
            main="files batch_size samples learning_rate loss group target reference overhead plot json",
            module="grids",
        ),
        "fit-rates": Entry(
            "best learning rate by batch size and duration, and B*",
            "fit-rates grid.csv --batch-size bs --samples tokens --learning-rate lr --plot rates.png",
            main="files batch_size samples learning_rate loss group rates_alone level plot json",
            module="grids",
        ),
        "fit-law": Entry(
            "loss by model size, data and batch size, and B*",
            "fit-law grid.csv --size params --samples tokens --learning-rate lr --compute 1e21 --plot law.png",
            main="files batch_size samples learning_rate loss size parameters num_samples compute level plot json",
            module="grids",
        ),
        "plan": Entry(
            "batch size, time and cost of a run, and a batch ramp",
            "plan steps.csv --throughput 12 --micro-batch 8 --price 2.5 --deadline 72h",
            main="files target target_loss throughput devices micro_batch price deadline schedule trainer json",
        ),
        "fit-curves": Entry(
            "predictions and critical batch size from loss curves",
            "fit-curves run1.csv run2.csv --learning-rate lr --optimizer adam --plot curves.png",
            main="logs batch_size learning_rate optimizer warmup hold_out num_samples overhead preview plot json",
        ),
        "forecast": Entry(
            "final loss of a run under way, from its log",
            "forecast log.csv --num-steps 24000 --schedule 'cosine final=0.1' --optimizer adam --follow",
            main="log num_steps schedule optimizer learning_rate batch_size preview follow level plot json",
        ),
        "advise": Entry(
            "what to change with the batch size or the length of a run",
            "advise --batch-size 64 --new-batch-size 256 --learning-rate 3e-4 --beta2 0.95 --weight-decay 0.1",
            main="files new_batch_size new_num_samples batch_size num_samples learning_rate optimizer beta2 "
            "weight_decay warmup target_loss json",
        ),
    },
    "networks and sweeps of them": {
        "train": Entry(
            "train a network to a target loss",
            "train --preset bytes --target-loss 2.0 --directory runs/bytes",
            main="preset directory model width optimizer learning_rate batch_size max_steps target_loss schedule json",
        ),
        "sweep": Entry(
            "train a grid of networks into a store of runs",
            "sweep sweep.toml --store runs --csv table.csv",
        ),
    },
    BRIEF: {
        "noise-scale": Entry(
            "gradient noise scale from gradient norms in a log",
            "noise-scale log.csv --small-batch 8 --large-batch 256",
        ),
        "tutorials": Entry(
            "write the notebooks and the files that the guides use",
            "tutorials --write tutorials",
        ),
        "resume": Entry(
            "go on with a run, to more steps or a lower target",
            "resume runs/bytes --target-loss 1.8",
            module="train",
        ),
        "coordcheck": Entry(
            "do activations keep their size as the width grows?",
            "coordcheck --widths 64 128 256 512 --plot coordinates.png",
            main="preset widths steps seeds tolerance model optimizer learning_rate parametrization plot json",
            module="widths",
        ),
        "parametrizations": Entry(
            "exponents of the width: standard, mup and ntk",
            "parametrizations --json",
            module="widths",
        ),
        "plan-sweep": Entry(
            "what a sweep will take, and whether it will decide",
            "plan-sweep sweep.toml --scatter 0.05",
            module="sweep",
        ),
        "show-sweep": Entry(
            "what a store of runs holds",
            "show-sweep runs --where width=32,64 --csv table.csv",
            module="sweep",
        ),
        "fit-sweep": Entry(
            "critical batch size from a store of runs, and what moves it",
            "fit-sweep runs --plot critical.png",
            main="store target_loss by where reference overhead level steps_csv plot json",
            module="sweep",
        ),
        "extend-sweep": Entry(
            "add to a store the runs that its fit lacks",
            "extend-sweep runs --target-loss 0.03",
            module="sweep",
        ),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
MOVED: dict[str, dict[str, str]] = {  # An error says what to write in place of a command's flag of 0.1.0.
    "fit": {"--store": "fit-sweep STORE"},
    "train": {"--resume": "resume DIRECTORY"},
    "coordcheck": {"--table": "parametrizations"},
    "sweep": {"--plan": "plan-sweep GRID", "--status": "show-sweep STORE", "--extend": "extend-sweep STORE"},
}
OF_SGD = {"--method": "it goes by the theory of SGD alone; sgdtheory risk, cbs and simulate take other methods"}
UNCLIPPED = {"--clip-norm": "no risk of clipped gradients is known in theory; sgdtheory simulate takes it"}
REFUSED: dict[str, dict[str, str]] = {  # An error says why a command lacks a flag that others have.
    "features": OF_SGD,
    "fit-curves": OF_SGD,
    "forecast": OF_SGD,
    "risk": UNCLIPPED,
    "cbs": UNCLIPPED,
}


def command_named(name: str) -> Command:
    """Return a command, which imports the module of its function."""
    function = name.replace("-", "_")
    module = importlib.import_module(f"sgdtheory.cli.{COMMANDS[name].module or function}")
    return command_of(getattr(module, function))
