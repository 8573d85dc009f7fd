// The page: controls change its state, a worker computes it, panels show what it tells and say what has not come yet.
"use strict";

const sheet = JSON.parse(document.getElementById("sheet").textContent);
const names = Object.keys(sheet.numbers), START = sheet.start, GATHERED = 30;  // ms in which moves are gathered
const WITHOUT = { num_features: "all (∞)", learning_rate: "the best" };  // in force where a number is not
const worker = new Worker(URL.createObjectURL(new Blob([document.getElementById("worker-source").textContent], { type: "text/javascript" })));
const byId = (id) => document.getElementById(id);
const app = { state: { ...START }, number: 0, answers: {}, fresh: new Set(), before: {}, moved: "", checks: [], busy: false, refusal: "" };

const valueAt = (number, place) => {
  const raw = number.base ? number.base ** place : place;
  return number.digits === 0 ? Math.round(raw) : Number(raw.toPrecision(number.digits));
};
const placeOf = (number, value) => number.base ? Math.log(value) / Math.log(number.base) : value;

// ---- controls

for (const name of names) {
  const number = sheet.numbers[name], row = document.createElement("div");
  row.className = "control";
  row.id = `control-${name}`;
  row.innerHTML = `<label for="slider-${name}">${number.words}</label>: <output for="slider-${name}"></output>`
    + `<input type="range" id="slider-${name}" min="${number.low}" max="${number.high}" step="${number.step}">`
    + (number.without ? `<label class="box"><input type="checkbox"> ${number.without}</label>` : "");
  const slider = row.querySelector("[type=range]"), box = row.querySelector("[type=checkbox]");
  slider.oninput = () => set(name, valueAt(number, Number(slider.value)));
  if (box) box.onchange = () => set(name, box.checked ? null : valueAt(number, Number(slider.value)));
  byId("controls").append(row);
}
for (const preset of [{ name: "(choose one)" }, ...sheet.presets]) byId("presets").add(new Option(preset.name));
byId("presets").onchange = () => {
  const chosen = sheet.presets[byId("presets").selectedIndex - 1];
  if (chosen) change({ ...START, ...chosen.state }, "");
};

function set(name, value) { change({ ...app.state, [name]: value }, name); }

function change(state, moved) {
  app.state = state;
  app.moved = moved;
  app.number += 1;
  if (app.fresh.size) app.before = numbersShown();
  app.fresh.clear();
  showControls();
  tell();
  clearTimeout(app.timer);
  app.timer = setTimeout(begin, GATHERED);
}

function begin() {
  const query = new URLSearchParams();
  for (const name of names) {
    if (app.state[name] !== START[name]) query.set(sheet.numbers[name].query, app.state[name] ?? sheet.numbers[name].none);
  }
  history.replaceState(null, "", `#${query}`);
  app.refusal = refusal(app.state);
  app.busy = !app.refusal;
  app.since = performance.now();
  worker.postMessage(app.refusal ? { number: app.number, references: [], done: 0 } : { number: app.number, state: app.state });
  tell();
}

// Why nothing can be shown, or "".
function refusal(state) {
  for (const name of ["capacity", "source"]) {
    if (state[name] <= 1) {
      const letter = sheet.numbers[name].query;
      return `${letter} = ${state[name]}, but the sum of i^−${letter} is finite for ${letter} > 1 alone: move ${letter} up`;
    }
  }
  if (state.batch_size * 2 > state.num_samples) {
    return `B = ${state.batch_size} is more than half of D = ${written(state.num_samples)}, and not two steps are made: lower B or raise D`;
  }
  return "";
}

function showControls() {
  for (const name of names) {
    const number = sheet.numbers[name], row = byId(`control-${name}`), value = app.state[name];
    const slider = row.querySelector("[type=range]"), box = row.querySelector("[type=checkbox]");
    if (value !== null) slider.value = placeOf(number, value);
    slider.disabled = value === null;
    if (box) box.checked = value === null;
    row.classList.toggle("off", value === null);
    row.classList.toggle("moved", name === app.moved);
    const path = app.fresh.has("path") && app.answers.path;
    const inForce = name === "learning_rate" && path ? `${written(path.rate)} (best)` : WITHOUT[name];
    if (value === null) slider.value = name === "num_features" ? number.high : path ? placeOf(number, path.rate) : slider.value;
    row.querySelector("output").textContent = value === null ? inForce : written(value);
  }
  const here = sheet.presets.findIndex((preset) => names.every((name) => ({ ...START, ...preset.state })[name] === app.state[name]));
  byId("presets").selectedIndex = here + 1;
  byId("sentence").innerHTML = here < 0 ? "" : sheet.presets[here].sentence;
}

