"""`sgdtheory sweep --plan`: what a sweep will take on this machine, and whether it will decide."""

from pathlib import Path

from sgdtheory._common.arguments import positive_number
from sgdtheory.cli.output import print_json
from sgdtheory.sweep.planning import Plan, pilot_scatter, plan
from sgdtheory.sweep.power import Design, Scatter
from sgdtheory.training.config import TrainConfig


def print_plan(
    configs: list[TrainConfig],
    store: Path,
    *,
    scatter: float | None,
    margin: float,
    target_loss: float | None,
    as_json: bool = False,
) -> None:
    """Plan a sweep and print it, in sentences or as JSON.

    Args:
        configs: of the sweep.
        store: where it will be, or where a pilot is.
        scatter: of the log steps of one seed; None: the pilot's.
        margin: |slope| below which B* counts as constant.
        target_loss: of the pilot; None: its runs' own.
        as_json: print JSON.
    """
    assumed, reason = _scatter(configs, store, scatter, target_loss)
    found = plan(configs, store, scatter=assumed, margin=margin)
    if as_json:
        fields = {name: getattr(found, name) for name in ("runs", "finished", "steps", "seconds")}
        fields["scatter"] = vars(assumed) if assumed else None
        fields["verdicts"] = found.verdicts._asdict() if found.verdicts else None
        fields["enough"] = found.enough._asdict() if found.enough else None
        print_json(fields)
        return
    for line in [*_cost(found, store), *_verdict(found, margin, reason)]:
        print(line)


def _scatter(
    configs: list[TrainConfig], store: Path, scatter: float | None, target_loss: float | None
) -> tuple[Scatter | None, str]:
    """The scatter to predict with, and why there is none."""
    if scatter is not None:
        batches = [config.batch_size for config in configs]
        balance = (min(batches) * max(batches)) ** 0.5
        return Scatter(positive_number("scatter", scatter), 0.0, 0.0, balance), ""
    try:
        return pilot_scatter(store, target_loss), ""
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
        return ["a verdict needs two widths and three batch sizes, or more"]
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
