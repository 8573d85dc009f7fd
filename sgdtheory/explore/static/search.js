// The learning rate tuned, the least risk, the fewest steps and B*: the searches of sgdtheory/critical, made short.
"use strict";

const RESONANT = 4;  // n/B up to which steps next to the edge resonate: the risk has narrow valleys there
const FEW_TRIED = 40;  // numbers of steps up to which each is tried for R_opt
const EVERY_STEPS = 64;  // up to so many each is tried for B*
const OVERSHOOTING = 1000;  // steps of R_opt up to which it is attained by a cancellation of overshooting steps
const SAME_RISK = 1e-8;  // relative: no B is preferred to 1 for less
const NEAR_BEST = 1.1;  // times what is attained: valleys of ρ as low are looked into
const ROUNDING = 1e-12;
const TUNED = 3e-10;  // of log Δ: to this the best γ is known, so that what attains R_opt is enough for it
const WIDTH = 0.5;  // of the bracket about the best γ of a neighbour, on the line of places
const PLACE = 1e-5;  // to which a minimum's place is found: its risk then has an error of 1e-10
const GOLDEN = (3 - Math.sqrt(5)) / 2;

// Brent's minimum of f in [low, high], near `at` with f(at) = value.
function minimum(f, low, high, at, value) {
  let x = at, w = at, v = at, fx = value, fw = value, fv = value, step = 0, before = 0;
  for (let round = 0; round < 60; round++) {
    const middle = (low + high) / 2;
    if (Math.abs(x - middle) <= 2 * PLACE - (high - low) / 2) break;
    let golden = true;
    if (Math.abs(before) > PLACE) {
      const r = (x - w) * (fx - fv), q0 = (x - v) * (fx - fw);
      let p = (x - v) * q0 - (x - w) * r, q = 2 * (q0 - r);
      if (q > 0) p = -p;
      q = Math.abs(q);
      const last = before;
      before = step;
      if (Math.abs(p) < Math.abs(q * last / 2) && p > q * (low - x) && p < q * (high - x)) {
        step = p / q;
        if (x + step - low < 2 * PLACE || high - x - step < 2 * PLACE) step = x < middle ? PLACE : -PLACE;
        golden = false;
      }
    }
    if (golden) {
      before = x < middle ? high - x : low - x;
      step = GOLDEN * before;
    }
    const u = x + (Math.abs(step) >= PLACE ? step : step > 0 ? PLACE : -PLACE), fu = f(u);
    if (fu <= fx) {
      if (u < x) high = x; else low = x;
      [v, fv, w, fw, x, fx] = [w, fw, x, fx, u, fu];
    } else {
      if (u < x) low = u; else high = u;
      if (fu <= fw || w === x) [v, fv, w, fw] = [w, fw, u, fu];
      else if (fu <= fv || v === x || v === w) [v, fv] = [u, fu];
    }
  }
  return [x, fx];
}

// Searches about one law.
class Search {
  constructor(law) {
    this.law = law;
    const { lambda, count, signal } = law.small;
    let learnt = 0, noise = 0;
    lambda.forEach((each, k) => {
      learnt += signal[k] * each;
      noise += count[k] * each * each;
    });
    this.firstGain = 1.5 * learnt / (noise * (2 * law.initial + law.noise));
  }

  // log Δ over a line of places: log(γ/edge) for small γ, −log(1 − γ/edge) near the edge, mirrored beyond.
  line(batch, n) {
    const edge = this.law.edge(batch), end = Math.log(Math.max(n, 2));
    const rate = (place) => edge * Math.min((1 + Math.exp(-end)) / (1 + Math.exp(Math.abs(place - end) - end)), 1);
    const place = (share) => Math.log(share / (1 - share + Math.exp(-end)));
    const value = (contour) => (at) => Math.log(Math.max(this.law.risk(batch, rate(at), n, contour), 1e-300));
    return { edge, end, rate, place, value };
  }