// ---- what is told: numbers, with those that changed marked, and what has not come yet

const READINGS = [
  ["path", "total", "risk $Δ$"], ["path", "bias", "bias"], ["path", "variance", "variance"], ["path", "steps", "steps $n$"],
  ["path", "rate", "learning rate $γ$"], ["path", "edge", "stability edge"], ["critical", "batch", "$B^*$"],
  ["critical", "steps", "steps at $B^*$"], ["critical", "least", "$R_{opt}(D)$"], ["critical", "bestBatch", "$B$ of $R_{opt}$"],
];

function numbersShown() {
  const found = {};
  for (const [answer, mark] of READINGS) {
    if (app.fresh.has(answer)) found[`${answer}-${mark}`] = app.answers[answer][mark];
  }
  return found;
}

function tell() {
  byId("words").textContent = app.refusal || (app.fresh.has("path") && !app.answers.path.stable
    ? `γ = ${written(app.answers.path.rate)} is beyond the stability edge ${written(app.answers.path.edge)}: the risk grows without bound. Lower γ.` : "");
  let told = "";
  for (const [answer, mark] of app.refusal ? [] : READINGS) {
    const key = `${answer}-${mark}`, fresh = app.fresh.has(answer), value = fresh ? app.answers[answer][mark] : NaN;
    const changed = fresh && key in app.before && app.before[key] !== value;
    const shown = fresh ? written(value, 4) : "…";
    told += `<div><dt>${sheet.readings[key]}</dt><dd data-name="${key}" ${fresh ? `data-value="${value}"` : 'aria-label="computing"'}`
      + ` class="${fresh ? changed ? "changed" : "" : "stale"}">${shown}</dd></div>`;
  }
  byId("numbers").innerHTML = told && `<dl class="readings">${told}</dl>`;
  for (const panel of view.panels) {
    const section = byId(`panel-${panel}`), fresh = app.fresh.has(panel);
    section.classList.toggle("stale", !fresh && !app.refusal);
    // Of a panel whose answer has not come nothing of the setting before keeps its words.
    if (!fresh) section.querySelector(".caption").textContent = "";
    if (app.refusal) section.querySelector(".chart").replaceChildren();
  }
  const waited = view.panels.filter((panel) => !app.fresh.has(panel)).map((panel) => sheet.panels[panel]);
  byId("status").textContent = app.refusal ? "" : app.busy ? `Computing: ${waited.join(", ")}` : "Ready";
}

worker.onmessage = ({ data: { number, name, content } }) => {
  if (number !== app.number) return;
  if (name === "checked") {
    app.checks[content.place] = content;
    tellChecks();
  } else if (name === "failed") {
    app.busy = false;
    app.refusal = content;
    tell();
  } else if (name === "ready") {
    if (!app.busy) return;
    app.busy = false;
    tell();
    worker.postMessage({ number, references: sheet.references, done: app.checks.length });
  } else {
    app.answers[name] = content;
    app.fresh.add(name);
    if (name === "path") showControls();
    tell();
    if (view.panels.includes(name)) draw(name);
  }
};

function tellChecks() {
  const done = app.checks.length, all = sheet.references.length, worst = (name) => Math.max(...app.checks.map((each) => each[name]));
  const equal = app.checks.filter((each) => each.critical === 0).length;
  byId("accuracy").innerHTML = `Accuracy, measured in this browser against ${all} random settings computed by Python`
    + `${done < all ? ` (${done} of them so far)` : ""}: risks differ by at most ${worst("risk").toExponential(0)}, `
    + `R<sub>opt</sub> by ${worst("least").toExponential(0)} of itself; B* is the same whole number in ${equal} of ${done}`
    + (equal < done ? `, at most ${(100 * worst("critical")).toPrecision(2)}% off in the others.` : ".");
  Object.assign(byId("accuracy").dataset, { done, equal, risk: worst("risk"), least: worst("least"), critical: worst("critical") });
}

// ---- panels

