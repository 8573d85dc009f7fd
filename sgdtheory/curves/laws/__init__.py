"""Laws of loss curves, one file each."""

from sgdtheory.curves.laws.law import AbstractLaw as AbstractLaw
from sgdtheory.curves.laws.law import Number as Number
from sgdtheory.curves.laws.multi_power import MultiPowerLaw as MultiPowerLaw
from sgdtheory.curves.laws.power_of_sum import PowerOfSum as PowerOfSum
from sgdtheory.curves.laws.theory import TheoryLaw as TheoryLaw
