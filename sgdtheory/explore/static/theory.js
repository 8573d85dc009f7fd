// The exact risk of averaged mini-batch SGD on a power law: sgdtheory/risk/exact.py, equations (E1) to (E3), in the browser.
// Symbols as there: x = γλ, q = 1 − x, v = x²/B, α = q² + v. Arrays are of modes, with multiplicities m and signals s.
"use strict";

const SINGLE = 64;  // directions that are modes of their own; the others are integrated over log i
const CORRECTION = 1 / 24;  // of the Euler-Maclaurin sum at midpoints: times f′ at its end
const SMOOTH = 1e-2;  // nγλ below which the sums are smooth in λ: fewer points
const CUT = 1e-10;  // nγλ below which nothing is learnt
const FEW_STEPS = 32;  // up to here (E1) is summed as it stands
const NEGLIGIBLE = 45;  // e^−45 is below rounding error

// Nodes and weights of Gauss and Legendre on [−1, 1].
function gaussLegendre(count) {
  const nodes = [], weights = [];
  for (let k = 0; k < count; k++) {
    let x = Math.cos(Math.PI * (k + 0.75) / (count + 0.5)), slope = 1;
    for (let round = 0; round < 100; round++) {
      let before = 1, here = x;
      for (let j = 2; j <= count; j++) [before, here] = [here, ((2 * j - 1) * x * here - (j - 1) * before) / j];
      slope = count * (x * here - before) / (x * x - 1);
      const step = here / slope;
      x -= step;
      if (Math.abs(step) < 1e-15) break;
    }
    nodes.push(x);
    weights.push(2 / ((1 - x * x) * slope * slope));
  }
  return { nodes, weights };
}
const FINE = gaussLegendre(10), WIDE = gaussLegendre(8);

// Weighted modes of λ = i^−a, s = i^−b, i ≤ last, for sums that are smooth in λ below 1/reach.
function powerLawModes(a, b, last, reach) {
  const index = [], count = [];
  const add = (i, m) => { index.push(i); count.push(m); };
  const single = Math.min(SINGLE, last);
  for (let i = 1; i <= single; i++) add(i, 1);
  let tail = null;
  if (last > SINGLE) {
    count[single - 1] -= CORRECTION;  // + f′(single + ½)/24
    add(single + 1, CORRECTION);
    const end = Math.min(Math.log(last + 0.5), Math.log(reach / CUT) / a);
    const smooth = Math.log(reach / SMOOTH) / a;
    for (let u = Math.log(single + 0.5); u < end;) {
      const fine = u < smooth, rule = fine ? FINE : WIDE;
      const half = Math.min((fine ? 1.5 : 3) / a, end - u) / 2;
      rule.nodes.forEach((node, k) => {
        const i = Math.exp(u + half * (1 + node));
        add(i, rule.weights[k] * half * i);
      });
      u += 2 * half;
      if (half < 1e-12) break;
    }
    if (Math.exp(end) < last) tail = Math.exp(end);
    else {
      add(last, CORRECTION);
      add(last + 1, -CORRECTION);
    }
  }
  const lambda = index.map((i) => i ** -a), signal = index.map((i, k) => count[k] * i ** -b);
  const sum = (f) => index.reduce((total, i, k) => total + count[k] * f(i), 0);
  let trace = 0;
  if (tail !== null) {  // one mode for all the rest, with its Σ s and Σ λ²
    const whole = last === Infinity;
    const rest = (power) => (tail ** (1 - power) - (whole ? 0 : (last + 0.5) ** (1 - power))) / (power - 1);
    trace = rest(a);
    lambda.push(tail ** -a);
    count.push(rest(2 * a) * tail ** (2 * a));
    signal.push(rest(b));
  }
  return {
    lambda: Float64Array.from(lambda), count: Float64Array.from(count), signal: Float64Array.from(signal),
    listed: index.length, restTrace: trace, initial: signal.reduce((total, s) => total + s, 0),
    trace: sum((i) => i ** -a) + trace,
  };
}

// Points np = μ(1 + iu)² and weights of (1/2πi) ∫ e^{np} f dp: the upper half.
function parabola(mu, h, count) {
  const points = [];
  for (let k = 0; k < count; k++) {
    const u = h * (k + 0.5), re = mu * (1 - u * u), im = 2 * mu * u;
    const size = 2 * mu * h / Math.PI * Math.exp(re), cos = Math.cos(im), sin = Math.sin(im);
    points.push({ re, im, weightRe: size * (cos - u * sin), weightIm: size * (sin + u * cos) });
  }
  return points;
}
const EXACT = parabola(5.4, 0.19, 10), ROUGH = parabola(4.5, 0.26, 6);  // relative errors 3e-9 and 2e-6

