"""Registry of the methods that have a field.

The loss T does not fluctuate; coordinates are eigenvectors, or for signs and Adam any. Given χ, the length of a batch's
residuals in units of √T, the gradient's coordinates are Gaussian (THEORY.md T36).
"""

from collections.abc import Callable
from typing import Any

from sgdtheory.algorithms import Adam, NonlinearMethod, NormalizedSGD, SignSGD
from sgdtheory.risk.mean_field.adam import AdamField
from sgdtheory.risk.mean_field.coupled import CoupledField
from sgdtheory.risk.mean_field.coupled_methods import CoupledMomentum, CoupledSigns
from sgdtheory.risk.mean_field.field import Field, MomentumField
from sgdtheory.risk.mean_field.normalized import NormalizedField
from sgdtheory.risk.mean_field.signs import SignField, SignMomentumField

# β₂ up to which g/√v of Adam without β₁ and ε is a sign: with g' the gradient before, Cauchy-distributed in units of g,
# E g²/v = E 1/(1 + β₂ g'²/g²) = 1/(1 + √β₂), and so a step's square is less by 0.1% there.
LEAST_MEMORY = 1e-6


def _of_sign(method: SignSGD) -> Field:
    return SignMomentumField(method.momentum) if method.momentum else SignField()


def _of_adam(method: Adam) -> Field | None:
    """Steps m/√v are bounded if β₁² < β₂; without memory and ε they are signs."""
    if method.beta1 == method.epsilon == 0 and method.beta2 <= LEAST_MEMORY:
        return SignField()
    bounded = method.beta1**2 < method.beta2
    return AdamField(method.beta1, method.beta2, method.epsilon) if bounded else None


def _of_normalized(method: NormalizedSGD) -> Field | None:
    """Return the field of normalized SGD, None with momentum, which is simulated only."""
    return None if method.momentum else NormalizedField()


FIELDS: dict[type[NonlinearMethod], Callable[[Any], Field | None]] = {
    SignSGD: _of_sign,
    Adam: _of_adam,
    NormalizedSGD: _of_normalized,
}


def field_of(method: NonlinearMethod) -> Field | CoupledField | None:
    """The field of a method, if one is known."""
    known = FIELDS.get(type(method))
    found = known(method) if known else None
    if found is None or method.basis == "eigenvectors":
        return found
    if isinstance(found, MomentumField):
        return CoupledMomentum(method.basis, found)
    return CoupledSigns(method.basis) if isinstance(found, SignField) else None
