"""Methods as textbooks have them: real weights, dense batches in a rotated basis, NumPy's generator.

Nothing is shared with the library but names; vectors are of R replicas, (R, d).
"""

import numpy as np

import sgdtheory as st


def heavy_ball(vectors, gradient, rate, step, momentum):
    w, m = vectors
    m = momentum * m + gradient(w)
    return w - rate * m, m


def nesterov(vectors, gradient, rate, step, momentum):
    w, m = vectors
    g = gradient(w)
    m = momentum * m + g
    return w - rate * (g + momentum * m), m


def schedule_free(vectors, gradient, rate, step, interpolation):
    z, x = vectors
    y = (1 - interpolation) * z + interpolation * x
    z = z - rate * gradient(y)
    share = 1 / (step + 1)
    return z, (1 - share) * x + share * z


def accelerated(vectors, gradient, rate, step, coupling, forgetting, long_step):
    x, v = vectors
    y = coupling * x + (1 - coupling) * v
    g = gradient(y)
    return y - rate * g, forgetting * y + (1 - forgetting) * v - long_step * rate * g


def dana(vectors, gradient, rate, step, momentum_share, damping, momentum_decay, momentum):
    """Ferbach et al. 2025 with γ_1 = 1, γ_2 = `rate`, γ_3(t), and 1 − Δ(t) times a constant."""
    w, y = vectors
    g = gradient(w)
    y = momentum * (1 - damping / (damping + step)) * y + g
    return w - rate * g - rate * momentum_share / (1 + step) ** momentum_decay * y, y


def sgd(vectors, gradient, rate, step, weight_decay=0.0):
    (w,) = vectors
    return (w - rate * gradient(w) - rate * weight_decay * w,)


def sign(vectors, gradient, rate, step, momentum):
    w, m = vectors
    m = momentum * m + (1 - momentum) * gradient(w)
    return w - rate * np.sign(m), m


def normalized(vectors, gradient, rate, step, momentum):
    w, m = vectors
    m = momentum * m + (1 - momentum) * gradient(w)
    return w - rate * m / np.linalg.norm(m, axis=1, keepdims=True), m


def adam(vectors, gradient, rate, step, beta1, beta2, epsilon, weight_decay):
    w, m, v = vectors
    g = gradient(w)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    unbiased = m / (1 - beta1 ** (step + 1)), v / (1 - beta2 ** (step + 1))
    return w - rate * unbiased[0] / (np.sqrt(unbiased[1]) + epsilon) - rate * weight_decay * w, m, v


UPDATES = {  # class → update, which vectors begin at w_0 (the others begin at 0), and which vector is the iterate
    st.SGD: (sgd, (True,), 0),
    st.HeavyBall: (heavy_ball, (True, False), 0),
    st.Nesterov: (nesterov, (True, False), 0),
    st.ScheduleFree: (schedule_free, (True, True), 1),
    st.AcceleratedSGD: (accelerated, (True, True), 0),
    st.DANA: (dana, (True, False), 0),
    st.SignSGD: (sign, (True, False), 0),
    st.NormalizedSGD: (normalized, (True, False), 0),
    st.Adam: (adam, (True, False, False), 0),
}


def method_of(method):
    """Return the update, its settings, which vectors begin at w_0, and which vector is the iterate."""
    if type(method) not in UPDATES:
        raise NotImplementedError(f"{type(method).__name__} has no update here: write it, and its line in UPDATES")
    update, begins, iterate = UPDATES[type(method)]
    return update, {name: value for name, value in vars(method).items() if name != "basis"}, begins, iterate


class Regression:
    """y = xᵀw* + ξ with x ~ N(0, H) in a rotated basis."""

    def __init__(self, rng, problem, weight_decay=0.0, basis=None):
        self.rng, self.noise = rng, np.sqrt(problem.noise_variance)
        self.eigenvalues = np.asarray(problem.eigenvalues)
        drawn = np.linalg.qr(rng.standard_normal((self.eigenvalues.size,) * 2))[0]
        self.basis = drawn if basis is None else basis
        away = self.basis @ np.sqrt(problem.signal / self.eigenvalues)
        origin = 0.0 if weight_decay else self.basis @ rng.standard_normal(self.eigenvalues.size)
        self.start, self.optimum = np.zeros(away.size) + origin, origin - away

    def gradient(self, batch):
        """Mini-batch gradient of the squared loss at weights (R, d)."""

        def at(weights):
            x = self.rng.standard_normal((len(weights), batch, self.eigenvalues.size))
            x = x * np.sqrt(self.eigenvalues) @ self.basis.T
            y = x @ self.optimum + self.noise * self.rng.standard_normal(x.shape[:2])
            return np.einsum("rb,rbd->rd", np.einsum("rbd,rd->rb", x, weights) - y, x) / batch

        return at

    def whitened(self, vectors):
        """H^{1/2} times vectors, in the eigenbasis."""
        return vectors @ self.basis * np.sqrt(self.eigenvalues)


def clipped(gradient, norm):
    """The gradient, shortened where it is longer."""

    def at(weights):
        found = gradient(weights)
        return found * np.minimum(1, norm / np.linalg.norm(found, axis=1, keepdims=True))

    return at


def risks(rng, problem, method, rates, batches, average, num_replicas, basis=None, clip_norm=np.inf):
    """(R,) risks of `average(w_0, …, w_n)` and of w_n, for lists of learning rates and batch sizes."""
    task = Regression(rng, problem, getattr(method, "weight_decay", 0.0), basis)
    update, settings, begins, place = method_of(method)
    begin = np.tile(task.start, (num_replicas, 1))
    vectors = tuple(begin if each else np.zeros_like(begin) for each in begins)
    path = [vectors[place]]
    for step, (rate, batch) in enumerate(zip(rates, batches, strict=True)):
        vectors = update(vectors, clipped(task.gradient(int(batch)), clip_norm), rate, step, **settings)
        path.append(vectors[place])
    shown = average(path), path[-1]
    return tuple((task.whitened(each - task.optimum) ** 2).sum(1) for each in shown)
