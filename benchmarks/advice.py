"""Evidence for the advice on batch sizes and durations: `python -m benchmarks.advice [--curves | --durations | …]`.

Without arguments: what the advised setting loses over the best learning rate of the new batch size, on random problems,
beside other rules. `--durations` does the same for a run that becomes 100 times as long. `--curves` computes anew the
best learning rates that `sgdtheory.advice` carries.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

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
FACTORS = 1 / 16, 1 / 4, 4.0, 16.0
NUM_PROBLEMS = 8
SHORT, LONG = 1e4, 1e6  # D before and after a change of the duration
BETAS = {"adam": {"beta1": 0.9, "beta2": 0.95}, "momentum": {"beta1": 0.9}}
RULES = {"γ kept": 0.0, "√B": 0.5, "B": 1.0}


def algorithm(method: Any) -> st.Algorithm:
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


def method_of(name: str, beta1: float | None, beta2: float | None) -> Any:
    """The method with the memories of a setup."""
    if name == "momentum":
        return st.HeavyBall(beta1 or 0.0)
    return st.Adam(beta1 or 0.0, beta2 or 0.0) if name == "adam" else METHODS[name]


def risk(problem: st.PowerLaw, rate: float, algorithm: st.Algorithm, at: dict[str, float]) -> float:
    """Excess risk at a learning rate."""
    return float(np.asarray(st.excess_risk(problem, learning_rate=rate, algorithm=algorithm, **at).total))


def best(problem: st.PowerLaw, algorithm: st.Algorithm, at: dict[str, float]) -> tuple[float, float]:
    """Best learning rate, and the least risk."""
    found = st.optimal_learning_rate(problem, algorithm=algorithm, **at)
    return float(found.learning_rate), float(found.risk)


def rules(name: str, problem: st.PowerLaw, samples: float, batch: int, new: int, critical: float) -> dict[str, float]:
    """The risk of each rule at the new batch size over the least one, less 1."""
    betas = BETAS.get(name, {})
    kept = algorithm(method_of(name, betas.get("beta1"), betas.get("beta2")))
    rate, _ = best(problem, kept, {"batch_size": batch, "num_samples": samples})
    setup = {"batch_size": batch, "learning_rate": rate, **betas}
    blind = st.change_batch_size(setup, new_batch_size=new, optimizer=name).settings
    known = st.change_batch_size(setup | {"critical_batch_size": critical}, new_batch_size=new, optimizer=name).settings
    advised = algorithm(method_of(name, known.beta1, known.beta2))
    at = {"batch_size": new, "num_samples": samples}
    least_advised = best(problem, advised, at)[1]
    least_kept = best(problem, kept, at)[1]
    risks = {
        "advice, B* known": risk(problem, known.learning_rate, advised, at),
        "advice": risk(problem, blind.learning_rate, advised, at),
        **{rule: risk(problem, rate * (new / batch) ** power, advised, at) for rule, power in RULES.items()},
    }
    if betas:
        risks |= {"β advised, γ tuned": least_advised, "β kept, γ tuned": least_kept}
    return {rule: value / min(least_advised, least_kept) - 1 for rule, value in risks.items()}


def losses(name: str, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Return the place of both batch sizes against B*, and the loss of each rule."""
    random = np.random.default_rng(seed)
    for _ in range(NUM_PROBLEMS):
        problem = st.PowerLaw(random.uniform(1.2, 3.0), random.uniform(1.3, 4.0))
        samples = 10 ** random.uniform(4, 5.5)
        betas = BETAS.get(name, {})
        kept = algorithm(method_of(name, betas.get("beta1"), betas.get("beta2")))
        found = st.critical_batch_size(problem, num_samples=samples, algorithm=kept, curve=False)
        critical = float(found.batch_size)
        for factor in FACTORS:
            most = samples / FEWEST_STEPS / 2 / max(1, factor)
            batch = round(np.exp(random.uniform(np.log(max(1, 1 / factor)), np.log(most))))
            new = max(1, round(batch * factor))
            where = "up to B*" if max(batch, new) <= critical else "beyond B*"
            yield where, rules(name, problem, samples, batch, new, critical)


def table(name: str) -> Table:
    """Medians and 90% quantiles, where both batch sizes are at most B* and where one is not."""
    shown = Table("optimizer", "B", "settings", "rule", "median", "90%", "worst")
    found = list(losses(name, seed=len(name)))
    for where in ("up to B*", "beyond B*"):
        here = [values for place, values in found if place == where]
        for rule in here[0] if here else ():
            values = np.array([each[rule] for each in here])
            numbers = np.median(values), np.quantile(values, 0.9, method="lower"), values.max()
            shown.add_row(name, where, str(len(here)), rule, *(f"{100 * number:.3g}%" for number in numbers))
    return shown


def longer_runs() -> Table:
    """Return a table of the excess risk of the advised and of the unchanged learning rate in a longer run."""
    averaged = st.Algorithm()
    runs = [("averaged SGD", averaged, "sgd", (2.0, 3.0)), ("averaged SGD", averaged, "sgd", (1.5, 4.0))]
    runs += [("averaged SGD", averaged, "sgd", (3.0, 3.0)), ("SGD", algorithm(st.SGD()), "sgd", (2.0, 3.0))]
    runs += [("Adam", algorithm(METHODS["adam"]), "adam", exponents) for exponents in ((2.0, 1.5), (2.0, 3.0))]
    shown = Table("optimizer", "a, b", "B/B*", "exact factor of γ*", "advised", "its loss", "loss of γ kept")
    for name, trained, optimizer, exponents in runs:
        problem = st.PowerLaw(*exponents)
        found = st.critical_batch_size(problem, num_samples=SHORT, algorithm=trained, curve=False)
        for share in (0.25, 4.0):
            batch = max(1, round(share * float(found.batch_size)))
            if batch > SHORT / FEWEST_STEPS:
                continue
            rate, _ = best(problem, trained, {"batch_size": batch, "num_samples": SHORT})
            at = {"batch_size": batch, "num_samples": LONG}
            new_rate, least = best(problem, trained, at)
            setup = {"batch_size": batch, "learning_rate": rate, "num_samples": SHORT}
            setup["critical_batch_size"] = float(found.batch_size)
            advised = st.change_batch_size(setup, new_num_samples=LONG, optimizer=optimizer).settings.learning_rate
            losses_of = [risk(problem, each, trained, at) / least - 1 for each in (advised, rate)]
            numbers = [f"{new_rate / rate:.3g}", f"{advised / rate:.3g}", *(f"{100 * each:.3g}%" for each in losses_of)]
            shown.add_row(name, "{:g}, {:g}".format(*exponents), f"{share:g}", *numbers)
    return shown


def main() -> None:
    """Curves, or the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", action="store_true", help="compute the best learning rates anew")
    parser.add_argument("--optimizer", nargs="*", default=["sgd", "momentum", "sign", "adam"])
    parser.add_argument("--durations", action="store_true", help="the advice for a run that is 100 times as long")
    options = parser.parse_args()
    if options.curves:
        write_curves()
    elif options.durations:
        Console(width=120).print(longer_runs())
    else:
        for name in options.optimizer:
            Console(width=120).print(table(name))


if __name__ == "__main__":
    main()