const PANELS = {
  risk: (found) => ({
    lines: [{ x: found.sizes, y: found.risk }, { x: found.sizes, y: found.bias, dash: "6", quiet: true },
      { x: found.sizes, y: found.variance, dash: "2 4", quiet: true }],
    stars: [[found.bestBatch, found.least]], below: 15, across: found.missed ? [{ axis: "y", at: found.missed, dash: "2 4" }] : [],
    title: `The least risk is ${written(found.least)}, at B = ${written(found.bestBatch)}`,
  }),
  samples: (found) => ({
    lines: [{ x: found.size, y: found.needed }], stars: [[found.batch, found.batch * found.steps / found.samples]],
    yTicks: [1, 1.5, 2, 3, 5, 10, 20], yRange: [0.8, 30],
    across: [{ axis: "y", at: 1, dash: "6" }, { axis: "y", at: 1 + found.overhead, dash: "2 4" }],
    title: `B* = ${written(found.batch)}: up to here ${written(100 * found.overhead)}% more data are enough`,
  }),
  growth: (found) => {
    const last = found.data.length - 1, ends = [found.data[0], found.data[last]];
    const slope = Math.log(found.critical[last] / found.critical[last - 1]) / Math.log(found.data[last] / found.data[last - 1]);
    return {
      lines: [{ x: found.data, y: found.critical, thin: true },
        { x: ends, y: ends.map((each) => found.critical[last] * (each / ends[1]) ** found.exponent), dash: "6", ink: true, quiet: true }],
      stars: found.data.map((each, k) => [each, found.critical[k]]),
      title: `B* ∝ D^${slope.toFixed(3)} at large D; Corollary 8: D^${found.exponent.toFixed(3)}`.replaceAll("^-", "^−"),
    };
  },
  path: (found) => ({
    lines: [{ x: found.samples, y: found.risk }], below: 3,
    title: found.stable ? `Risk ${written(found.total)} after ${written(found.steps)} steps with γ = ${written(found.rate)}` : "",
  }),
  rate: (found) => ({
    lines: [{ x: found.rate, y: found.risk.map((each) => Math.min(each, found.risk[0])) },
      { x: found.rate, y: found.bias, dash: "6", quiet: true }, { x: found.rate, y: found.variance, dash: "2 4", quiet: true }],
    circles: [[found.here, found.found]], across: [{ axis: "x", at: found.edge, dash: "2 4" }], below: 5,
    title: `γ = ${written(found.here)}; the stability edge is ${written(found.edge)}`,
  }),
};

// D^0.35 with its exponent set as one; titles have no other marks.
function raised(title) { return title.replace(/\^(−?[\d.]+)/g, '<sup style="line-height: 0">$1</sup>'); }

function draw(panel) {
  const section = byId(`panel-${panel}`), content = PANELS[panel](app.answers[panel]), [xLabel, yLabel] = sheet.labels[panel];
  section.querySelector(".caption").innerHTML = raised(content.title);
  chart(section.querySelector(".chart"), { ...content, xLabel, yLabel });
}

view.fitted = () => {
  if (view.lecture) document.documentElement.style.setProperty("--room", `${view.room()}px`);
  for (const panel of view.panels) if (app.answers[panel] && !app.refusal) {
    draw(panel);
    if (!app.fresh.has(panel)) byId(`panel-${panel}`).querySelector(".caption").textContent = "";
  }
};

// ---- looks, and the state of a link

const dark = matchMedia("(prefers-color-scheme: dark)");
function look(words) { document.documentElement.dataset.look = words; }
look(dark.matches ? "dark" : "light");
dark.onchange = () => look(dark.matches ? "dark" : "light");
const toggle = () => look(document.documentElement.dataset.look === "dark" ? "light" : "dark");
byId("dark").onclick = toggle;
addEventListener("keydown", (event) => { if (event.key === "d" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches("select")) toggle(); });

function fromLink() {
  const query = new URLSearchParams(location.hash.slice(1)), state = { ...START };
  for (const name of names) {
    const number = sheet.numbers[name], text = query.get(number.query);
    if (text === null) continue;
    const value = Number(text), low = valueAt(number, number.low), high = valueAt(number, number.high);
    if (text === number.none) state[name] = null;
    else if (value >= low && value <= high) state[name] = number.digits === 0 ? Math.round(value) : value;
  }
  return state;
}
addEventListener("hashchange", () => change(fromLink(), ""));
view.choose(view.panels[0]);
change(fromLink(), "");
