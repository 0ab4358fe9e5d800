// Drawings of the lessons: what each device holds, what it computes, and the messages between them.
//
//   x [samples x channels]  *  w [channels x filters]  ->  y [samples x filters]      every cell an image, or a kernel
//
// Strong: held. Outline: not here. Striped: a summand, to be added up. Pale with a dotted border: borrowed (halo).
import { h, s } from "./dom.js";

const CELLS = 4, SIZE = 18, GAP = 2, GRID = CELLS * (SIZE + GAP);
const BOX = { width: 312, height: 138, across: 112, down: 62 };
const NARROW = 600; // px of the page: fewer devices, one below the other
export const most = () => (innerWidth < NARROW ? 2 : 4); // devices that are drawn

const COLOURS = { x: "var(--tx)", w: "var(--tw)", y: "var(--ty)" };
const share = (number, many, at) => at >= (number * CELLS) / many && at < ((number + 1) * CELLS) / many;

// What a device holds of a grid: a function of row and column -> { part: [from, to], look }.
export const whole = (look = "held") => () => ({ look });
export const none = () => () => null;
export const rows = (number, many, look = "held") => (row) => (share(number, many, row) ? { look } : null);
export const columns = (number, many, look = "held") => (_, column) => (share(number, many, column) ? { look } : null);
export const both = (first, second) => (row, column) => (first(row, column) && second(row, column) ? first(row, column) : null);
export const strips = (number, many, halo = false) => () => ({ look: "held", part: [number / many, (number + 1) / many], halo: halo ? [number > 0, number < many - 1] : [false, false] });

// Round in a ring, so that neighbours are neighbours; or (`grouped`) row by row.
export function places(many, grouped = false) {
  const wide = many > 2 || (many > 1 && innerWidth >= NARROW) ? 2 : 1;
  return Array.from({ length: many }, (_, number) => {
    const row = Math.floor(number / wide), column = number % wide;
    return { column: row && !grouped ? wide - 1 - column : column, row };
  }).map(({ column, row }) => ({ column, row, x: 10 + column * (BOX.width + BOX.across), y: 8 + row * (BOX.height + BOX.down) }));
}

// frame: { devices: [{ x, w, y, names }], messages: [{ from, to, of, label }], note }
export function drawFrame(frame, label) {
  const many = frame.devices.length;
  const at = places(many, frame.grouped);
  const width = 10 + BOX.width + Math.max(...at.map((place) => place.x));
  const height = 10 + BOX.height + Math.max(...at.map((place) => place.y));
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, class: `scene${width > 400 ? " long-scene" : ""}`, role: "img", "aria-label": label, style: { "max-width": `${Math.round(width * 1.3)}px` } });
  drawing.append(s("defs", {}, Object.entries(COLOURS).map(([name, colour]) => s("pattern", { id: `part-${name}`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 5, height: 5, style: { fill: "var(--card)" } }), s("rect", { width: 2.6, height: 5, style: { fill: colour } })))));
  frame.devices.forEach((device, number) => drawing.append(box(device, at[number], frame.titles?.[number] ?? `device ${number}`)));
  (frame.messages ?? []).forEach((message, number) => drawing.append(flight(message, at, number)));
  return drawing;
}

const LEFT = { x: 14, w: 14 + GRID + 22, y: 14 + 2 * (GRID + 22) };

function box(device, place, title) {
  const names = { x: "x", w: "w", y: "y", ...device.names };
  const back = names.y.startsWith("dL/"); // both gradients follow from that of y
  const top = 46;
  return s("g", { transform: `translate(${place.x} ${place.y})` },
    s("rect", { width: BOX.width, height: BOX.height, rx: 9, class: "device" }),
    s("text", { x: 12, y: 19, class: "device-name" }, title),
    Object.keys(LEFT).map((name) => [
      s("text", { x: LEFT[name] + GRID / 2, y: 38, class: "tensor-name" }, names[name]),
      grid(name, device[name] ?? none(), LEFT[name], top)]),
    s("text", { x: LEFT.w - 11, y: top + GRID / 2 + 5, class: "sign" }, back ? "," : "∗"),
    s("text", { x: LEFT.y - 11, y: top + GRID / 2 + 5, class: "sign" }, back ? "←" : "→"));
}

