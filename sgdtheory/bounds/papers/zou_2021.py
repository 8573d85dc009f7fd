"""Zou et al. 2021: averaged SGD in any number of directions, by its effective dimension."""

from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, TailAverage
from sgdtheory.bounds.published import Asked, PublishedBound, Statement, nowhere

SOURCE = "Zou, Wu, Braverman, Gu & Kakade, COLT 2021, JMLR 24(326) 2023 (arXiv 2103.12692)"
LEAST_STEPS = 500  # The lower bound holds from this many steps on.
KURTOSIS = 3.0  # Gaussian data have E[xxᵀAxxᵀ] ≼ α tr(HA) H with this α.


def _alpha(asked: Asked) -> Any:
    """α as published with B = 1; of batches, whose own part the proof drops, 2/B."""
    return np.where(asked.batch == 1, KURTOSIS, 2 / asked.batch)


class _Effective(NamedTuple):
    """Terms of both theorems: with `k* = max{k : λ_k ≥ 1/(nγ)}`, heads up to k* and tails beyond.

    Attributes:
        bias: `EffBias = Σ_{i≤k*} s_i/λ_i²/(nγ)² + Σ_{i>k*} s_i`.
        seen: `Σ_{i≤k*} s_i/(λ_i nγ) + Σ_{i>k*} s_i`, what the start adds to the noise.
        learnt: `K = k*/n + nγ² Σ_{i>k*} λ_i²`.
    """

    bias: Any
    seen: Any
    learnt: Any


def _effective(asked: Asked) -> _Effective:
    spectrum = asked.spectrum
    time = asked.steps * asked.rate
    count = spectrum.count_above(1 / time)
    tail = spectrum.tail_signal(count)
    return _Effective(
        bias=spectrum.head_signal(count, 2) / time**2 + tail,
        seen=spectrum.head_signal(count, 1) / time + tail,
        learnt=count / asked.steps + asked.steps * asked.rate**2 * spectrum.tail_squares(count),
    )


def _upper(asked: Asked) -> Statement:
    """`E L(w̄) − L* ≤ 2 EffBias + 2 EffVar`, `EffVar = [2α seen + σ²/B] K/(1 − γα tr H)`."""
    bias, seen, learnt = _effective(asked)
    rest = 1 - asked.rate * _alpha(asked) * asked.trace
    driven = 2 * _alpha(asked) * seen + asked.noise / asked.batch
    conditions = {
        "γ < 1/(α tr H)": rest > 0,
        "γ < 1/‖H‖": asked.rate * asked.largest < 1,
    }
    return Statement(4 * (bias + driven / rest * learnt), conditions)


def _lower(asked: Asked) -> Statement:
    """`E L(w̄) − L* ≥ EffBias/100 + [β seen/1000 + σ²/(50 B)] K`, β = 1/B."""
    bias, seen, learnt = _effective(asked)
    driven = seen / asked.batch / 1000 + asked.noise / asked.batch / 50
    conditions = {
        "γ < 1/‖H‖": asked.rate * asked.largest < 1,
        "500 steps or more": asked.steps >= LEAST_STEPS,
    }
    return Statement(2 * (bias / 100 + driven * learnt), conditions)


zou_2021 = PublishedBound(
    name="zou_2021",
    side="upper",
    source=f"{SOURCE}, Theorem 2.1",
    read="both parts and their proof as a text quotes them in full; their sum 2 … + 2 … is not verified against it",
    about="E L(w̄) − L(w*), L half of the mean square error, w̄ the mean of w_0 … w_{n−1}",
    batches="B = 1; by the same proof with α = 2/B and σ²/B, γ < 1/‖H‖ besides",
    statement=_upper,
)
zou_2021_lower = PublishedBound(
    name="zou_2021_lower",
    side="lower",
    source=f"{SOURCE}, Theorem 2.2",
    read="not verified against the paper",
    about="E L(w̄) − L(w*), L half of the mean square error, w̄ the mean of w_0 … w_{n−1}",
    batches="B = 1; here with β = 1/B and σ²/B",
    statement=_lower,
    standing="unverified",
)


def _tail(asked: Asked) -> Statement:
    """Theorem 5.1, the mean of w_s … w_{s+N−1}: `δ → (1 − γλ)^s δ` in the bias, and `λ_k† ≥ 1/(γ(s + N))` besides."""
    if asked.spectrum.dim is None:
        return nowhere(asked, "finitely many directions (of others its sums are not listed here)")
    eigenvalues, signal = asked.spectrum.directions()
    kept = np.ceil(asked.steps / 2)[..., None]
    total = asked.steps[..., None]
    rate = asked.rate[..., None]
    alpha = _alpha(asked)[..., None]
    left = signal * (1 - rate * eigenvalues) ** (2 * (total - kept))
    head = eigenvalues >= 1 / (rate * kept)
    wide = eigenvalues >= 1 / (rate * total)
    safe = np.where(eigenvalues > 0, eigenvalues, 1.0)
    bias = np.sum(np.where(head, left / (rate * kept * safe) ** 2, left), axis=-1)
    seen = np.sum(np.where(wide, signal / safe, total * rate * signal), axis=-1) / (kept * rate)[..., 0]
    between = np.where(wide, kept, total) * rate**2 * eigenvalues**2
    learnt = np.sum(np.where(head, 1 / kept, between), axis=-1)
    rest = 1 - asked.rate * _alpha(asked) * asked.trace
    variance = (4 * alpha[..., 0] * seen + asked.noise / asked.batch) / rest * learnt
    conditions = {
        "γ < 1/(α tr H)": rest > 0,
        "γ < 1/‖H‖": asked.rate * asked.largest < 1,
    }
    return Statement(4 * (bias + variance), conditions)


zou_2021_tail = PublishedBound(
    name="zou_2021_tail",
    side="upper",
    source=f"{SOURCE}, Theorem 5.1",
    read="not verified against the paper",
    about="E L(w̄) − L(w*), L half of the mean square error, w̄ the mean of the last half of the iterates",
    batches="B = 1; here with α = 2/B and σ²/B, as of Theorem 2.1",
    statement=_tail,
    algorithm=Algorithm(average=TailAverage(0.5)),
    standing="unverified",
)
