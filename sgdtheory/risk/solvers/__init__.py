"""Solvers of systems: single steps, one contour integral, and panels of collocation."""
