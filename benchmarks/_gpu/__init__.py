"""The parts of `python -m benchmarks.gpu`, a module each."""
