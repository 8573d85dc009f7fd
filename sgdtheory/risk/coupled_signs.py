"""signSGD in coordinates that are not the eigenvectors (THEORY.md T37)."""

from dataclasses import dataclass

from sgdtheory.algorithms import Basis
from sgdtheory.risk.coupled import CoupledReaction
from sgdtheory.risk.sign_covariance import Reaction, Seen, signs

ERROR = 0.02  # relative, where no coordinate leads to and fro, as measured by benchmarks/equivalents.py


@dataclass(frozen=True)
class CoupledSigns(CoupledReaction):
    """`w ← w − γ sign(g)`."""

    basis: Basis

    def error(self, steps: float, batch: float) -> float:
        """As measured."""
        return ERROR

    def react(self, seen: Seen, batch: float) -> Reaction:
        """Signs do not tell the size of gradients."""
        return signs(seen, batch)
