"""Registry of the methods that have a field.

The loss T does not fluctuate; coordinates are eigenvectors, or for signs and methods with a memory any. Given χ, the
length of a batch's residuals in units of √T, the gradient's coordinates are Gaussian (THEORY.md T36). To add a method,
write its field in a file of its own, and one line here.
"""

from collections.abc import Callable
from typing import Any

from sgdtheory.algorithms import Adam, Lion, NonlinearMethod, NormalizedSGD, SignSGD
from sgdtheory.risk.mean_field.adam import field_of_adam
from sgdtheory.risk.mean_field.coupled import CoupledField
from sgdtheory.risk.mean_field.coupled_methods import CoupledMemory, CoupledSigns
from sgdtheory.risk.mean_field.field import Field, MemoryField
from sgdtheory.risk.mean_field.lion import field_of_lion, field_of_signs
from sgdtheory.risk.mean_field.normalized import field_of_normalized
from sgdtheory.risk.mean_field.signs import SignField

FIELDS: dict[type[NonlinearMethod], Callable[[Any], Field | None]] = {  # A method with None is simulated only.
    SignSGD: field_of_signs,
    Lion: field_of_lion,
    Adam: field_of_adam,
    NormalizedSGD: field_of_normalized,
}


def field_of(method: NonlinearMethod) -> Field | CoupledField | None:
    """Return the field of a method in its coordinates, None if no field is known."""
    known = FIELDS.get(type(method))
    field = known(method) if known else None
    if field is None or method.basis == "eigenvectors":
        return field
    if isinstance(field, MemoryField):
        return CoupledMemory(method.basis, field)
    return CoupledSigns(method.basis) if isinstance(field, SignField) else None
