"""Run the experiments: `python -m experiments [--scale quick|full] [--only NAME] [--output results]`."""

import sys

from experiments.interruption import take_over

if __name__ == "__main__":  # not in the processes that an experiment starts
    take_over()  # before the imports that take a second
    from experiments.command import main

    sys.exit(main())