// 1 − (1 − x)^n.
function oneMinusPower(x, n) {
  if (n === 0) return 0;
  const power = n * (x < 0.5 ? Math.log1p(-x) : Math.log(Math.abs(x - 1)));
  return x > 1 && n % 2 === 1 ? 1 + Math.exp(power) : -Math.expm1(power);
}

// Risk of the mean of the average: Σ s [(1 − qⁿ)/(nx)]².
function meanRisk(modes, rate, n) {
  let total = 0;
  for (let k = 0; k < modes.lambda.length; k++) {
    const x = rate * modes.lambda[k], shrink = x > 0 ? oneMinusPower(x, n) / (n * x) : 1;
    total += modes.signal[k] * shrink * shrink;
  }
  return total;
}

// Bias, and variance at σ² = 1, after n steps of γ with batches of B, γ at most at the stability edge.
function riskParts(modes, batch, rate, n, contour = EXACT) {
  return n <= FEW_STEPS ? fewSteps(modes, batch, rate, n) : manySteps(modes, batch, rate, n, contour);
}

// (E1) term by term.
function fewSteps(modes, batch, rate, n) {
  const size = modes.lambda.length, { signal, count } = modes;
  const fromSignal = new Float64Array(size), fromNoise = new Float64Array(size);
  const decay = new Float64Array(size), v = new Float64Array(size), power = new Float64Array(size);
  let sumSignal = 0, sumNoise = 0, bias = meanRisk(modes, rate, n), variance = 0;
  for (let k = 0; k < size; k++) {
    const x = rate * modes.lambda[k];
    v[k] = x * x / batch;
    decay[k] = (1 - x) * (1 - x) + v[k];
    fromSignal[k] = signal[k];
    sumSignal += signal[k];
  }
  const scale = 1 / (batch * n * n);
  for (let t = 0; t < n - 1; t++) {
    const onSignal = sumSignal, onNoise = sumNoise + 1;
    sumSignal = sumNoise = 0;
    for (let k = 0; k < size; k++) {
      const kept = oneMinusPower(rate * modes.lambda[k], n - 1 - t), weight = scale * kept * kept;
      bias += weight * (count[k] * onSignal + fromSignal[k]);
      variance += weight * (count[k] * onNoise + fromNoise[k]);
      fromSignal[k] = decay[k] * fromSignal[k] + count[k] * v[k] * onSignal;
      fromNoise[k] = decay[k] * fromNoise[k] + count[k] * v[k] * onNoise;
      sumSignal += fromSignal[k];
      sumNoise += fromNoise[k];
    }
  }
  return { bias, variance };
}

// (E2) and (E3) by contour integration, with t = n(1/z − 1), X = nx, V = nx²/B, A = X(2 − x(B + 1)/B), U = X(2 − x).
function manySteps(modes, batch, rate, n, contour) {
  const { lambda, count, signal } = modes, size = lambda.length, points = contour.length;
  // Σ s/(t + A), Σ mV/(t + A), Σ mV(2 − x + t/n)/((t + A)(t + X)) and Σ sV(2 − x + t/n)/((t + A)(t + X)(t + U))
  const sums = new Float64Array(8 * points), tRe = new Float64Array(points), tIm = new Float64Array(points);
  contour.forEach((point, c) => {
    const re = point.re / n, im = point.im / n, sine = Math.sin(im / 2);
    tRe[c] = n * (Math.expm1(re) * Math.cos(im) - 2 * sine * sine);
    tIm[c] = n * Math.exp(re) * Math.sin(im);
  });
  for (let k = 0; k < size; k++) {
    const x = rate * lambda[k], X = n * x, V = X * x / batch, s = signal[k], m = count[k] * V;
    const A = X * (2 - x * ((batch + 1) / batch)), U = X * (2 - x), slow = 2 - x;
    for (let c = 0, at = 0; c < points; c++, at += 8) {
      const re = tRe[c], im = tIm[c], squared = im * im;
      const a = re + A, overA = 1 / (a * a + squared), aRe = a * overA, aIm = -im * overA;
      sums[at] += s * aRe;
      sums[at + 1] += s * aIm;
      sums[at + 2] += m * aRe;
      sums[at + 3] += m * aIm;
      const w = re + X, overX = 1 / (w * w + squared), xRe = w * overX, xIm = -im * overX;
      const bRe = aRe * xRe - aIm * xIm, bIm = aRe * xIm + aIm * xRe, fRe = slow + re / n, fIm = im / n;
      const cRe = bRe * fRe - bIm * fIm, cIm = bRe * fIm + bIm * fRe;
      sums[at + 4] += m * cRe;
      sums[at + 5] += m * cIm;
      const u = re + U, overU = 1 / (u * u + squared), uRe = u * overU, uIm = -im * overU, g = s * V;
      sums[at + 6] += g * (cRe * uRe - cIm * uIm);
      sums[at + 7] += g * (cRe * uIm + cIm * uRe);
    }
  }
  const times = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c];
  const over = ([a, b], [c, d]) => { const norm = c * c + d * d; return [(a * c + b * d) / norm, (b * c - a * d) / norm]; };
  let bias = 0, variance = 0;
  contour.forEach((point, c) => {
    const part = (j) => [sums[8 * c + 2 * j], sums[8 * c + 2 * j + 1]], t = [tRe[c], tIm[c]];
    const load = part(1), total = over(part(2), [1 - load[0], -load[1]]);
    const angle = point.im / n, growth = Math.exp(point.re / n);
    const factor = over([growth * Math.cos(angle), growth * Math.sin(angle)], t);
    const through = times(total, part(0)), itself = part(3);
    const ofBias = times(factor, [through[0] + itself[0], through[1] + itself[1]]);
    const ofNoise = times(over(factor, t), total);
    bias += ofBias[0] * point.weightRe - ofBias[1] * point.weightIm;
    variance += ofNoise[0] * point.weightRe - ofNoise[1] * point.weightIm;
  });
  const negative = negativePoles(modes, batch, rate, n);
  return {
    bias: meanRisk(modes, rate, n) + Math.max(bias, 0) + negative.bias,
    variance: Math.max(variance, 0) + negative.variance,
  };
}

