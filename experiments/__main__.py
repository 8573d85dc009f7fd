"""Run the experiments: `python -m experiments [--scale quick|full] [--only NAME] [--output results] [--list]`."""

import os
import signal
import sys

if __name__ == "__main__":  # not in the processes that an experiment starts
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # before imports that take a while
        words = b"experiments: interrupted before anything ran\n"
        signal.signal(signal.SIGINT, lambda *_: (os.write(2, words), os._exit(130)))

    from experiments._lib.interruption import take_over

    take_over()

    from experiments._lib.command import main

    sys.exit(main())
