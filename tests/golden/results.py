"""Recorded results of a setting: risks, the limit of stability and a path, or γ*, B*, R_opt and n."""

import warnings

import numpy as np

import sgdtheory as st
from sgdtheory.risk import Risk
from tests.golden.settings import algorithm_of, problem_of

PATH_POINTS = 7
CRITICAL = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "optimal_learning_rate"


def risk_results(record: dict) -> dict:
    """Return what is computed of a setting of `random_risk`: numbers, or the error of a setting that is refused."""
    problem = problem_of(record["problem"])
    algorithm = algorithm_of(record["algorithm"])
    setting = {name: record[name] for name in ("batch_size", "learning_rate", "num_samples")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            risk = st.excess_risk(problem, **setting, algorithm=algorithm)
        except ValueError as error:
            return {"refused": str(error)}
        found = _risk("", risk)
        replacement = record["problem"].get("samples", {}).get("replacement", True)
        if algorithm.linear and algorithm.steady and replacement:  # others have no limit of stability
            limit = st.max_stable_learning_rate(problem, batch_size=record["batch_size"], algorithm=algorithm)
            found["max_stable_learning_rate"] = float(limit)
        if record["path"]:
            path = st.risk_path(problem, **setting, algorithm=algorithm, points=PATH_POINTS)
            found["path_steps"] = path.num_steps.tolist()
            for name, each in (("iterate", path.iterate), ("average", path.average)):
                found |= _risk(f"path_{name}_", each)
    return found


def critical_results(record: dict) -> dict:
    """Return what is computed of a setting of `random_critical`."""
    problem = problem_of(record["problem"])
    algorithm = algorithm_of(record["algorithm"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = st.critical_batch_size(problem, num_samples=record["num_samples"], algorithm=algorithm, curve=False)
        except ValueError as error:
            return {"refused": str(error)}
        return {name: float(getattr(found, name)) for name in CRITICAL}


def _risk(prefix: str, risk: Risk) -> dict:
    """Return bias, variance and stated error as lists or numbers."""
    names = "bias", "variance", "relative_error"
    return {prefix + name: np.asarray(getattr(risk, name), dtype=float).tolist() for name in names}
