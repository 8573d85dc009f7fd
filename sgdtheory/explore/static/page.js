// The exported page: controls change its state, a worker computes it, panels show the answers or say that they wait.
"use strict";

const sheet = JSON.parse(document.getElementById("sheet").textContent);
const names = Object.keys(sheet.numbers), START = sheet.start, GATHERED = 30;  // ms in which moves are gathered
const worker = new Worker(URL.createObjectURL(new Blob([document.getElementById("worker-source").textContent], { type: "text/javascript" })));
const byId = (id) => document.getElementById(id);
const app = {
  state: { ...START }, number: 0, answers: {}, fresh: new Set(), before: {}, moved: "", checks: [], busy: false, refusal: "",
  link: [],  // sentences on parts of the link that cannot be used
};
// The text with its [names] replaced, as by `formulas.filled`; the sentences are in `sheet`.
const filled = (text, values) => text.replace(/\[(\w+%?)\]/g, (_, name) => values[name]);

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

function change(state, moved, link = []) {
  app.state = state;
  app.link = link;
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
  for (const name of ["capacity", "source"]) if (state[name] <= 1) return filled(sheet.sentences[name], { value: state[name] });
  if (state.batch_size * 2 > state.num_samples) {
    return `B = ${state.batch_size} is more than half of D = ${written(state.num_samples)}, too few for two steps: lower B or raise D`;
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
    const rate = app.fresh.has("path") && app.answers.path.marks.learning_rate;
    const used = name === "learning_rate" && rate ? `${written(rate)} (best)` : number.none;
    if (value === null) slider.value = name === "num_features" ? number.high : rate ? placeOf(number, rate) : slider.value;
    row.querySelector("output").textContent = value === null ? used : written(value);
  }
  const here = sheet.presets.findIndex((preset) => names.every((name) => ({ ...START, ...preset.state })[name] === app.state[name]));
  byId("presets").selectedIndex = here + 1;
  byId("sentence").innerHTML = here < 0 ? "" : sheet.presets[here].sentence;
}

// ---- numbers, with those that changed marked, and what has not come yet

const markOf = (answer, mark) => (app.answers[answer] || { marks: {} }).marks[mark];

function numbersShown() {
  const found = {};
  for (const [answer, mark] of sheet.readings) if (app.fresh.has(answer)) found[`${answer}-${mark}`] = markOf(answer, mark);
  return found;
}

// Whether a panel waits for an answer, or for the rest of one.
const waits = (panel) => panel.answers.some((name) => !app.fresh.has(name) || app.answers[name].partial);

function tell() {
  const path = app.fresh.has("path") && app.answers.path;
  const unstable = path && !path.stable ? [filled(sheet.sentences.unstable, { rate: written(path.marks.learning_rate), edge: written(path.marks.edge) })] : [];
  byId("words").innerText = [...app.link, ...(app.refusal ? [app.refusal] : unstable)].join("\n");
  let told = "";
  for (const [answer, mark, words] of app.refusal ? [] : sheet.readings) {
    const key = `${answer}-${mark}`, fresh = app.fresh.has(answer), value = markOf(answer, mark);
    if (answer in app.answers && !value) continue;
    const changed = fresh && key in app.before && app.before[key] !== value;
    told += `<div><dt>${words}</dt><dd data-name="${key}" ${fresh ? `data-value="${value}"` : 'aria-label="computing"'}`
      + ` class="${changed ? "changed" : ""}">${fresh ? written(value, 4) : "…"}</dd></div>`;
  }
  byId("numbers").innerHTML = told && `<dl class="listed">${told}</dl>`;
  for (const name of view.panels) {
    const section = byId(`panel-${name}`), panel = sheet.panels[name];
    if (waits(panel) && !app.refusal) section.dataset.waiting = "stale";
    else delete section.dataset.waiting;
    // The caption never belongs to another setting than that of the controls.
    section.querySelector(".caption").innerHTML = app.fresh.has(panel.toldBy) && !app.refusal ? captionOf(panel) : "";
    if (app.refusal) section.querySelector(".chart").replaceChildren();
  }
  const waited = view.panels.map((name) => sheet.panels[name]).filter(waits).map((panel) => panel.title);
  byId("status").textContent = app.refusal ? "" : app.busy ? `Computing: ${waited.join(", ")}` : "Ready";
}

// The first of a panel's titles whose numbers are known, as `legends.caption`.
function captionOf(panel) {
  const { marks } = app.answers[panel.toldBy], known = (text) => [...text.matchAll(/\[(\w+)%?\]/g)].every(([, name]) => name in marks);
  return (panel.captions.find(known) || "").replace(/\[(\w+)(%?)\]/g, (_, name, percent) =>
    percent ? `${written(100 * marks[name])}%` : written(marks[name]));
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
    app.answers[name] = { columns: {}, marks: {}, ...content };
    app.fresh.add(name);
    if (name === "path") showControls();
    tell();
    for (const panel of view.panels) if (!waits(sheet.panels[panel]) && sheet.panels[panel].answers.includes(name)) draw(panel);
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

function draw(panel) { chart(byId(`panel-${panel}`).querySelector(".chart"), sheet.panels[panel], app.answers); }

view.fitted = () => {
  if (view.lecture) document.documentElement.style.setProperty("--room", `${view.room()}px`);
  for (const panel of view.panels) if (!app.refusal && sheet.panels[panel].answers.every((name) => name in app.answers)) draw(panel);
};

// ---- looks, and the state of a link

const dark = matchMedia("(prefers-color-scheme: dark)");
function look(words) { document.documentElement.dataset.look = words; }
look(dark.matches ? "dark" : "light");
dark.onchange = () => look(dark.matches ? "dark" : "light");
const toggle = () => look(document.documentElement.dataset.look === "dark" ? "light" : "dark");
byId("dark").onclick = toggle;
addEventListener("keydown", (event) => { if (event.key === "d" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches("select")) toggle(); });

// Goes to the state of the link; what cannot be used of it is named, and keeps its value.
function takeLink() {
  const state = { ...START }, sentences = [];
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    const name = names.find((each) => sheet.numbers[each].query === key), quoted = (words) => `'${words.slice(0, 20)}'`;
    if (!name) {
      sentences.push(filled(sheet.sentences.unknown, { text: quoted(key) }));
      continue;
    }
    const number = sheet.numbers[name], value = text.trim() ? Number(text) : NaN;
    const [low, high] = number.ends;
    if (number.none && text === number.none) state[name] = null;
    else if (value >= Number(low) && value <= Number(high)) state[name] = number.digits === 0 ? Math.round(value) : value;
    else {
      const also = number.none ? ` or ${number.none}` : "";
      const error = filled(sheet.sentences.number, { name: key, low, high, also, text: quoted(text) });
      sentences.push(filled(sheet.sentences.kept, { error, value: state[name] ?? number.none }));
    }
  }
  change(state, "", sentences);
}
addEventListener("hashchange", takeLink);
view.choose(view.panels[0]);
takeLink();
