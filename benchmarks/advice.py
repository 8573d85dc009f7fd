"""What advice on the batch size rests on: `python -m benchmarks.advice [--curves]`.

Without arguments: what the advised setting loses over the best learning rate of the new batch size, on random problems,
beside other rules. `--curves` computes anew the best learning rates that `sgdtheory.advice` carries.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import sgdtheory as st

CURVES = Path(st.advice.__path__[0]) / "data" / "best_rates.json"
PROBLEMS = (  # capacity a, source b, samples D: below, between and above the boundaries of Corollary 8, and more data
    (1.5, 2.0, 1e4),
    (1.5, 2.0, 1e6),
    (2.0, 3.0, 1e5),
    (2.0, 1.5, 1e5),
    (1.5, 4.0, 1e5),
    (3.0, 3.0, 1e6),
)
METHODS = {"sgd": st.SGD(), "sign": st.SignSGD(), "adam": st.Adam(0.9, 0.95)}
FEWEST_STEPS = 16  # below a schedule is a handful of numbers


def algorithm(method: st.SGD | st.SignSGD | st.Adam) -> st.Algorithm:
    """A linear decay to the last iterate."""
    return st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())


def curve(name: str, capacity: float, source: float, samples: float) -> dict[str, object]:
    """Best learning rates of a method at D samples, for powers of 4 up to D/16, and B* by 20% more data."""
    problem = st.PowerLaw(capacity, source)
    batches = 4.0 ** np.arange(0, np.log(samples / FEWEST_STEPS) / np.log(4))
    setup = {"num_samples": samples, "algorithm": algorithm(METHODS[name])}
    found = st.optimal_learning_rate(problem, batch_size=batches, **setup)
    critical = st.critical_batch_size(problem, curve=False, **setup)
    return {
        "optimizer": name,
        "capacity": capacity,
        "source": source,
        "num_samples": samples,
        "critical_batch_size": float(critical.batch_size),
        "batch_sizes": batches.tolist(),
        "learning_rates": [float(f"{rate:.4g}") for rate in np.asarray(found.learning_rate)],
    }


def write_curves() -> None:
    """The file that the advice reads."""
    curves = [curve(name, *each) for name in METHODS for each in PROBLEMS]
    lines = ",\n".join(json.dumps(each) for each in curves)
    CURVES.write_text(f"[\n{lines}\n]\n")


def main() -> None:
    """Curves, or the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", action="store_true", help="compute the best learning rates anew")
    if parser.parse_args().curves:
        write_curves()


if __name__ == "__main__":
    main()
