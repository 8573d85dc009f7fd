"""Coverage of 95% intervals of steps laws and noise scales: `python -m benchmarks.measured_intervals`."""

from tests.fits.interval_coverage import main

if __name__ == "__main__":
    main()
