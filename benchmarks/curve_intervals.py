"""Coverage of 95% intervals of `fit_loss_curves`: `python -m benchmarks.curve_intervals`."""

from tests.curves.interval_coverage import main

if __name__ == "__main__":
    main()
