// For both pages: which panel is shown where there is room for one, and the keys of a lecture.
"use strict";

const view = {
  panels: [...document.querySelectorAll("main > section")].map((section) => section.id.slice(6)),
  panel: "",
  fitted: () => {},  // called when the room of a figure has changed
  choose(panel) {
    if (!this.panels.includes(panel)) return;
    this.panel = panel;
    for (const each of this.panels) {
      document.getElementById(`panel-${each}`).classList.toggle("shown", each === panel);
      document.querySelector(`.tabs [data-panel=${each}]`).setAttribute("aria-pressed", each === panel);
    }
    this.fitted();
  },
  get lecture() { return document.documentElement.classList.contains("lecture"); },
  lecturing(whether) {
    document.documentElement.classList.toggle("lecture", whether);
    this.fitted();
  },
  // Visible elements that match, in shadow trees too, in the order of the page.
  within(root, selector) {
    const found = [];
    for (const each of root.querySelectorAll("*")) {
      if (each.matches(selector) && each.getClientRects().length) found.push(each);
      if (each.shadowRoot) found.push(...this.within(each.shadowRoot, selector));
    }
    return found;
  },
  sliders() { return this.within(document.querySelector("aside"), "input[type=range]:enabled, .noUi-handle"); },
  // Height in pixels for the figures of a panel in a lecture, with which the numbers beneath are on the screen.
  room() {
    const figures = this.within(document.getElementById(`panel-${this.panel}`), ".bk-Figure, .chart");
    const end = document.getElementById("numbers").getBoundingClientRect().bottom + scrollY;
    const rest = end - figures.reduce((sum, each) => sum + each.offsetHeight, 0);
    return Math.max(innerHeight - rest - 8, 120);
  },
  get focused() {
    let element = document.activeElement;
    while (element && element.shadowRoot && element.shadowRoot.activeElement) element = element.shadowRoot.activeElement;
    return element;
  },
  next(step) {
    const all = this.sliders(), here = all.indexOf(this.focused);
    if (!all.length) return;
    const wanted = all[here < 0 ? 0 : (here + step + all.length) % all.length];
    wanted.focus();
    wanted.scrollIntoView({ block: "nearest" });
  },
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.focused && this.focused.matches("input:not([type=range]):not([type=checkbox]), textarea, select")) return;
    const place = "123456789".indexOf(event.key);
    if (event.key === "l") this.lecturing(!this.lecture);
    else if (event.key === "Escape" && this.lecture) this.lecturing(false);
    else if (event.key === "]") this.next(1);
    else if (event.key === "[") this.next(-1);
    else if (place >= 0 && event.key && place < this.panels.length) this.choose(this.panels[place]);
    else return;
    event.preventDefault();
  },
};
document.addEventListener("keydown", (event) => view.key(event));
document.addEventListener("click", (event) => {
  const button = event.target.closest(".tabs [data-panel], [data-lecture]");
  if (!button) return;
  if (button.dataset.panel) view.choose(button.dataset.panel);
  else view.lecturing(!view.lecture);
});
addEventListener("resize", () => view.fitted());
// New words and numbers take room from the figure.
const resized = new ResizeObserver(() => { if (view.lecture) view.fitted(); });
for (const each of document.querySelectorAll("#words, #numbers, .tabs, main > section")) resized.observe(each);
