// Computes for the page, in a thread of its own: answers come one after the other, those that take longest last.
"use strict";

const SLICE = 12;  // ms of computing between two looks for news
const GROWTH = [-3, -2, -1, 0, 1, 2, 3];  // decades of data about D at which B* is computed
const LEAST_SAMPLES = 20, MOST_SAMPLES = 1e15;
const PATH_POINTS = 48, NEEDED_A_DECADE = 4, REACH = 10;
const RATES = [...Array(33)].map((_, k) => 10 ** (-4 + k / 8)).concat(
  [...Array(24)].map((_, k) => 1 - 0.002 * 200 ** (k / 23))).sort((one, other) => one - other);

let wanted = 0;
const channel = new MessageChannel(), waiting = [];
channel.port1.onmessage = () => waiting.shift()();
class Overtaken extends Error {}

// What lets other messages in now and then, and ends a job that is not wanted any more.
function pauses(number) {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < SLICE) return;
    await new Promise((resolve) => { waiting.push(resolve); channel.port2.postMessage(0); });
    if (number !== wanted) throw new Overtaken();
    since = performance.now();
  };
}

const lawOf = (state) => new Law({
  capacity: state.capacity, source: state.source, noise: state.noise_variance, features: state.num_features ?? Infinity,
});

async function compute(number, state, answer) {
  const search = new Search(lawOf(state)), { law } = search, pause = pauses(number);
  const samples = state.num_samples, batch = state.batch_size, steps = Math.floor(samples / batch);
  const edge = law.edge(batch), rate = state.learning_rate ?? (steps < 2 ? edge : search.tuned(batch, steps).rate);
  answer("path", path(law, batch, rate, steps, edge));
  answer("rate", against(law, batch, steps, edge, rate));
  await pause();
  const best = await search.optimum(samples, pause);
  const critical = await search.critical(samples, state.overhead, best, pause);
  const marks = {
    batch: critical.batch, steps: critical.steps, least: best.risk, bestBatch: best.batch,
    exponent: predictedExponent(state.capacity, state.source), samples, overhead: state.overhead,
  };
  answer("critical", marks);
  const lines = { sizes: [], risk: [], bias: [], variance: [], missed: law.missed };
  for (const size of batchSizes(samples)) {
    const found = search.tuned(size, Math.floor(samples / size)), parts = law.parts(size, found.rate, found.steps);
    lines.sizes.push(size);
    lines.risk.push(found.risk);
    lines.bias.push(parts.bias);
    lines.variance.push(parts.variance);
    await pause();
  }
  answer("risk", { ...lines, ...marks });
  answer("samples", { ...marks, ...await needed(search, best, critical, samples, pause) });
  answer("growth", await growth(search, state, critical, marks, pause));
}

function path(law, batch, rate, steps, edge) {
  const stable = rate <= edge * (1 + 1e-9), found = { samples: [], risk: [], stable, rate, edge, steps };
  const parts = stable ? law.parts(batch, rate, steps) : { bias: Infinity, variance: Infinity };
  if (stable) {
    const taken = new Set([...Array(PATH_POINTS)].map((_, k) => Math.round(steps ** (k / (PATH_POINTS - 1)))));
    for (const n of taken) {
      found.samples.push(n * batch);
      found.risk.push(law.risk(batch, rate, n));
    }
  }
  return { ...found, ...parts, total: parts.bias + parts.variance };
}

function against(law, batch, steps, edge, here) {
  const rates = RATES.map((share) => share * edge), parts = rates.map((rate) => law.parts(batch, rate, steps));
  const found = here <= edge * (1 + 1e-9) ? law.risk(batch, here, steps) : NaN;
  return {
    rate: rates, risk: parts.map((each) => each.bias + each.variance), bias: parts.map((each) => each.bias),
    variance: parts.map((each) => each.variance), edge, here, found,
  };
}

async function needed(search, best, critical, samples, pause) {
  const end = Math.min(REACH * critical.batch, samples / 2), found = { size: [], needed: [] };
  for (const size of batchSizes(2 * Math.max(end, 2), NEEDED_A_DECADE)) {
    const all = await search.needed(size, best, samples, pause);
    if (!Number.isFinite(all)) continue;
    found.size.push(size);
    found.needed.push(all / samples);
  }
  return found;
}

async function growth(search, state, critical, marks, pause) {
  const sizes = [...new Set(GROWTH.map((decades) =>
    Math.min(Math.max(state.num_samples * 10 ** decades, LEAST_SAMPLES), MOST_SAMPLES)))];
  const found = { data: [], critical: [], ...marks };
  for (const samples of sizes) {
    const best = await search.optimum(samples, pause);
    found.data.push(samples);
    found.critical.push((await search.critical(samples, state.overhead, best, pause)).real);
  }
  return found;
}

// The page's numbers beside Python's, of settings that Python had drawn at random.
async function check(number, references, done, answer) {
  for (let k = done; k < references.length; k++) {
    const { state, rate, total, least, critical } = references[k], search = new Search(lawOf(state)), pause = pauses(number);
    const steps = Math.floor(state.num_samples / state.batch_size);
    const risk = search.law.risk(state.batch_size, rate, steps);
    const best = await search.optimum(state.num_samples, pause);
    const found = await search.critical(state.num_samples, state.overhead, best, pause);
    const off = (mine, theirs) => Math.abs(mine / theirs - 1);
    answer("checked", { place: k, risk: off(risk, total), least: off(best.risk, least), critical: off(found.batch, critical) });
    await pause();
  }
}

onmessage = async ({ data: { number, state, references, done } }) => {
  wanted = number;
  const answer = (name, content) => number === wanted && postMessage({ number, name, content });
  try {
    if (state) await compute(number, state, answer);
    else await check(number, references, done, answer);
    answer("ready", {});
  } catch (error) {
    if (!(error instanceof Overtaken)) answer("failed", String(error && error.message || error));
  }
};