  // The best γ for B and n steps, over all of its valleys.
  tuned(batch, n) {
    const { edge, end, rate, value, place } = this.line(batch, n), rough = value(ROUGH), exact = value(EXACT);
    const first = 0.1 * Math.min(Math.min(this.firstGain * batch, 1) / n, edge);
    const places = [], resonates = n <= RESONANT * batch, low = place(first / edge);
    for (let at = low; at < end - (resonates ? 3 : 0); at += 0.7) places.push(at);
    if (resonates) for (let at = Math.max(low, end - 3); at < end; at += 0.2) places.push(at);
    places.push(end);
    const risks = places.map(rough), least = Math.min(...risks);
    let best = null;
    risks.forEach((risk, k) => {
      const valley = risk <= (risks[k - 1] ?? Infinity) && risk <= (risks[k + 1] ?? Infinity);
      if (!valley || risk > least + 1) return;
      let left = places[Math.max(k - 1, 0)] - (k === 0 ? 8 : 0), right = k + 1 < places.length ? places[k + 1] : 2 * end - left;
      const at = Math.min(Math.max(places[k], left + 1e-9), right - 1e-9);
      const [x, found] = minimum(exact, left, right, at, exact(at));
      if (!best || found < best.log) best = { place: x, log: found };
    });
    return this.answer(best.place, best.log, batch, n, rate(best.place), edge);
  }

  // The same in the valley of the best γ of another n nearby, `near`.
  tunedNear(batch, n, near) {
    if (!near || n <= EVERY_STEPS || n <= RESONANT * batch) return this.tuned(batch, n);
    const { edge, rate, place, value } = this.line(batch, n), exact = value(EXACT);
    const share = Math.min(near.share < 0.5 ? near.share * near.steps / n : near.share, 1);
    const at = place(share), [x, found] = minimum(exact, at - WIDTH, at + WIDTH, at, exact(at));
    if (Math.abs(x - at) > 0.9 * WIDTH) return this.tuned(batch, n);
    return this.answer(x, found, batch, n, rate(x), edge);
  }

  answer(place, log, batch, n, rate, edge) {
    return { place, log, risk: Math.exp(log), batch, steps: n, rate, share: rate / edge };
  }

  // Whether n steps could reach a risk if there were no noise. Only the first direction can overshoot, as γ < 2 and
  // a > 1, and so cancel its bias; what the others leave falls with γ.
  possible(n, risk) {
    const { law } = this, first = oneMinusPower(2, n) / (2 * n);
    return law.mean(2, n) - law.small.signal[0] * first * first < risk;
  }

  // R_opt(D) and the B that attains it; `pause` lets others in.
  async optimum(samples, pause) {
    let best = null;
    const attempt = (batch) => {
      if (batch < 1 || Math.floor(samples / batch) < 2) return null;
      const found = this.tuned(batch, Math.floor(samples / batch));
      if (!best || found.risk < best.risk * (1 - (found.batch > best.batch ? SAME_RISK : 0))) best = found;
      return found;
    };
    for (let batch = 1; batch <= 5; batch++) attempt(batch);
    await pause();
    const few = samples <= 400 ? samples / 2 : FEW_TRIED;
    for (let n = 2; n <= few; n++) {
      const batch = Math.floor(samples / n);
      if (batch > 5 && this.possible(n, best.risk)) {
        attempt(batch);
        await pause();
      }
    }
    if (samples > 400) await this.moreSteps(samples, () => best, attempt, pause);
    if (!(best.risk < this.law.initial * (1 - ROUNDING))) throw new Error("D is too small to learn anything: raise D or lower σ²");
    return best;
  }

  // Of more steps ρ(n), the risk of B = D/n, is a bound: whole B are tried where it is below what is attained.
  async moreSteps(samples, best, attempt, pause) {
    const tried = [];
    let near = null;
    for (let n = FEW_TRIED + 2; n < samples / 5; n = 2 * Math.ceil(n * 1.2 / 2)) {
      const found = this.tunedNear(samples / n, n, near);
      near = found;
      tried.push(found);
      await pause();
    }
    const valleys = tried.filter((found, k) =>
      k > 0 && k + 1 < tried.length && found.risk <= tried[k - 1].risk && found.risk <= tried[k + 1].risk);
    valleys.sort((one, other) => one.risk - other.risk);
    for (let found of [...(tried.length ? [tried[0]] : []), ...valleys.slice(0, 3)]) {
      if (found.risk >= best().risk * NEAR_BEST) continue;
      for (let step = 2 * Math.ceil(found.steps * 0.05); ; step = step > 2 ? 2 * Math.ceil(step / 4) : 0) {
        for (const n of [found.steps - step, found.steps + step]) {
          const other = this.tunedNear(samples / n, n, found);
          await pause();
          if (other.risk < found.risk) found = other;
        }
        if (step === 2) break;
      }
      if (found.risk >= best().risk * (1 - SAME_RISK)) continue;
      for (let n = found.steps - 3; n <= found.steps + 3; n++) {
        attempt(Math.floor(samples / n));
        await pause();
      }
    }
  }

