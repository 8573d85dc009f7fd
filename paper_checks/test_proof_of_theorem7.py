"""Theorem 7 and the steps of its proof (Appendix J)."""

import numpy as np
import pytest

import sgdtheory as st
from experiments import theorem7 as experiment
from sgdtheory.risk import risk_by_recursion

# Largest of 12 correlated normals beyond 5.1: probability below 12 · 3.4e-7 < 1e-5.
Z_LIMIT = 5.1


def random_covariance(rng, d=3):
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return (basis * 10.0 ** rng.uniform(-1, 0, d)) @ basis.T


def isserlis(h, s):
    """E[x xᵀ S x xᵀ] for x ~ N(0, H) by the sum over pairings of E[x_i x_k x_l x_j]."""
    pairings = np.einsum("ik,lj->iklj", h, h) + np.einsum("il,kj->iklj", h, h) + np.einsum("ij,kl->iklj", h, h)
    return np.einsum("iklj,kl->ij", pairings, s)


def test_fourth_moment_closed_form(record):
    """Proof, Cov(x xᵀ A^½) = 2 tr(HA) H for Gaussian x (theory T1, closed form)."""
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(200):
        h, root = random_covariance(rng), rng.standard_normal((3, 3))
        s = root @ root.T
        exact = isserlis(h, s) - h @ s @ h
        np.testing.assert_allclose(exact, h @ s @ h + np.trace(h @ s) * h, rtol=1e-12, atol=1e-12)
        gap = 2 * np.trace(h @ s) * h - exact
        assert np.linalg.eigvalsh(gap).min() > -1e-10  # an upper bound for S ⪰ 0
        excess.append(np.trace(2 * np.trace(h @ s) * h) / np.trace(exact))
    record(
        "2 tr(HA) H",
        f"HAH + tr(HA) H; the paper's is an upper bound, {min(excess):.2f} to {max(excess):.2f} times the trace "
        "(d = 3); equal in one dimension",
        "imprecise in the paper",
    )
    assert max(excess) > 1.2


def test_fourth_moment_by_sampling(record):
    """Proof, the same for a batch, E[G A G] − HAH = (2/B) tr(HA) H (theory T1, by sampling)."""
    rng = np.random.default_rng(1)
    h, batch, num = random_covariance(rng), 2, 200_000
    s = np.diag([1.0, 0.2, 0.0])
    x = rng.standard_normal((num, batch, 3)) @ np.linalg.cholesky(h).T
    g = np.einsum("nbi,nbj->nij", x, x) / batch
    samples = np.einsum("nij,jk,nkl->nil", g, s, g) - h @ s @ h
    mean, error = samples.mean(0), samples.std(0) / np.sqrt(num)
    right = np.abs(mean - (h @ s @ h + np.trace(h @ s) * h) / batch) / error
    wrong = np.abs(mean - 2 * np.trace(h @ s) * h / batch) / error
    record(
        "2 tr(HA) H / B",
        f"[HAH + tr(HA) H]/B within {right.max():.1f} standard errors (limit {Z_LIMIT}); the paper's is off by "
        f"{wrong.max():.0f}",
        "imprecise in the paper",
    )
    assert right.max() < Z_LIMIT
    assert wrong.max() > 2 * Z_LIMIT


def propagate(h, start, noise, rate, batch, steps, *, paper=False):
    """[M_t for t < steps]: dense second moments with the pairings of Isserlis, or by the paper's recursion."""
    moments, m = [], start
    for _ in range(steps):
        moments.append(m)
        between = 2 * np.trace(h @ m) * h if paper else isserlis(h, m) - h @ m @ h
        m = m - rate * (h @ m + m @ h) + rate**2 * (h @ m @ h + between / batch + noise / batch * h)
    return moments


@pytest.mark.parametrize("part", ["bias", "variance"])
def test_proof_recursions(record, part):
    """Proof, the recursions of the bias and the variance iterate, against full covariance propagation."""
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(20):
        h, batch, steps = random_covariance(rng), int(rng.integers(1, 6)), 60
        rate = rng.uniform(0.05, 0.5) * min(batch / np.trace(h), 1 / np.linalg.eigvalsh(h).max())
        error = rng.standard_normal(3) * (part == "bias")
        noise = float(part == "variance")
        exact = propagate(h, np.outer(error, error), noise, rate, batch, steps)
        paper = propagate(h, np.outer(error, error), noise, rate, batch, steps, paper=True)
        eigenvalues, basis = np.linalg.eigh(h)
        signal = eigenvalues * (basis.T @ error) ** 2
        bias, variance = risk_by_recursion(
            eigenvalues, signal, noise, batch_size=batch, learning_rate=rate, num_steps=steps
        )
        averaged = averaged_risk(h, exact, rate)
        assert averaged == pytest.approx(bias + variance, rel=1e-10)  # the diagonal recursion T2, T3
        assert all(np.linalg.eigvalsh(p - e).min() > -1e-12 for p, e in zip(paper, exact, strict=True))
        ratios.append(averaged_risk(h, paper, rate) / averaged)
    record(
        "equality (= (2γ²/B) tr(HB) H)",
        f"an upper bound in the positive order; risk {min(ratios):.3f} to {max(ratios):.3f} times the exact one; "
        "with T1 in its place the recursion is exact to 1e-10",
        "imprecise in the paper",
    )
    assert min(ratios) > 1
    assert max(ratios) < 2


