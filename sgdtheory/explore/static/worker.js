// Computes for the page, in a thread of its own: answers come one after the other, those that take longest last.
"use strict";

const SLICE = 12;  // ms of computing between two looks for news
const GROWTH = [-3, -2, -1, 0, 1, 2, 3];  // decades of data about D at which B* is computed
const LEAST_SAMPLES = 20;
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

// Answers have the names of the server's: `panels/*.py`.
async function compute(number, state, answer) {
  const search = new Search(lawOf(state)), { law } = search, pause = pauses(number);
  const samples = state.num_samples, batch = state.batch_size, steps = Math.floor(samples / batch);
  const edge = law.edge(batch), rate = state.learning_rate ?? (steps < 2 ? edge : search.tuned(batch, steps).rate);
  answer("path", path(law, batch, rate, steps, edge));
  answer("rate", { columns: against(law, batch, steps, edge) });
  await pause();
  const best = await search.optimum(samples, pause);
  const critical = await search.critical(samples, state.overhead, best, pause);
  const marks = {
    batch_size: critical.batch, num_steps: critical.steps, optimal_risk: best.risk, optimal_batch_size: best.batch,
    data_ratio: critical.batch * critical.steps / samples, data_allowed: 1 + state.overhead, overhead: state.overhead,
  };
  answer("samples", { marks, partial: true });
  const columns = { batch_size: [], risk: [], bias: [], variance: [] };
  for (const size of batchSizes(samples)) {
    const found = search.tuned(size, Math.floor(samples / size)), parts = law.parts(size, found.rate, found.steps);
    columns.batch_size.push(size);
    columns.risk.push(found.risk);
    columns.bias.push(parts.bias);
    columns.variance.push(parts.variance);
    await pause();
  }
  answer("risk", { columns, marks: { missed: law.missed } });
  answer("samples", { marks, columns: await needed(search, best, critical, samples, pause) });
  answer("growth", await growth(search, state, pause));
}

function path(law, batch, rate, steps, edge) {
  const stable = rate <= edge * (1 + 1e-9), columns = { num_samples: [], average: [] };
  const parts = stable ? law.parts(batch, rate, steps) : { bias: Infinity, variance: Infinity };
  if (stable) {
    const taken = new Set([...Array(PATH_POINTS)].map((_, k) => Math.round(steps ** (k / (PATH_POINTS - 1)))));
    for (const n of taken) {
      columns.num_samples.push(n * batch);
      columns.average.push(law.risk(batch, rate, n));
    }
  }
  const marks = { ...parts, total: parts.bias + parts.variance, num_steps: steps, learning_rate: rate, edge, missed: law.missed };
  return { columns, marks, stable };
}

function against(law, batch, steps, edge) {
  const learning_rate = RATES.map((share) => share * edge), parts = learning_rate.map((rate) => law.parts(batch, rate, steps));
  const bias = parts.map((each) => each.bias), variance = parts.map((each) => each.variance);
  return { learning_rate, risk: parts.map((each) => each.bias + each.variance), bias, variance };
}

// At B* and at the next batch size too, so that the line goes through the star and crosses the dotted line there.
async function needed(search, best, critical, samples, pause) {
  const end = Math.min(REACH * critical.batch, samples / 2), columns = { batch_size: [], data_ratio: [] };
  const sizes = new Set([...batchSizes(2 * Math.max(end, 2), NEEDED_A_DECADE), critical.batch, critical.batch + 1]);
  for (const size of [...sizes].sort((one, other) => one - other)) {
    const all = await search.needed(size, best, samples, pause);
    if (!Number.isFinite(all)) continue;
    columns.batch_size.push(size);
    columns.data_ratio.push(all / samples);
  }
  return columns;
}

async function growth(search, state, pause) {
  const num_samples = [...new Set(GROWTH.map((decades) => Math.max(state.num_samples * 10 ** decades, LEAST_SAMPLES)))];
  const critical = [], exponent = predictedExponent(state.capacity, state.source), last = num_samples.length - 1;
  for (const samples of num_samples) {
    const best = await search.optimum(samples, pause);
    critical.push((await search.critical(samples, state.overhead, best, pause)).real);
  }
  const theory = num_samples.map((samples) => critical[last] * (samples / num_samples[last]) ** exponent);
  const slope = Math.log(critical[last] / critical[last - 1]) / Math.log(num_samples[last] / num_samples[last - 1]);
  return { columns: { num_samples, critical, theory }, marks: { exponent, ...(last ? { slope } : {}) } };
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
