"""Random settings whose results are kept in `risks.jsonl.gz` and `critical.jsonl.gz`, as plain data."""

import numpy as np

import sgdtheory as st
from sgdtheory.algorithms import algorithm_settings, make_algorithm

NONLINEAR = ["sign", "signum", "adam", "normalized", "rotated"]
SHARES = {  # of the settings of risks, by family
    "sgd": 0.34,
    "heavy-ball": 0.1,
    "nesterov": 0.06,
    "accelerated": 0.05,
    "schedule-free": 0.07,
    "decay": 0.06,
    "delayed": 0.08,
    "local": 0.08,
    "sign": 0.05,
    "signum": 0.02,
    "adam": 0.05,
    "normalized": 0.03,
    "rotated": 0.01,
}
CRITICAL_SHARES = SHARES | {"sgd": 0.42, "rotated": 0.0, "sign": 0.04, "signum": 0.01, "adam": 0.03, "normalized": 0.02}
SCHEDULES = [
    "constant",
    "constant warmup=0.1",
    "linear",
    "linear final=0.1 warmup=0.05",
    "cosine",
    "cosine warmup=0.1",
    "wsd",
    "wsd decay=0.1",
    "power exponent=1",
    "stages stages=0:1,0.5:0.3",
]
AVERAGES = ["uniform", "tail", "tail tail-fraction=0.7", "exponential average-window=0.1", "last", "last"]


def problem_of(record: dict) -> st.AbstractProblem:
    """Return the problem that a record describes."""
    found = dict(record)
    kind, samples, power = found.pop("kind"), found.pop("samples", None), found.pop("preconditioned", None)
    problem = (st.PowerLaw if kind == "power_law" else st.LeastSquares)(**found)
    if power:
        problem = problem.preconditioned(power=power)
    return problem.with_samples(**samples) if samples else problem


def algorithm_of(text: str) -> st.Algorithm:
    """Return the algorithm that a text describes."""
    return make_algorithm(algorithm_settings(text))


