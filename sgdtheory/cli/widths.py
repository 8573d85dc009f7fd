"""`sgdtheory coordcheck` and `parametrizations`: what the width does to activations, and the exponents behind it."""

import sys

from sgdtheory import training
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.network import NetworkFlags
from sgdtheory.cli.output import announce_models
from sgdtheory.training import PARAMETRIZATIONS, ROLES, TOLERANCE

HEADINGS = {
    "multiplier": "multiplier",
    "init": "initial std",
    "sgd_rate": "SGD rate",
    "adam_rate": "Adam rate",
    "muon_rate": "Muon rate",
    "adam_epsilon": "Adam ε",
}


def coordcheck(
    network: NetworkFlags,
    widths: tuple[int, ...] = (64, 128, 256, 512),
    steps: tuple[int, ...] = (1, 3, 10, 30),
    seeds: int = 8,
    tolerance: float = TOLERANCE,
    zero_output: bool = True,
) -> Drawn:
    """Train networks of several widths for a few steps; print how the change of each layer's activations scales.

    The exit status is 1 if a slope is outside the tolerance.

    Args:
        widths: Widths; the smallest is the base width.
        steps: Steps after which to look.
        seeds: Number of initial weights for each width.
        tolerance: Largest slope that passes.
        zero_output: Train from output weights of 0, to which the initial output tends under µP.
    """
    config = network.config
    announce_models([config.value("entry_point")])
    found = training.coordinate_check(
        config, widths=widths, steps=steps, seeds=seeds, tolerance=tolerance, zero_output=zero_output
    )
    return Drawn(found.sheet(), lambda: sys.exit(0 if found.passes else 1), found.plot)


def parametrizations() -> Sheet:
    """Print how initial weights, learning rates and Adam's ε scale with the width in every parametrization."""
    rows = [(name, role, each.role(role)) for name, each in PARAMETRIZATIONS.items() for role in ROLES]
    quantities = [
        Quantity("", "parametrization", [name for name, _, _ in rows]),
        Quantity("", "role", [role for _, role, _ in rows]),
    ]
    for key, heading in HEADINGS.items():
        quantities.append(Quantity("", heading, [getattr(exponents, key) for _, _, exponents in rows]))
    scales = ", ".join(f"{name} d_head^{each.attention:g}" for name, each in PARAMETRIZATIONS.items())
    legend = (
        "sign: at Adam's rate; muon: orthogonalized steps of hidden weights, Adam's of the others\n"
        f"attention logits: {scales} (1/√d_head at the base width)"
    )
    exponents = {
        name: {role: vars(each.role(role)) for role in ROLES} | {"attention": each.attention}
        for name, each in PARAMETRIZATIONS.items()
    }
    title = "exponents of r = width / base width; all factors are 1 at the base width"
    return Sheet(title, [Table(quantities, legend=legend)], settings=exponents)