function grid(name, held, left, top) {
  const found = [];
  for (let row = 0; row < CELLS; row += 1) {
    for (let column = 0; column < CELLS; column += 1) {
      const x = left + column * (SIZE + GAP), y = top + row * (SIZE + GAP);
      const cell = held(row, column);
      found.push(s("rect", { x, y, width: SIZE, height: SIZE, rx: 2, class: "cell" }));
      if (!cell) continue;
      const [from, to] = cell.part ?? [0, 1];
      const fill = cell.look === "partial" ? `url(#part-${name})` : COLOURS[name];
      found.push(s("rect", { x, y: y + from * SIZE, width: SIZE, height: (to - from) * SIZE, rx: cell.part ? 0 : 2, class: `full ${cell.look}`, style: { fill } }));
      const [above, below] = cell.halo ?? [false, false];
      if (above) found.push(s("rect", { x, y: y + from * SIZE - 2.6, width: SIZE, height: 2.6, class: "halo", style: { fill: COLOURS[name] } }));
      if (below) found.push(s("rect", { x, y: y + to * SIZE, width: SIZE, height: 2.6, class: "halo", style: { fill: COLOURS[name] } }));
    }
  }
  return found;
}

// A message: an arrow between two boxes, and parcels that follow it. Two that pass each other keep apart.
function flight({ from, to, of, label }, at, number) {
  const [a, b] = [at[from], at[to]];
  const aside = (from < to ? -1 : 1) * 9;
  const level = a.row === b.row;
  const middle = LEFT[of] + GRID / 2;
  const right = a.column < b.column, down = a.row < b.row;
  const start = level ? { x: a.x + (right ? BOX.width + 4 : -4), y: a.y + 46 + GRID / 2 + aside } : { x: a.x + middle + aside, y: a.y + (down ? BOX.height + 4 : -4) };
  const end = level ? { x: b.x + (right ? -4 : BOX.width + 4), y: b.y + 46 + GRID / 2 + aside } : { x: b.x + middle + aside, y: b.y + (down ? -4 : BOX.height + 4) };
  const words = level ? { x: (start.x + end.x) / 2, y: start.y - 14 } : { x: start.x + 28, y: (start.y + end.y) / 2 + 4, style: { "text-anchor": "start" } };
  return flying(start, end, of, label, words, number);
}

function flying(start, end, of, label, words, number) {
  const path = `M${start.x} ${start.y}L${end.x} ${end.y}`;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const angle = (Math.atan2(end.y - start.y, end.x - start.x) * 180) / Math.PI;
  return s("g", { class: "flight", style: { color: COLOURS[of] } },
    s("path", { d: path, class: "wire" }), s("path", { d: "M-9 -5L0 0L-9 5Z", transform: `translate(${end.x} ${end.y}) rotate(${angle})`, class: "tip" }),
    label ? s("text", { ...words, class: "parcel-name" }, label) : null,
    still ? null : [0, 0.5].map((later) => s("rect", { x: -6, y: -6, width: 12, height: 12, rx: 2, class: "parcel" }, s("animateMotion", { dur: "1.8s", begin: `${-(later * 1.8) - number * 0.13}s`, repeatCount: "indefinite", path }))));
}

export const ring = (many, of, label) => (many < 2 ? [] : many === 2 ? [{ from: 0, to: 1, of, label }, { from: 1, to: 0, of }] : [[0, 1], [1, 2], [2, 3], [3, 0]].map(([from, to], number) => ({ from, to, of, label: number ? "" : label })));
export const neighbours = (many, of, label) => Array.from({ length: Math.max(0, many - 1) }, (_, number) => [{ from: number, to: number + 1, of, label: number ? "" : label }, { from: number + 1, to: number, of }]).flat();

// A pipeline's schedule: forward of every segment, then backward, stage by stage.
export function drawSchedule(stages, segments, step) {
  const width = 700, left = 76, row = 34, columns = 2 * (stages + segments - 1);
  const unit = (width - left - 8) / columns;
  const drawing = s("svg", { viewBox: `0 0 ${width} ${stages * row + 46}`, class: "scene long-scene", role: "img", "aria-label": `${stages} stages and ${segments} segments: of ${columns} time slots each stage works in ${2 * segments}, and waits in ${columns - 2 * segments}.` });
  const upto = step === 0 ? 0 : step === 1 ? stages + segments - 1 : columns;
  for (let stage = 0; stage < stages; stage += 1) {
    const y = 8 + stage * row;
    drawing.append(s("text", { x: left - 10, y: y + 20, class: "axis-name", "text-anchor": "end" }, `stage ${stage}`), s("rect", { x: left, y, width: unit * columns, height: row - 6, class: "cell" }));
    for (let segment = 0; segment < segments; segment += 1) {
      const forward = stage + segment, backward = (stages + segments - 1) + (stages - 1 - stage) + segment;
      for (const [at, kind] of [[forward, "F"], [backward, "B"]]) {
        if (at >= upto) continue;
        drawing.append(s("g", { class: "turn", style: { "animation-delay": `${Math.min(3, at * 0.09)}s` } }, s("rect", { x: left + at * unit + 0.6, y: y + 1, width: Math.max(0.8, unit - 1.2), height: row - 8, rx: 2, style: { fill: kind === "F" ? "var(--n)" : "#5b4a9c" } }),
          unit > 15 ? s("text", { x: left + (at + 0.5) * unit, y: y + 19, class: "turn-name" }, `${segment}`) : null));
      }
    }
  }
  drawing.append(s("text", { x: left, y: stages * row + 28, class: "axis-name" }, "time →   blue: forward, violet: backward, empty: the device waits"));
  return drawing;
}

