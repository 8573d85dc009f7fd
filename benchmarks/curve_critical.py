"""Coverage of 95% intervals of B* on laws other than the theory's: `python -m benchmarks.curve_critical`."""

from tests.curves.critical_coverage import main

if __name__ == "__main__":
    main()
