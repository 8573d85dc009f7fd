"""How often 95% intervals of B* hold that of other laws than the theory's: `python -m benchmarks.curve_critical`."""

from tests.curves.critical_coverage import main

if __name__ == "__main__":
    main()
