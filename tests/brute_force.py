"""The best learning rate and the critical batch size by brute force: every γ of a dense grid, every B, every n.

Risks come from the O(nd) recursion (THEORY.md T2–T4), written once more for many γ at a time, the stability edge from
bisection of (T5). Nothing is shared with the library.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy import special

DENSE = np.linspace(-34.0, 27.0, 2400)  # of log(γ/(edge − γ)): 91 a decade, from 1e-15 of the edge to 1e-12 below it
COARSE = np.linspace(-20.0, 14.0, 568)  # where minima are read off a polynomial through 7 points: to 1e-9 or so
ACCURACY = 2e-8  # relative, of `best_risks`; as a rule 1e-10
CANDIDATES = 4  # local minima that are refined


def stability_edge(eigenvalues, batch):
    """The root of `Σ γλ/(2B − (B+1)γλ) = 1` by bisection."""
    low, high = 0.0, 2 * batch / ((batch + 1) * np.max(eigenvalues))
    for _ in range(120):
        rate = (low + high) / 2
        with np.errstate(divide="ignore"):
            stable = (rate * eigenvalues / np.maximum(2 * batch - (batch + 1) * rate * eigenvalues, 0.0)).sum() < 1
        low, high = (rate, high) if stable else (low, rate)
    return low


def risks(eigenvalues, signal, noise, batch, rates, num_steps):
    """(num_steps, …) excess risk after 1 … num_steps steps for an array of γ."""
    x = np.asarray(rates)[..., None] * eigenvalues
    q, v = 1 - x, x**2 / batch
    alpha = q**2 + v
    r, c = np.broadcast_to(signal, x.shape), np.zeros_like(x)
    total, found = np.zeros(x.shape[:-1]), np.empty((num_steps, *x.shape[:-1]))
    for t in range(num_steps):
        risk = r.sum(-1)
        total = total + risk + 2 * c.sum(-1)
        found[t] = total / (t + 1) ** 2
        c = q * (c + r)
        r = alpha * r + v * (risk + noise)[..., None]
    return found


def last_risk(problem, rates, batches):
    """Excess risk of the last iterate after steps with these learning rates and batch sizes."""
    risk = problem.signal
    for rate, batch in zip(rates, batches, strict=True):
        x = rate * problem.eigenvalues
        risk = (1 - x) ** 2 * risk + x**2 / batch * (risk + risk.sum() + problem.noise_variance)
    return risk.sum()


def one_direction(signal, noise, batch, num_steps):
    """Least risk of one direction with λ = 1, and its rates: the best of each step is best for all later ones."""
    rates = []
    for _ in range(num_steps):
        shaken = (2 * signal + noise) / batch
        rates.append(signal / (signal + shaken))
        signal = signal * shaken / (signal + shaken)
    return signal, np.array(rates)


def least(function, place, values):
    """Minima of the rows of `values` (P, G) at `place` (G,), refined; `function` takes (P, M) places."""
    ends = np.full((len(values), 1), np.inf)
    inner = (values <= np.concatenate([ends, values[:, :-1]], 1)) & (values <= np.concatenate([values[:, 1:], ends], 1))
    order = np.argsort(np.where(inner, values, np.inf), axis=1)[:, :CANDIDATES]
    centre, width = place[order], np.full(order.shape, place[1] - place[0])
    best = values.min(1)
    for _ in range(5):
        trial = np.clip(centre[..., None] + width[..., None] * np.linspace(-1, 1, 13), place[0], place[-1])
        found = function(trial.reshape(len(values), -1)).reshape(trial.shape)
        centre = np.take_along_axis(trial, found.argmin(-1)[..., None], -1)[..., 0]
        width = width / 5
        best = np.minimum(best, found.min((1, 2)))
    return best


def best_risk(risk, edge, place=DENSE):
    """min over γ ∈ (0, edge] of a risk that takes arrays of γ."""
    return float(best_of_each(lambda rates: risk(rates[0])[None], np.array([edge]), place)[0])


def best_of_each(risks, edge, place):
    """(P,) min over γ ∈ (0, edge] for each of P edges, of risks that take (P, M) γ."""
    edge = edge[:, None]

    def at(places):
        return risks(edge * special.expit(places))

    return np.minimum(least(at, place, at(place[None])), risks(edge)[:, 0])


def best_risks(eigenvalues, signal, noise, batch, num_steps):
    """(num_steps,) min over γ of the risk after 1 … num_steps steps."""
    edge = stability_edge(eigenvalues, batch)
    rates = np.append(edge * special.expit(COARSE), edge)
    grid = risks(eigenvalues, signal, noise, batch, rates, num_steps)
    return np.minimum(np.exp(interpolated_minimum(np.log(grid[:, :-1]))), grid[:, -1])


def interpolated_minimum(values):
    """(N,) least values of the polynomials through 7 neighbours about the lowest local minima of each row (N, G)."""
    inside = values[:, 3:-3]
    local = (inside <= values[:, 2:-4]) & (inside <= values[:, 4:-2])
    order = 3 + np.argsort(np.where(local, inside, np.inf), axis=1)[:, :CANDIDATES]
    around = np.take_along_axis(values[:, None], order[..., None] + np.arange(-3, 4), axis=2)
    to_fine = np.vander(np.linspace(-1, 1, 201), 7) @ np.linalg.inv(np.vander(np.arange(-3.0, 4.0), 7))
    fine = around @ to_fine.T
    place = np.clip(fine.argmin(-1), 1, 199)[..., None]
    left, here, right = (np.take_along_axis(fine, place + shift, axis=2)[..., 0] for shift in (-1, 0, 1))
    bend = np.maximum(left - 2 * here + right, 1e-300)
    dip = np.where(np.abs(left - right) < 2 * bend, (left - right) ** 2 / (8 * bend), 0.0)
    return np.minimum((fine.min(-1) - dip).min(1), values.min(1))


@dataclass(frozen=True)
class Answer:
    """Critical batch size by Definition 3 (THEORY.md T12)."""

    batch_size: int
    num_steps: int
    rate_batch_size: int
    optimal_risk: float
    optimal_batch_size: int


def critical_batch_size(eigenvalues, signal, noise, num_samples, overhead, risk_factor, *, tie=3e-9):
    """B* by its definition: all whole B from 1 to D, all n. Risks within `tie` of the target reach it."""
    limit = (1 + overhead) * num_samples * (1 + 1e-12)
    risk = tuned_risks(tuple(eigenvalues), tuple(signal), noise, int(num_samples), limit)
    with_all = np.array([risk[size][int(num_samples // size) - 1] for size in risk])
    optimal = with_all.min()
    fewest = {size: np.flatnonzero(risk[size] <= optimal * (1 + tie)) for size in risk}
    critical = max((size for size in risk if fewest[size].size), default=0)
    if not critical:  # with a negative tie nothing need reach the target
        return Answer(0, 0, 0, float(optimal), int(with_all.argmin()) + 1)
    return Answer(
        batch_size=critical,
        num_steps=int(fewest[critical][0]) + 1,
        rate_batch_size=int(np.flatnonzero(with_all <= risk_factor * optimal * (1 + tie))[-1]) + 1,
        optimal_risk=float(optimal),
        optimal_batch_size=int(with_all.argmin()) + 1,
    )


@functools.lru_cache(maxsize=1)  # one problem is asked about at several ties
def tuned_risks(eigenvalues, signal, noise, most, limit):
    """min over γ for B from 1 to `most`: the risks after 1 step, and more up to a number of samples, of each."""
    spectrum = np.array(eigenvalues), np.array(signal)
    return {size: best_risks(*spectrum, noise, size, max(1, int(limit // size))) for size in range(1, most + 1)}
