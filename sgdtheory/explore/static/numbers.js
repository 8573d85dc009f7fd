// How both pages write numbers, and where they put ticks.
"use strict";

// A number for a reader: 0.00123, 228, 1.02 × 10⁶.
function written(value, digits = 3) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "–";
  if (value < 0) return "−" + written(-value, digits);
  if (value === 0 || (value >= 1e-3 && value < 1e5)) {
    return String(Number.isInteger(value) ? value : Number(value.toPrecision(digits)));
  }
  let [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  mantissa = String(Number(mantissa));
  const power = "10" + String(Number(exponent)).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return mantissa === "1" ? power : `${mantissa} × ${power}`;
}

// At most `most` ticks of a logarithmic axis: powers of ten; within two decades multiples of them.
function ticksOf(start, end, most = 7) {
  const low = Math.min(start, end), high = Math.max(start, end);
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
