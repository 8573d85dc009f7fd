"""Run the experiments: `python -m experiments [--scale quick|full] [--only NAME] [--output results] [--list]`."""

import os
import signal
import sys

if __name__ == "__main__":  # not in the processes that an experiment starts
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # before imports that take a while
        words = b"experiments: interrupted before anything ran\n"
        signal.signal(signal.SIGINT, lambda *_: (os.write(2, words), os._exit(130)))

    if "full" not in sys.argv:  # small matrices: on a busy machine threads wait for each other, many times too long
        os.environ.setdefault("OMP_NUM_THREADS", "1")

    from experiments._lib.interruption import take_over

    take_over()

    from experiments._lib.command import main
    from sgdtheory.cli.ctrl_c import ignore_for_good

    status = main()
    ignore_for_good()  # what has been printed is true, and the exit status says the same
    sys.exit(status)
