// A panel on logarithmic axes, as SVG, from the same glyphs as the figures of the server's page (`spec.py`).
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function element(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

// The points [[x, y]] of a glyph that logarithmic axes can show; of a straight line its one number.
function pointsOf(glyph, answers) {
  const across = glyph.kind === "level" || glyph.kind === "upright", answer = answers[glyph.answer];
  const known = !answer ? {} : glyph.single || across ? answer.marks : answer.columns;
  const values = (name) => [typeof name === "number" ? name : known[name] ?? NaN].flat();
  const shown = (value) => Number.isFinite(value) && value > 0;
  if (across) return values(glyph.kind === "level" ? glyph.y : glyph.x).filter(shown);
  const y = values(glyph.y);
  return values(glyph.x).map((x, k) => [x, y[k]]).filter((point) => point.every(shown));
}

function rangesOf(panel, drawn) {
  const measured = drawn.filter(([glyph, points]) => glyph.measured && points.length).map(([, points]) => points);
  const xs = measured.flat().map(([x]) => x);
  const ys = measured.flatMap((points) => points.map(([, y]) => panel.capped ? Math.min(y, points[0][1]) : y));
  if (!xs.length) return null;
  const low = Math.min(...xs), high = Math.max(...xs), margin = (high / low) ** 0.04 || 1.1;
  return [[low / margin, high * (margin === 1 ? 1.1 : margin)], panel.yRange || [Math.min(...ys) / panel.below, Math.max(...ys) * 2]];
}

function chart(host, panel, answers) {
  host.replaceChildren();
  const size = parseFloat(getComputedStyle(host).fontSize), width = host.clientWidth, height = host.clientHeight;
  const drawn = panel.glyphs.map((glyph) => [glyph, pointsOf(glyph, answers)]), ranges = rangesOf(panel, drawn);
  if (!width || !height || !ranges) return;
  const svg = element(host, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": panel.title });
  const left = 3.6 * size, right = width - 1.2 * size, top = 0.6 * size, bottom = height - 1.6 * size;
  const [xRange, yRange] = ranges;
  const placeX = (x) => left + (right - left) * Math.log(x / xRange[0]) / Math.log(xRange[1] / xRange[0]);
  const placeY = (y) => bottom - (bottom - top) * Math.log(y / yRange[0]) / Math.log(yRange[1] / yRange[0]);
  const most = (room, each) => Math.max(2, Math.min(7, Math.floor(room / (each * size))));
  for (const tick of ticksOf(...xRange, most(right - left, 4))) {
    element(svg, "path", { class: "grid", d: `M${placeX(tick)},${top} V${bottom}` });
    element(svg, "text", { x: placeX(tick), y: bottom + 1.2 * size, "text-anchor": "middle" }, written(tick, 4));
  }
  for (const tick of panel.yTicks.length ? panel.yTicks : ticksOf(...yRange, most(bottom - top, 2))) {
    element(svg, "path", { class: "grid", d: `M${left},${placeY(tick)} H${right}` });
    element(svg, "text", { x: left - 0.4 * size, y: placeY(tick) + 0.35 * size, "text-anchor": "end" }, written(tick, 4));
  }
  element(svg, "path", { class: "axis", d: `M${left},${top} V${bottom} H${right}` });
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  element(element(svg, "clipPath", { id: clip }), "rect", { x: left, y: top, width: right - left, height: bottom - top });
  const inside = element(svg, "g", { "clip-path": `url(#${clip})` }), hovered = [];
  for (const [glyph, points] of drawn) {
    if (!points.length) continue;
    const style = { class: glyph.ink ? "line ink" : "line", "stroke-dasharray": glyph.dash, style: `--width: ${glyph.width}` };
    if (glyph.mark) {
      for (const [x, y] of points) element(svg, "path", {
        class: "mark", d: glyph.mark, transform: `translate(${placeX(x)},${placeY(y)}) scale(${size / 13})` });
    } else if (glyph.kind === "line") {
      const placed = points.map(([x, y]) => [placeX(x), placeY(y)]);
      element(inside, "path", { ...style, d: "M" + placed.map((point) => point.map((each) => each.toFixed(1))).join("L") });
      if (glyph.hover) points.forEach((point, k) => hovered.push([...placed[k], ...point]));
    } else {
      const d = glyph.kind === "level" ? `M${left},${placeY(points[0])} H${right}` : `M${placeX(points[0])},${top} V${bottom}`;
      element(inside, "path", { ...style, d });
    }
  }
  const ring = element(svg, "circle", { class: "ring", r: size / 3, visibility: "hidden" });
  const note = element(svg, "text", { class: "note", y: top + size, x: right - 0.4 * size, "text-anchor": "end" });
  svg.onpointermove = (event) => {
    const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let nearest = null, least = 40 ** 2;
    for (const point of hovered) {
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
