// Numbers as people read them, spelled as the package spells them (units.py).
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const SCALES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function digits(value) {
  const size = Math.abs(value);
  return value.toLocaleString("en", { minimumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0, maximumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0 });
}

export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  for (const [unit, name] of TIMES) if (Math.abs(value) >= unit) return `${digits(value / unit)} ${name}`;
  return `${value.toExponential(1)} s`;
}

export function amount(value, unit = "B") {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  for (const [scale, prefix] of SCALES) if (Math.abs(value) >= scale) return `${digits(value / scale)} ${prefix}${unit}`;
  return `${digits(value)} ${unit}`;
}

export const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "±") + seconds(Math.abs(value));
export const count = (value) => Math.round(value).toLocaleString("en");
export const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