// Stages in a row: the layers that each device holds, what travels forward, and what comes back.
export function drawStages(stages, layers) {
  const many = Math.min(stages, 4), box = 132, gap = 44, width = many * box + (many - 1) * gap + 16;
  const drawing = s("svg", { viewBox: `0 0 ${width} 168`, class: "scene long-scene", role: "img", "aria-label": `The layers in ${stages} stages, a device each; outputs travel forward, gradients back.`, style: { "max-width": `${Math.round(width * 1.2)}px` } });
  for (let stage = 0; stage < many; stage += 1) {
    const x = 8 + stage * (box + gap), own = layers.slice(Math.floor((stage * layers.length) / many), Math.floor(((stage + 1) * layers.length) / many));
    drawing.append(s("rect", { x, y: 8, width: box, height: 150, rx: 9, class: "device" }), s("text", { x: x + 12, y: 28, class: "device-name" }, `device ${stage}`),
      ...own.flatMap((name, number) => [s("rect", { x: x + 12, y: 40 + number * 30, width: box - 24, height: 24, rx: 4, class: "full", style: { fill: COLOURS.w } }), s("text", { x: x + box / 2, y: 57 + number * 30, class: "slice-name s-ink-F" }, name)]));
    if (stage) for (const [of, y, label] of [["y", 66, "y"], ["x", 112, "dL/dy"]]) drawing.append(flying({ x: of === "y" ? x - gap + 3 : x - 3, y }, { x: of === "y" ? x - 3 : x - gap + 3, y }, of, stage === 1 ? label : "", { x: x - gap / 2, y: y - 11 }, stage));
  }
  return drawing;
}

// Layers in a row, each coloured by how it is sliced; between them what a change of slicing moves.
export function drawLayers(layers, of, seconds) {
  const unit = 88, width = layers.length * unit + 12, most = Math.max(...layers.map((layer) => of(layer).seconds));
  const moves = (layer) => of(layer).moved > 1e-7;
  const drawing = s("svg", { viewBox: `0 0 ${width} 232`, class: "scene long-scene", role: "img", "aria-label": layers.map((layer) => `${layer.name} ${of(layer).told}${moves(layer) ? `, after moving ${seconds(of(layer).moved)}` : ""}`).join("; ") });
  layers.forEach((layer, number) => {
    const { told, seconds: taken, moved } = of(layer);
    const x = 8 + number * unit, tall = Math.max(3, (96 * taken) / most);
    const parts = told.split(" ");
    if (number && moves(layer)) drawing.append(flying({ x: x - 15, y: 30 }, { x: x - 1, y: 30 }, "w", "", {}, number), s("text", { x: x - 8, y: 64, class: "tensor-name" }, seconds(moved)));
    else if (number) drawing.append(s("path", { d: `M${x - 14} 30H${x - 2}`, class: "wire", style: { color: "var(--quiet)" } }));
    parts.forEach((part, place) => {
      const letter = "NFCDHWAQK".includes(part[0]) ? part[0] : "whole";
      drawing.append(s("rect", { x: x + (place * 72) / parts.length, y: 10, width: 72 / parts.length, height: 40, class: `s-box s-fill-${letter}` }), s("text", { x: x + ((place + 0.5) * 72) / parts.length, y: 35, class: `s-ink-${letter} slice-name` }, part));
    });
    drawing.append(s("rect", { x: x + 20, y: 188 - tall, width: 32, height: tall, rx: 2, class: "cost" }), s("text", { x: x + 36, y: 182 - tall, class: "tensor-name" }, seconds(taken)), s("text", { x: x + 36, y: 205, class: "tensor-name strong" }, layer.name.replace("features", "conv").replace("classifier", "fc")), s("text", { x: x + 36, y: 221, class: "tensor-name" }, layer.kind));
  });
  return drawing;
}

export function drawBars(rows, seconds) {
  const most = Math.max(...rows.map((row) => row.value));
  return h("div", { class: "race", role: "img", "aria-label": rows.map((row) => `${row.name} ${seconds(row.value)}`).join(", ") }, rows.map((row) => h("div", { class: "race-row" }, h("span", {}, row.name), h("span", {}, h("i", { class: row.best ? "winner" : "", style: { width: `${(100 * row.value) / most}%` } })), h("b", { class: "num" }, seconds(row.value)))));
}
