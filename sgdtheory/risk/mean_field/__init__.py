"""Deterministic equivalents of methods that are not linear: signs, Adam, normalized SGD."""
