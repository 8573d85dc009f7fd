"""`sgdtheory plan-sweep`: what a sweep will take on this machine, and whether it will decide."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from sgdtheory._common.arguments import positive_number
from sgdtheory.cli.output import announce_models, print_json
from sgdtheory.cli.plain import plain
from sgdtheory.cli.sweep_run import STORE
from sgdtheory.sweep import Design, Plan, Scatter, pilot_scatter, plan, read_grid
from sgdtheory.training import TrainConfig


@dataclass(frozen=True, kw_only=True)
class PlanSweepCommand:
    """Train nothing: say how many runs, steps and minutes a grid asks for, and how likely it is to decide."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("grid", "store"),
        "plan": ("scatter", "target_loss", "margin"),
        "output": ("json",),
    }

    grid: Annotated[Path, tyro.conf.Positional]
    """TOML file of the sweep, as of sgdtheory sweep."""
    store: Path = STORE
    """Where it will be; runs of the same task that are there already are the pilot, and said to be."""
    scatter: float | None = None
    """Scatter of the log steps of one seed; by default that of the pilot in --store, if it has one."""
    target_loss: float | None = None
    """Of the pilot; by default its runs' own."""
    margin: float = 0.2
    """|slope| of log B* on log width below which B* counts as constant."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Time a pilot, predict the verdict, and print both."""
        configs = read_grid(self.grid)
        announce_models(configs)
        assumed, reason = _scatter(configs, self.store, self.scatter, self.target_loss)
        found = plan(configs, self.store, scatter=assumed, margin=self.margin)
        if self.json:
            print_json(_fields(found, assumed))
            return
        for line in [*_cost(found, self.store), *_verdict(found, self.margin, reason)]:
            print(plain(line, sys.stdout))


def _fields(found: Plan, assumed: Scatter | None) -> dict[str, object]:
    """The plan for JSON."""
    fields: dict[str, object] = {name: getattr(found, name) for name in ("runs", "finished", "steps", "seconds")}
    fields["scatter"] = vars(assumed) if assumed else None
    fields["verdicts"] = found.verdicts._asdict() if found.verdicts else None
    fields["enough"] = found.enough._asdict() if found.enough else None
    return fields


def _scatter(
    configs: list[TrainConfig], store: Path, scatter: float | None, target_loss: float | None
) -> tuple[Scatter | None, str]:
    """The scatter to predict with, and why there is none."""
    if scatter is not None:
        batches = [config.batch_size for config in configs]
        balance = (min(batches) * max(batches)) ** 0.5
        return Scatter(positive_number("scatter", scatter), 0.0, 0.0, balance), ""
    try:
        return pilot_scatter(store, target_loss, like=configs), ""
    except ValueError as error:
        return None, str(error)


def _cost(found: Plan, store: Path) -> list[str]:
    done = f", {found.finished} of them finished in {store}" if found.finished else ""
    minutes = f"{found.seconds / 60:.1f} min" if found.seconds >= 60 else f"{found.seconds:.0f} s"
    return [
        f"{found.runs} runs{done}; {found.steps:,} steps at most",
        f"about {minutes} on this machine if no run reaches its target early (a few kinds of runs were timed)",
    ]


def _verdict(found: Plan, margin: float, reason: str) -> list[str]:
    """Sentences on what the sweep will say if B* does not move."""
    scatter = found.scatter
    if scatter is None:
        return [f"whether it decides cannot be said without a scatter ({reason}); --scatter 0.05 assumes one"]
    if found.verdicts is None:
        return ["a verdict needs three widths and three batch sizes, or more"]
    numbers = f"{scatter.seeds:.3g} of one seed's log steps, {scatter.rest:.3g} of what seeds do not average away, "
    numbers += f"{scatter.between:.3g} of log B* between widths"
    probabilities = ", ".join(f"{name} {value:.0%}" for name, value in found.verdicts._asdict().items())
    return [
        f"scatter {scatter.source}: {numbers}; b/a = {scatter.balance:.3g}",
        f"if B* does not move, the verdict (|slope| < {margin:g}, by the law) is: {probabilities}",
        _design(found.enough),
    ]


def _design(design: Design | None) -> str:
    if design is None:
        most = "12 widths, 8 batch sizes and 8 seeds"
        return f"no sweep of up to {most} in these ranges says so four times out of five: take a wider range of widths"
    widths, batches = (", ".join(map(str, each)) for each in (design.widths, design.batch_sizes))
    return (
        f"enough for {design.power:.0%}: widths {widths}; batch sizes {batches}; {design.num_seeds} "
        f"seed{'s' * (design.num_seeds > 1)}"
    )
