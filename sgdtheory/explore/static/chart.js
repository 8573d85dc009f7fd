// A figure on logarithmic axes, as SVG: lines, stars, lines across, and the numbers of the point under the pointer.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const STAR = "M0,-7 L1.7,-2.2 6.7,-2.2 2.6,0.8 4.1,5.7 0,2.7 -4.1,5.7 -2.6,0.8 -6.7,-2.2 -1.7,-2.2 Z";

function element(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

// At most so many ticks: powers of ten; within two decades multiples of them.
function ticksOf(low, high, most) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), decades = Math.log10(high / low);
  const every = decades > 2 ? Math.ceil(decades / most) : 1, multiples = decades > 2 ? [1] : decades > 1 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.ceil(first / every) * every; power <= last; power += every) {
    for (const multiple of multiples) ticks.push(Number(`${multiple}e${power}`));
  }
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  if (inside.length > 1 || !(high > low)) return inside;
  const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 2.5, 5, 10].find((each) => each * unit >= rough), even = [];
  for (let count = Math.ceil(low / step); count * step <= high; count++) even.push(Number((count * step).toPrecision(6)));
  return even;
}

// Draws `content` into `host`: labels of x and y, lines [{x, y, dash, thin}], stars [[x, y]], circles [[x, y]],
// across [{axis, at, dash}], yTicks, yRange; below: how far the y axis goes beneath the first line.
function chart(host, content) {
  host.replaceChildren();
  const size = parseFloat(getComputedStyle(host).fontSize), width = host.clientWidth, height = host.clientHeight;
  if (!width || !height) return;
  const svg = element(host, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": content.title });
  const left = 4.6 * size, right = width - 0.8 * size, top = 0.6 * size, bottom = height - 3.1 * size;
  const shown = content.lines.filter((line) => line.x.length && !line.quiet);
  const kept = (values) => values.filter((value) => Number.isFinite(value) && value > 0);
  const xs = kept(shown.flatMap((line) => line.x));
  const ys = kept(shown.flatMap((line) => line.y));
  if (!xs.length) return;
  const margin = (Math.max(...xs) / Math.min(...xs)) ** 0.04 || 1.1;
  const xRange = [Math.min(...xs) / margin, Math.max(...xs) * (margin === 1 ? 1.1 : margin)];
  const yRange = content.yRange || [Math.min(...ys) / (content.below || 2), Math.max(...ys) * 2];
  const placeX = (x) => left + (right - left) * Math.log(x / xRange[0]) / Math.log(xRange[1] / xRange[0]);
  const placeY = (y) => bottom - (bottom - top) * Math.log(y / yRange[0]) / Math.log(yRange[1] / yRange[0]);
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  element(element(svg, "clipPath", { id: clip }), "rect", { x: left, y: top, width: right - left, height: bottom - top });
  const xTicks = ticksOf(...xRange, Math.max(2, Math.min(7, Math.floor((right - left) / (4 * size)))));
  const yTicks = (content.yTicks || ticksOf(...yRange, Math.max(2, Math.min(7, Math.floor((bottom - top) / (2 * size))))));
  for (const tick of xTicks) {
    element(svg, "path", { class: "grid", d: `M${placeX(tick)},${top} V${bottom}` });
    element(svg, "text", { x: placeX(tick), y: bottom + 1.2 * size, "text-anchor": "middle" }, written(tick));
  }
  for (const tick of yTicks) {
    element(svg, "path", { class: "grid", d: `M${left},${placeY(tick)} H${right}` });
    element(svg, "text", { x: left - 0.4 * size, y: placeY(tick) + 0.35 * size, "text-anchor": "end" }, written(tick));
  }
  element(svg, "path", { class: "axis", d: `M${left},${top} V${bottom} H${right}` });
  element(svg, "text", { x: (left + right) / 2, y: height - 0.6 * size, "text-anchor": "middle" }, content.xLabel);
  element(svg, "text", {
    transform: `translate(${size},${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, content.yLabel);
  const inside = element(svg, "g", { "clip-path": `url(#${clip})` });
  for (const { axis, at, dash } of content.across || []) {
    const d = axis === "x" ? `M${placeX(at)},${top} V${bottom}` : `M${left},${placeY(at)} H${right}`;
    element(inside, "path", { class: "across", d, "stroke-dasharray": dash });
  }
  const points = [];
  for (const line of content.lines) {
    let d = "";
    line.x.forEach((x, k) => {
      if (!(x > 0 && line.y[k] > 0 && Number.isFinite(line.y[k]))) return;
      const point = [placeX(x), placeY(line.y[k])];
      if (!line.quiet) points.push([...point, x, line.y[k]]);
      d += `${d ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}`;
    });
    element(inside, "path", { class: line.ink ? "line ink" : line.thin ? "line thin" : "line", d, "stroke-dasharray": line.dash || "" });
  }
  const spot = (mark, [x, y]) => x > 0 && y > 0 && Number.isFinite(y) && element(svg, "path", {
    class: "mark", d: mark, transform: `translate(${placeX(x)},${placeY(y)}) scale(${size / 13})` });
  for (const star of content.stars || []) spot(STAR, star);
  for (const circle of content.circles || []) spot("M-5,0 a5,5 0 1,0 10,0 a5,5 0 1,0 -10,0 Z", circle);
  const ring = element(svg, "circle", { class: "ring", r: size / 3, visibility: "hidden" });
  const note = element(svg, "text", { class: "note", y: top + size, x: right - 0.4 * size, "text-anchor": "end" });
  svg.onpointermove = (event) => {
    const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let nearest = null, least = 40 ** 2;
    for (const point of points) {
      const distance = (point[0] - x) ** 2 + (point[1] - y) ** 2;
      if (distance < least) [nearest, least] = [point, distance];
    }
    ring.setAttribute("visibility", nearest ? "visible" : "hidden");
    note.textContent = nearest ? `${written(nearest[2], 4)}: ${written(nearest[3], 4)}` : "";
    if (nearest) {
      ring.setAttribute("cx", nearest[0]);
      ring.setAttribute("cy", nearest[1]);
    }
  };
  svg.onpointerleave = () => { ring.setAttribute("visibility", "hidden"); note.textContent = ""; };
}

// A number for a reader: 0.00123, 228, 1.02 × 10⁶.
function written(value, digits = 3) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "–";
  if (value === 0 || (value >= 1e-3 && value < 1e5)) {
    return String(Number.isInteger(value) ? value : Number(value.toPrecision(digits)));
  }
  let [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  mantissa = String(Number(mantissa));
  const power = "10" + String(Number(exponent)).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return mantissa === "1" ? power : `${mantissa} × ${power}`;
}
