"""`sgdtheory parametrizations`: the exponents of the width in every parametrization."""

from dataclasses import dataclass
from typing import ClassVar

from rich.table import Table

from sgdtheory.cli.output import print_json, print_tables, print_text
from sgdtheory.training import PARAMETRIZATIONS, ROLES


@dataclass(frozen=True, kw_only=True)
class ParametrizationsCommand:
    """Print how initial weights, learning rates and Adam's ε scale with the width in every parametrization."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {"output": ("json",)}

    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print the table."""
        exponents = {
            name: {role: vars(each.role(role)) for role in ROLES} | {"attention": each.attention}
            for name, each in PARAMETRIZATIONS.items()
        }
        if self.json:
            print_json(exponents)
            return
        table = Table(title="exponents of r = width / base width; all factors are 1 at the base width")
        for header in (
            "parametrization",
            "role",
            "multiplier",
            "initial std",
            "SGD rate",
            "Adam rate",
            "Muon rate",
            "Adam ε",
        ):
            table.add_column(header, justify="left" if header in ("parametrization", "role") else "right")
        for name, each in PARAMETRIZATIONS.items():
            for role in ROLES:
                table.add_row(name, role, *(f"{value:g}" for value in vars(each.role(role)).values()))
        print_tables(table)
        scales = ", ".join(f"{name} d_head^{each.attention:g}" for name, each in PARAMETRIZATIONS.items())
        print_text("sign: at Adam's rate; muon: orthogonalized steps of hidden weights, Adam's of the others")
        print_text(f"attention logits: {scales} (1/√d_head at the base width)")
