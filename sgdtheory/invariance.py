"""`sgdtheory.invariance`, the name under which 0.1.0 offered what now is `size_dependence` and `paired_ratio`."""

from sgdtheory.fits import PairedRatio, SizeDependence, paired_ratio, size_dependence

__all__ = ["PairedRatio", "SizeDependence", "paired_ratio", "size_dependence"]