// Residues of (E3) and (E2) at z = 1/q < 0: directions that overshoot.
function negativePoles(modes, batch, rate, n) {
  const { lambda, count, signal } = modes;
  let bias = 0, variance = 0;
  for (let i = 0; i < lambda.length && rate * lambda[i] > 1; i++) {
    const xi = rate * lambda[i], log = Math.log(xi - 1);
    if (n * log < -NEGLIGIBLE) continue;
    const pole = 1 / (1 - xi);
    let load = 0, ofSignal = 0, own = 0;
    for (let k = 0; k < lambda.length; k++) {
      const x = rate * lambda[k], v = x * x / batch, response = 1 / (1 - ((1 - x) * (1 - x) + v) * pole);
      load += count[k] * v * response;
      ofSignal += signal[k] * response;
      if (k === i) own = response;
    }
    const renewal = count[i] / (1 - pole * load), residue = own * Math.exp(n * log) / (n * n);
    const noise = 2 / batch * (n % 2 ? -residue : residue);
    variance += noise * renewal;
    bias -= noise * xi * pole * (renewal * ofSignal + signal[i] / xi);
  }
  return { bias, variance };
}

// The largest stable γ: λ_1 = 1, γ = 2B/(B + 1) · t/(1 + t) with Σ λ t/(1 + t(1 − λ)) = B + 1.
function stabilityEdge(modes, batch) {
  const excess = (t) => {
    let total = modes.restTrace * t / (1 + t);
    for (let k = 0; k < modes.listed; k++) total += modes.count[k] * modes.lambda[k] * t / (1 + t * (1 - modes.lambda[k]));
    return total - batch - 1;
  };
  let low = -60, high = Math.log(batch + 1) + 1e-9;
  for (let round = 0; round < 70; round++) {
    const middle = (low + high) / 2;
    if (excess(Math.exp(middle)) < 0) low = middle;
    else high = middle;
  }
  const t = Math.exp(low);
  return 2 * batch / (batch + 1) * t / (1 + t);
}

// A power law with σ²: its risks, with the modes that each of them needs.
class Law {
  constructor({ capacity, source, noise, features = Infinity }) {
    Object.assign(this, { capacity, source, features });
    this.cache = new Map();
    const all = powerLawModes(capacity, source, Infinity, 1e4);
    const seen = features === Infinity ? all : powerLawModes(capacity, source, features, 1e4);
    this.missed = features === Infinity ? 0 : all.initial - seen.initial;
    this.noise = noise + this.missed;
    this.initial = seen.initial;
    this.small = seen;
    this.edges = new Map();
  }
  modes(reach) {
    const level = Math.ceil(Math.log(Math.max(reach, 1)) / Math.log(30));
    if (!this.cache.has(level)) {
      this.cache.set(level, powerLawModes(this.capacity, this.source, this.features, 30 ** level));
    }
    return this.cache.get(level);
  }
  parts(batch, rate, n, contour) {
    const found = riskParts(this.modes(n * rate), batch, rate, n, contour);
    return { bias: found.bias, variance: this.noise * found.variance };
  }
  risk(batch, rate, n, contour) {
    const { bias, variance } = this.parts(batch, rate, n, contour), total = bias + variance;
    return total >= 0 && total < 1e9 * this.initial ? total : 1e9 * this.initial;
  }
  mean(rate, n) { return meanRisk(this.modes(n * rate), rate, n); }
  edge(batch) {
    if (!this.edges.has(batch)) this.edges.set(batch, stabilityEdge(this.small, batch));
    return this.edges.get(batch);
  }
}
