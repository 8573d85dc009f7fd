"""Least risk over γ against the batch size on m outputs, of Muon, sign, Adam and SGD: `python -m benchmarks.muon`.

The tables are those of docs/optimizers.md. D samples, a linear decay to 0, the last iterate. SGD's risk is exact;
others are means of `--replicas` runs at the best of three grids of 8 learning rates, 1.12 apart in the end.
"""

import argparse

import numpy as np

import sgdtheory as st
from experiments._lib.several_outputs import METHODS, exact_least, runs_about_the_best


def tuned(
    problem: st.PowerLaw,
    method: st.NonlinearMethod | st.LinearMethod,
    batch: int,
    samples: int,
    outputs: int,
    replicas: int,
) -> tuple[float, float]:
    """Least mean risk over γ, and its standard error."""
    if isinstance(method, st.LinearMethod):
        return exact_least(problem, method, batch, samples).risk, 0.0
    found = runs_about_the_best(
        problem,
        method,
        batch_size=batch,
        num_samples=samples,
        outputs=outputs,
        replicas=(replicas // 4, replicas // 2, replicas),
    )
    means = found.risk.mean(1)
    best = int(np.argmin(means))
    return float(means[best]), float(found.risk[best].std(ddof=1) / np.sqrt(replicas))


def main() -> None:
    """Print two lines for each method: risks, and their standard errors in percent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024, 4096])
    parser.add_argument("--num-samples", type=int, default=8192)
    parser.add_argument("--outputs", type=int, default=24)
    parser.add_argument("--dim", type=int, default=48)
    parser.add_argument("--capacity", type=float, default=2.0)
    parser.add_argument("--source", type=float, default=2.0)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--method", nargs="+", choices=METHODS, default=[*METHODS])
    given = parser.parse_args()
    problem = st.PowerLaw(given.capacity, given.source, dim=given.dim)
    print(f"{'B':16}" + "".join(f"{batch:>8}" for batch in given.batch_size), flush=True)
    for name in given.method:
        print(f"{name:16}", end="", flush=True)
        errors = []
        for batch in given.batch_size:
            risk, error = tuned(problem, METHODS[name], batch, given.num_samples, given.outputs, given.replicas)
            errors.append(error / risk)
            print(f"{risk:8.4f}", end="", flush=True)
        print(f"\n{'':16}" + "".join(f"{error:8.1%}" for error in errors), flush=True)


if __name__ == "__main__":
    main()