def averaged_risk(h, moments, rate):
    """⟨H, E η̄ η̄ᵀ⟩ from E η_t η_tᵀ, pair by pair: E η_k η_tᵀ = (I − γH)^(k−t) M_t for k > t."""
    steps = len(moments)
    return sum(np.trace(h @ m) + 2 * tail(h, m, rate, steps - 1 - t) for t, m in enumerate(moments)) / steps**2


def tail(h, m, rate, length):
    """Σ_{k=1}^{length} ⟨(I − γH)^k H, M⟩."""
    total, power = 0.0, m
    for _ in range(length):
        power = power - rate * h @ power
        total += np.trace(h @ power)
    return total


def test_sandwich(record):
    """Proof, bias and variance lie between ½ and 1 times Σ_{t≤k} ⟨(I − γH)^(k−t) H, B_t⟩/n²."""
    rng = np.random.default_rng(3)
    ratios = {}
    for limit in (1.0, 1.9):  # γ‖H‖ ≤ 1 as the theorem asks, and beyond
        found = []
        for _ in range(30):
            h, steps = random_covariance(rng), int(rng.integers(2, 25))
            batch = 1000  # stable at every γ < 2/‖H‖
            rate = limit * rng.uniform(0.8, 1.0) / np.linalg.eigvalsh(h).max()
            error = np.linalg.eigh(h)[1][:, -1]
            for start, noise in ((np.outer(error, error), 0.0), (np.zeros((3, 3)), 1.0)):
                moments = propagate(h, start, noise, rate, batch, steps)
                half_risk = averaged_risk(h, moments, rate) / 2  # the paper's bias and variance carry a ½
                sums = sum(np.trace(h @ m) + tail(h, m, rate, steps - 1 - t) for t, m in enumerate(moments)) / steps**2
                found.append(half_risk / sums)
        ratios[limit] = found
    inside = ratios[1.0]
    record(
        "½ ≤ ratio ≤ 1",
        f"{min(inside):.3f} … {max(inside):.3f} for γ ≤ 1/‖H‖ (beyond, 1 − γλ < 0: down to {min(ratios[1.9]):.3f})",
        "holds",
    )
    assert min(inside) >= 0.5 - 1e-12
    assert max(inside) <= 1 + 1e-12
    assert min(ratios[1.9]) < 0.5  # negative control: the condition is needed


def test_simplification_after_the_cross_term(record):
    """Proof, (Σ_{i≤k*} s_i/λ_i + nγ Σ_{i>k*} s_i)/(nγ) ≤ Σ s_i: the cross term is at most a variance."""
    rng = np.random.default_rng(4)
    shares, terms = [], []
    for _ in range(500):
        problem = st.PowerLaw(rng.uniform(1.01, 4), rng.uniform(1.01, 8))
        problem = st.PowerLaw(problem.capacity, problem.source, noise_variance=problem.initial_risk)
        steps, rate = np.floor(10 ** rng.uniform(0, 9)), 10 ** rng.uniform(-3, 0)
        count = problem.count_above(1 / (steps * rate))
        signal = problem.head_signal(count, 1) / (steps * rate) + problem.tail_signal(count)
        shares.append(signal / problem.initial_risk)
        bound = st.theorem7(problem, batch_size=4, learning_rate=rate, num_samples=4 * steps)
        terms.append(bound.cross / bound.variance)
    record(
        "≤ 1, so that the cross term ≤ the variance terms when Σ s_i ≤ σ²",
        f"left/right ≤ {max(shares):.6f}; cross/variance ≤ {max(terms):.6f} over 500 settings",
        "holds",
    )
    assert max(shares) <= 1 + 1e-12
    assert max(terms) <= 1 + 1e-12


def test_theorem7(record):
    """Theorem 7 (Theorem 5): the excess risk is the bound up to constant factors."""
    config = experiment.Config(num_problems=200, settings_per_problem=5, seed=7)
    points = experiment.sample(config)
    ratio, bias = points["total"], points["bias"]
    record(
        "Δ ≍ bound",
        f"{ratio.min():.2f} ≤ Δ/bound ≤ {ratio.max():.2f} over {ratio.size} random settings, n ≥ 2, "
        f"γ ≤ ½ min{{B/tr H, 1/‖H‖}}; bias alone against its two terms: up to {bias.max():.0f}",
        "holds",
    )
    assert 0.1 < ratio.min() < ratio.max() < 2
    assert bias.max() > 50  # the bias alone needs the cross term


def test_theorem7_one_step(record):
    """Theorem 7 for n = 1: w̄ = w_0, whatever the noise."""
    verdict = experiment.single_step()
    record("Δ ≍ bound for every D ≥ 1", str(verdict.measured), verdict.verdict)
    assert verdict.verdict == "imprecise in the paper"


def test_theorem7_constant_of_the_learning_rate(record):
    """Theorem 7, the constant in γ ≲ min{B/tr H, 1/‖H‖}: ½ by the proof's γ ≲ 1/(α tr H), α = 2/B."""
    verdict = experiment.unit_constant()
    record(
        "a constant that is small enough",
        f"{verdict.measured}; c < 2/3 is stable for every spectrum and B. (Not any constant, as ≲ is defined.)",
        verdict.verdict,
    )
    assert verdict.verdict == "holds"