  // The fewest steps in [2, most] with which `tunedAt(n, near).log ≤ log target`; null where none are enough.
  // `each`: where R_opt is attained by steps that overshoot, fewer may do while some more do not.
  async fewest(tunedAt, target, most, pause, each = false) {
    let near = null;
    const margin = async (n) => {
      near = tunedAt(n, near);
      await pause();
      return near.log - Math.log(target) - TUNED;
    };
    const small = Math.min(EVERY_STEPS, most);
    let low = 2 * Math.floor(small / 2), atLow = await margin(low);
    if (each || atLow <= 0 || most <= EVERY_STEPS) {
      for (let n = 2; n <= small; n++) {
        if (this.possible(n, target) && await margin(n) <= 0) return near;
      }
      if (most <= EVERY_STEPS) return null;
    }
    let high = 2 * Math.ceil(most / 2), found = null;
    let atHigh = await margin(high);
    if (atHigh > 0) return null;
    found = near;
    let stuck = false;
    while (high - low > Math.max(2, 1e-9 * high)) {
      const width = Math.log(high / low), line = stuck ? 0.5 : Math.min(Math.max(atLow / (atLow - atHigh), 0.001), 0.999);
      let n = 2 * Math.round(Math.exp(Math.log(low) + width * line) / 2);
      n = Math.min(Math.max(n, low + 2), high - 2);
      const value = await margin(n), enough = value <= 0;
      // looked at the other side of the line too, so that the bracket narrows from both ends
      if (enough) [high, atHigh, found] = [n, value, near];
      else [low, atLow] = [n, value];
      const beyond = 2 * Math.round(n * Math.exp((enough ? -1 : 1) * Math.min(0.1 * width * width + 4 / n, width / 4)) / 2);
      if (beyond > low && beyond < high) {
        const again = await margin(beyond);
        if (again <= 0) [high, atHigh, found] = [beyond, again, near];
        else [low, atLow] = [beyond, again];
      }
      stuck = Math.log(high / low) > width / 2;
    }
    if (high - 1 > low && await margin(high - 1) <= 0) found = near;
    return found;
  }

  // B*, the largest B that reaches R_opt(D) with (1 + ω) D samples; `real`: B that need not be whole.
  async critical(samples, overhead, best, pause) {
    const budget = (1 + overhead) * samples * (1 + ROUNDING), most = Math.floor(budget / best.batch);
    const found = await this.fewest((n, near) => this.tunedNear(budget / n, n, near), best.risk, most, pause, best.steps <= OVERSHOOTING);
    if (!found) return { batch: best.batch, real: best.batch, steps: best.steps, rate: best.rate };
    const real = budget / found.steps;
    for (let batch = Math.floor(real), round = 0; batch > best.batch && round < 200; round++) {
      const end = Math.floor(budget / batch);
      for (let n = Math.max(found.steps, end - 8); n <= end; n++) {
        const one = this.tunedNear(batch, n, found);
        await pause();
        if (one.log <= Math.log(best.risk) + TUNED) return { batch, real, steps: n, rate: one.rate };
      }
      batch = Math.min(batch - 1, Math.floor(budget / (end + 1)) || 1);
    }
    return { batch: best.batch, real, steps: best.steps, rate: best.rate };
  }

  // f_D(B) B, the samples that a batch size needs for R_opt(D).
  async needed(batch, best, samples, pause) {
    const found = await this.fewest((n, near) => this.tunedNear(batch, n, near), best.risk, Math.ceil(1e3 * samples / batch), pause);
    return found ? found.steps * batch : Infinity;
  }
}

// Whole batch sizes from 1 to D/2 that waste few samples.
function batchSizes(samples, aDecade = 5) {
  const end = Math.max(samples / 2, 1), count = Math.floor(aDecade * Math.log10(end)) + 2, sizes = new Set();
  for (let k = 0; k < count; k++) {
    const size = Math.floor(end ** (k / (count - 1)) * (1 + 1e-12));
    sizes.add(Math.floor(samples / Math.floor(samples / Math.max(size, 1))));
  }
  return [...sizes].sort((one, other) => one - other);
}

// Corollary 8's exponent of B*.
function predictedExponent(a, b) { return b <= a ? 0 : 1 - a / Math.min(b, 2 * a + 1); }
