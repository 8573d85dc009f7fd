"""Shared code of the experiments: running them, their results, the report, sweeps of networks."""
