"""Coverage of bands for held-out losses of laws that are not the theory's: `python -m benchmarks.curve_heldout`."""

from tests.curves.heldout_coverage import main

if __name__ == "__main__":
    main()
