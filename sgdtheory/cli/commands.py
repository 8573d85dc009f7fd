"""The commands by subject: where each is defined, what it does in a line, and an example of it.

A new command is one line here and one module beside this one. A flag that has become a command of its own is a line of
`MOVED`, so that its old spelling is refused with the new one; one that a command cannot have may say why in `REFUSED`.
"""

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A command.

    Attributes:
        place: module of `sgdtheory.cli` and dataclass in it.
        summary: what it does, in at most 60 characters.
        example: that works as it stands, without `sgdtheory`.
    """

    place: str
    summary: str
    example: str


POWER_LAW = "--capacity 2 --source 3"
BRIEF = "more"  # of these the overview has names alone
GROUPS: dict[str, dict[str, Entry]] = {
    "theory of a power law": {
        "risk": Entry(
            "risk.RiskCommand",
            "exact risk, beside Theorem 7's bound",
            f"risk {POWER_LAW} --batch-size 32 --learning-rate 0.5 --num-samples 1e6",
        ),
        "schedule": Entry(
            "schedule.ScheduleCommand",
            "best learning rates and batch sizes, and what others lose",
            f"schedule {POWER_LAW} --num-samples 1e5 --batch-size 64",
        ),
        "simulate": Entry(
            "simulate.SimulateCommand",
            "simulated risk, beside the exact one",
            f"simulate {POWER_LAW} --batch-size 16 --learning-rate 0.2 --num-samples 1e3 1e4",
        ),
        "cbs": Entry(
            "cbs.CbsCommand",
            "critical batch size, beside Corollary 8",
            f"cbs {POWER_LAW} --num-samples 1e4 1e6 1e8",
        ),
        "explore": Entry(
            "explore.ExploreCommand",
            "all of this on a page with sliders",
            "explore --port 5006",
        ),
    },
    "your data and measurements": {
        "features": Entry(
            "features.FeaturesCommand",
            "spectrum, exponents and critical batch size of features",
            "features X.npy y.npy --plot spectrum.png",
        ),
        "fit": Entry(
            "fit.FitCommand",
            "critical batch size from steps to a target, or logs",
            "fit steps.csv --batch-size bs --steps steps --group model --size params",
        ),
        "fit-grid": Entry(
            "fit_grid.FitGridCommand",
            "critical batch size from a grid of losses, or logs",
            "fit-grid grid.csv --batch-size bs --samples tokens --plot grid.png",
        ),
        "plan": Entry(
            "plan.PlanCommand",
            "batch size, time and cost of a run, and a batch ramp",
            "plan steps.csv --throughput 12 --micro-batch 8 --price 2.5 --deadline 72h",
        ),
        "fit-curves": Entry(
            "fit_curves.FitCurvesCommand",
            "predictions and critical batch size from loss curves",
            "fit-curves run1.csv run2.csv --learning-rate lr --plot curves.png",
        ),
        "forecast": Entry(
            "forecast.ForecastCommand",
            "final loss of a run under way, from its log",
            "forecast log.csv --num-steps 24000 --schedule 'cosine final=0.1' --follow",
        ),
        "advise": Entry(
            "advise.AdviseCommand",
            "what to change when the batch size changes, and why",
            "advise --batch-size 64 --new-batch-size 256 --learning-rate 3e-4 --beta2 0.95 --weight-decay 0.1",
        ),
    },
    "networks and sweeps of them": {
        "train": Entry(
            "train.TrainCommand",
            "train a network to a target loss",
            "train --preset bytes --target-loss 2.0 --directory runs/bytes",
        ),
        "sweep": Entry(
            "sweep.SweepCommand",
            "train a grid of networks into a store of runs",
            "sweep sweep.toml --store runs --csv table.csv",
        ),
    },
    BRIEF: {
        "path": Entry(
            "path.PathCommand",
            "exact loss curves of several algorithms",
            f"path {POWER_LAW} --batch-size 32 --learning-rate 0.5 --num-samples 1e6 --algorithm 'cosine last'",
        ),
        "bounds": Entry(
            "bounds.BoundsCommand",
            "published bounds, beside the exact risk",
            f"bounds {POWER_LAW} --dim 50 --batch-size 1 --learning-rate 0.1 --num-samples 1e5",
        ),
        "noise-scale": Entry(
            "noise_scale.NoiseScaleCommand",
            "gradient noise scale from gradient norms in a log",
            "noise-scale log.csv --small-batch 8 --large-batch 256",
        ),
        "resume": Entry(
            "resume.ResumeCommand",
            "go on with a run, to more steps or a lower target",
            "resume runs/bytes --target-loss 1.8",
        ),
        "coordcheck": Entry(
            "coordcheck.CoordcheckCommand",
            "do activations keep their size as the width grows?",
            "coordcheck --widths 64 128 256 512 --plot coordinates.png",
        ),
        "parametrizations": Entry(
            "parametrizations.ParametrizationsCommand",
            "exponents of the width: standard, mup and ntk",
            "parametrizations --json",
        ),
        "plan-sweep": Entry(
            "plan_sweep.PlanSweepCommand",
            "what a sweep will take, and whether it will decide",
            "plan-sweep sweep.toml --scatter 0.05",
        ),
        "show-sweep": Entry(
            "show_sweep.ShowSweepCommand",
            "what a store of runs holds",
            "show-sweep runs --where width=32,64 --csv table.csv",
        ),
        "fit-sweep": Entry(
            "fit_sweep.FitSweepCommand",
            "critical batch size from a store of runs, and what moves it",
            "fit-sweep runs --plot critical.png",
        ),
        "extend-sweep": Entry(
            "extend_sweep.ExtendSweepCommand",
            "add to a store the runs that its fit lacks",
            "extend-sweep runs --target-loss 0.03",
        ),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
MOVED: dict[str, dict[str, str]] = {  # command → flag of 0.1.0 → what to write now
    "fit": {"--store": "fit-sweep STORE"},
    "train": {"--resume": "resume DIRECTORY"},
    "coordcheck": {"--table": "parametrizations"},
    "sweep": {"--plan": "plan-sweep GRID", "--status": "show-sweep STORE", "--extend": "extend-sweep STORE"},
}
OF_SGD = {"--method": "it goes by the theory of SGD alone; sgdtheory risk, cbs and simulate take other methods"}
UNCLIPPED = {"--clip-norm": "no risk of clipped gradients is known in theory; sgdtheory simulate takes it"}
REFUSED: dict[str, dict[str, str]] = {  # command → flag of others → why it has none
    "features": OF_SGD,
    "fit-curves": OF_SGD,
    "forecast": OF_SGD,
    "risk": UNCLIPPED,
    "cbs": UNCLIPPED,
}


def command_class(name: str) -> Any:
    """The dataclass of a command, imported now."""
    module, kind = COMMANDS[name].place.split(".")
    return getattr(importlib.import_module(f"sgdtheory.cli.{module}"), kind)