def random_risk(rng: np.random.Generator) -> dict:
    """Return a random problem, algorithm and setting; B, γ and n cover several orders of magnitude."""
    family = str(rng.choice(list(SHARES), p=list(SHARES.values())))
    problem = _problem(rng, most=30 if family == "rotated" else 80, infinite=family not in NONLINEAR)
    text, most_steps = _algorithm(rng, family)
    if family in ("sgd", "decay", "heavy-ball") and "power_law" not in problem["kind"] and rng.random() < 0.25:
        most_steps = 3.5
        problem["samples"] = {
            "num_samples": int(10 ** rng.uniform(1, 3)),
            "seed": [None, 3][int(rng.integers(2))],
            # Reshuffled epochs are accepted of SGD with constant steps alone.
            "replacement": text not in ("uniform", "last") or bool(rng.random() < 0.5),
        }
    batch = int(10 ** rng.uniform(0, 4))
    steps = int(10 ** rng.uniform(0, most_steps))
    samples = problem.get("samples")
    if samples:
        batch = min(batch, max(1, samples["num_samples"] // 2))
    workers = getattr(algorithm_of(text).method, "num_workers", 1)
    return {
        "family": family,
        "problem": problem,
        "algorithm": text,
        "batch_size": batch,
        "learning_rate": _rate(rng, problem, text, family, batch, steps),
        "num_samples": float(batch) * steps * workers,
        "path": bool(rng.random() < 0.3) and most_steps < 9,
    }


def random_critical(rng: np.random.Generator) -> dict:
    """Return a random problem, algorithm and data size."""
    shares = np.array(list(CRITICAL_SHARES.values()))
    family = str(rng.choice(list(CRITICAL_SHARES), p=shares / shares.sum()))
    problem = _problem(rng, most=40, infinite=family not in NONLINEAR)
    text, _ = _algorithm(rng, family)
    return {
        "family": family,
        "problem": problem,
        "algorithm": text,
        "num_samples": float(int(10 ** rng.uniform(1.5, 3.5 if family in NONLINEAR else 6))),
    }


def _problem(rng: np.random.Generator, most: int, infinite: bool) -> dict:
    """Return a power law, or a list of directions: a power law, few of them, a gap, or all alike."""
    noises = [0.0, _short(10 ** rng.uniform(-4, -1)), _short(10 ** rng.uniform(-1, 1))]
    noise = noises[int(rng.integers(10) > 0) + int(rng.random() < 0.7)]  # often much, seldom none
    kind = rng.choice(["infinite", "power", "few", "gap", "flat"], p=[0.35, 0.25, 0.2, 0.12, 0.08])
    if kind == "infinite" and infinite:
        dim = None if rng.random() < 0.7 else int(10 ** rng.uniform(1, 6))
        return {
            "kind": "power_law",
            "capacity": _short(rng.uniform(1.05, 3)),
            "source": _short(rng.uniform(1.1, 6)),
            "dim": dim,
            "noise_variance": noise,
        }
    d = int(rng.integers(1, 7)) if kind == "few" else int(10 ** rng.uniform(0, np.log10(most)))
    i = np.arange(1.0, d + 1)
    if kind == "few":
        eigenvalues, signal = 10 ** rng.uniform(-4, 0, d), 10 ** rng.uniform(-4, 0, d)
    elif kind == "gap":
        eigenvalues, signal = np.where(i <= d / 2, 1.0, 10 ** rng.uniform(-6, -2)), 10 ** rng.uniform(-2, 0, d)
    elif kind == "flat":
        eigenvalues, signal = np.ones(d), np.full(d, 1 / d)
    else:
        eigenvalues, signal = i ** -rng.uniform(0.6, 3.0), i ** -rng.uniform(0.5, 5.0)
    found = {
        "kind": "list",
        "eigenvalues": [_short(each) for each in eigenvalues * 10 ** rng.choice([0.0, 0.0, 0.0, -2.0, 2.0])],
        "signal": [_short(each) for each in signal],
        "noise_variance": noise,
    }
    if infinite and rng.random() < 0.04:
        found["preconditioned"] = 0.5
    return found


def _algorithm(rng: np.random.Generator, family: str) -> tuple[str, float]:
    """Return the text of an algorithm, and log₁₀ of the largest number of steps that it is asked about."""
    momentum = rng.choice([0.5, 0.9, 0.95, 0.99])
    method = {
        "sgd": "",
        "heavy-ball": f"heavy-ball momentum={momentum}",
        "nesterov": f"nesterov momentum={momentum}",
        "accelerated": f"accelerated coupling=0.9 forgetting=0.1 long-step={_short(rng.uniform(1, 8))}",
        "schedule-free": f"schedule-free interpolation={rng.choice([0.5, 0.9, 0.98])}",
        "decay": f"weight-decay={_short(10 ** rng.uniform(-5, -2))}",
        "delayed": f"delayed delay={rng.choice([1, 2, 3, 8])}",
        "local": f"local num-workers={rng.choice([2, 4, 7])} local-steps={rng.choice([1, 2, 5, 16])}"
        + rng.choice(["", " outer-learning-rate=0.7 outer-momentum=0.6", " outer-momentum=0.9"]),
        "sign": "sign",
        "signum": f"sign momentum={momentum}",
        "adam": f"adam beta1={rng.choice([0.0, 0.9])} beta2={rng.choice([0.95, 0.99, 0.999])}",
        "normalized": "normalized",
        "rotated": rng.choice(["sign basis=random", "adam beta1=0.9 beta2=0.99 basis=random"]),
    }[family]
    constant = rng.random() < (0.35 if family not in NONLINEAR else 0.2) or family == "schedule-free"
    schedule = "" if constant else str(rng.choice(SCHEDULES))
    average = str(rng.choice(AVERAGES))
    ramped = rng.random() < 0.05 and family not in ("local", "delayed")
    ramp = "batch-schedule=linear batch-final=3.0" if ramped else ""
    text = " ".join(f"{method} {schedule} {average} {ramp}".split())
    if family == "rotated":
        return text, 2.2
    if family in NONLINEAR:
        return text, 4.0
    if ramp or family in ("schedule-free", "local", "delayed"):
        return text, 4.5
    return text, 12.0 if constant else 8.0


def _rate(rng: np.random.Generator, problem: dict, text: str, family: str, batch: int, steps: int) -> float:
    """Return a learning rate: of the limit of stability, small, next to it or beyond; of nonlinear methods by n."""
    fresh = {name: value for name, value in problem.items() if name != "samples"}
    made = problem_of(fresh)
    if family in NONLINEAR:
        typical = np.sqrt(made.initial_risk / made.trace) * 10 ** rng.uniform(-0.7, 1.0)
        return _short(typical / steps ** rng.uniform(0.4, 1.0))
    method = algorithm_of(text).method
    constant = st.Algorithm(st.SGD() if family == "schedule-free" else method)
    limit = float(st.max_stable_learning_rate(made, batch_size=batch, algorithm=constant))
    share = [10 ** rng.uniform(-6, 0), rng.uniform(0.1, 0.9), rng.uniform(0.9, 0.999), rng.uniform(1.0, 1.3)][
        int(rng.choice(4, p=[0.35, 0.45, 0.12, 0.08]))
    ]
    return _short(limit * share)


def _short(value: float) -> float:
    """Return a number of four significant digits, so that a record reads as it was run."""
    return float(f"{value:.4g}")
