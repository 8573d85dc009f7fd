"""`sgdtheory parametrizations`: the exponents of the width in every parametrization."""

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.training import PARAMETRIZATIONS, ROLES

HEADINGS = {
    "multiplier": "multiplier",
    "init": "initial std",
    "sgd_rate": "SGD rate",
    "adam_rate": "Adam rate",
    "muon_rate": "Muon rate",
    "adam_epsilon": "Adam ε",
}


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
