"""Least risk over γ against the batch size on m outputs, of Muon, sign, Adam and SGD: `python -m benchmarks.muon`.

The tables are those of docs/optimizers.md. D samples, a linear decay to 0, the last iterate. SGD's risk is exact;
others are means of `--replicas` runs at the best of three grids of 8 learning rates, 1.12 apart in the end.
"""

import argparse

import jax
import numpy as np

import sgdtheory as st

METHODS = {
    "SGD": st.SGD(),
    "sign": st.SignSGD(),
    "sign, rotated": st.SignSGD(basis="random"),
    "Muon": st.Muon(0.0),
    "Muon, β = 0.9": st.Muon(0.9),
    "Muon, published": st.Muon(0.95, nesterov=True, newton_schulz=5),
    "Adam": st.Adam(0.9, 0.99),
    "Adam, rotated": st.Adam(0.9, 0.99, basis="random"),
}
GRIDS = 4.0 ** np.arange(-4, 4), 16.0 ** (np.arange(-3.5, 4) / 7), 2.2 ** (np.arange(-3.5, 4) / 7)


def tuned(
    problem: st.PowerLaw,
    method: st.NonlinearMethod | st.LinearMethod,
    batch: int,
    samples: int,
    outputs: int,
    replicas: int,
) -> tuple[float, float]:
    """Least mean risk over γ, and its standard error."""
    algorithm = st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())
    setting = {"batch_size": batch, "num_samples": samples, "algorithm": algorithm}
    if isinstance(method, st.LinearMethod):
        return float(st.optimal_learning_rate(problem, **setting).risk), 0.0  # whatever m
    rate = first_rate(problem, method, samples // batch, outputs)
    for grid, runs in zip(GRIDS, (replicas // 4, replicas // 2, replicas), strict=True):
        options = {"outputs": outputs, "learning_rate": rate * grid, "num_replicas": runs}
        found = st.simulate(jax.random.key(0), problem, **setting, **options)
        means = np.asarray(found.mean)
        best = int(np.argmin(means))
        rate *= grid[best]
    return float(means[best]), float(np.asarray(found.standard_error)[best])


def first_rate(problem: st.PowerLaw, method: st.NonlinearMethod, steps: int, outputs: int) -> float:
    """What leads from the start to the optimum in the steps there are."""
    travelled = 2.0 / steps / np.sqrt(outputs)
    return travelled * np.sqrt(problem.dim or 1) if isinstance(method, st.Muon) else travelled


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
