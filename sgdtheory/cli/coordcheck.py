"""`sgdtheory coordcheck`: do activations keep their size as the width grows?"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from sgdtheory.cli.network import NetworkCommand
from sgdtheory.cli.output import (
    announce_model,
    interval_text,
    print_json,
    print_tables,
    print_text,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.training import TOLERANCE


@dataclass(frozen=True, kw_only=True)
class CoordcheckCommand(NetworkCommand):
    """Train networks of several widths for a few steps; print how the change of each layer's activations scales.

    The exit status is 1 if a slope is outside the tolerance.
    """

    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Widths; the smallest is the base width."""
    steps: tuple[int, ...] = (1, 3, 10, 30)
    """Steps after which to look."""
    seeds: int = 8
    """Number of initial weights for each width."""
    tolerance: float = TOLERANCE
    """Largest slope that passes."""
    zero_output: bool = True
    """Train from output weights of 0, to which the initial output tends under µP."""

    def run(self) -> None:
        """Check and print."""
        require_figure_suffix(self.plot)
        from sgdtheory.training import coordinate_check

        config = self.config
        announce_model(config.value("entry_point"))
        check = coordinate_check(
            config,
            widths=self.widths,
            steps=self.steps,
            seeds=self.seeds,
            tolerance=self.tolerance,
            zero_output=self.zero_output,
        )
        if self.plot:
            from sgdtheory import plotting  # matplotlib is slow to import

            write_figure(plotting.coordinates(check), self.plot)
        (self._print_json if self.json else self._print)(check)
        if not check.passes:
            sys.exit(1)

    def _print_json(self, check: Any) -> None:
        from sgdtheory.training import QUANTITIES

        slopes = {
            quantity: {
                layer: {"slope": slope, "interval": [low, high]}
                for layer, slope, low, high in zip(check.layers, *check.slopes(quantity), strict=True)
            }
            for quantity in QUANTITIES
        }
        head = {"passes": check.passes, "widths": check.widths, "steps": check.steps}
        print_json(head | {"slopes": slopes, "failures": [failure._asdict() for failure in check.failures()]})

    def _print(self, check: Any) -> None:
        from sgdtheory.training import QUANTITIES

        failed = {failure[:2]: failure for failure in check.failures()}
        outside = sum(each.certain for each in failed.values())
        widths = ", ".join(f"{width}" for width in check.widths)
        kinds = ", ".join(check.config.value(name) for name in ("parametrization", "model", "optimizer"))
        title = f"{kinds}: slopes of log activation on log width ({widths})"
        table = Table(title=title)
        for header in ("layer", *QUANTITIES):
            table.add_column(header, justify="left" if header == "layer" else "right")
        slopes = {quantity: np.array(check.slopes(quantity)).T for quantity in QUANTITIES}
        for row, layer in enumerate(check.layers):
            cells = []
            for quantity in QUANTITIES:
                if (quantity, layer) in check.without_effect:
                    cells.append("no effect")
                    continue
                failure = failed.get((quantity, layer))
                slope, low, high = failure[2:5] if failure else slopes[quantity][row]
                when = f" at step {failure.step}" if failure and failure.step else ""
                text = f"{slope:+.2f} ({interval_text((low, high))}){when}"
                cells.append(f"[red]{text}[/]" if failure else text)
            table.add_row(layer, *cells)
        print_tables(table)
        if check.config.network.whole:
            print_text("all of these are of the outputs; own: what the change of this tensor alone makes of them")
        verdict = "passes" if check.passes else f"fails: {len(failed)} slopes are not within ±{check.tolerance:g}"
        print_text(f"coordinate check {verdict} ({100 * check.level:g}% intervals over {self.seeds} seeds)")
        if failed and not outside:
            print_text("none of them is outside for certain: take more seeds or a lower learning rate")
