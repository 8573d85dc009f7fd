"""Which methods have a field.

The loss T does not fluctuate, and coordinates are eigenvectors. Given χ, the length of a batch's residuals in units of
√T, the gradient's coordinates are Gaussian (THEORY.md T36).
"""

from collections.abc import Callable
from typing import Any

from sgdtheory.algorithms import Adam, NonlinearMethod, SignSGD
from sgdtheory.risk.adam_field import AdamField
from sgdtheory.risk.field import Field
from sgdtheory.risk.sign_field import SignField, SignMomentumField


def _of_sign(method: SignSGD) -> Field:
    return SignMomentumField(method.momentum) if method.momentum else SignField()


def _of_adam(method: Adam) -> Field | None:
    """Steps m/√v are bounded if β₁² < β₂; without memory they are signs."""
    if method.beta1 == method.beta2 == method.epsilon == 0:
        return SignField()
    bounded = method.beta1**2 < method.beta2
    return AdamField(method.beta1, method.beta2, method.epsilon) if bounded else None


FIELDS: dict[type[NonlinearMethod], Callable[[Any], Field | None]] = {SignSGD: _of_sign, Adam: _of_adam}


def field_of(method: NonlinearMethod) -> Field | None:
    """The field of a method, if one is known."""
    known = FIELDS.get(type(method))
    return known(method) if known and method.basis == "eigenvectors" else None
