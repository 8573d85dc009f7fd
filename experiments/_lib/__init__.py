"""What the experiments share: running them, their results, the report, sweeps of networks."""
