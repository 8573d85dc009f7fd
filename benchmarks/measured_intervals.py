"""How often 95% intervals of steps laws and noise scales hold the truth: `python -m benchmarks.measured_intervals`."""

from tests.fits.interval_coverage import main

if __name__ == "__main__":
    main()
