// One layer: how it is cut, what it pays, and every other way to slice it, with the whole step's price.
import { h, put, $ } from "./dom.js";
import { picture, TERMS } from "./bars.js";
import { chips, WORDS } from "./slices.js";
import { seconds, amount, signed } from "./units.js";

const FIRST = 40;

export function drawEmpty() {
  const place = $("inspector");
  if (place) put(place, h("h3", {}, "No layer is chosen"), h("p", { class: "quiet" }, "Choose a layer to see how its tensors are cut, what it pays, and what every other slicing would cost."));
}

export function drawWaiting(name) {
  const place = $("inspector");
  if (place) put(place, h("h3", {}, name), h("p", { class: "quiet" }, h("span", { class: "spin" }), "pricing every legal slicing"));
}

export function drawLayer(studio, found) {
  const place = $("inspector");
  if (!place) return;
  const { view } = studio;
  const number = view.layers.findIndex((layer) => layer.name === found.name);
  const now = found.alternatives.find((row) => row.current);
  put(place,
    h("h3", { id: "layer-title", tabindex: "-1" }, found.name),
    h("div", { class: "row" }, h("span", { class: "tag" }, found.kind), chips(view.slicings[number], view.axes)),
    found.tied.length ? h("p", { class: "small quiet" }, `Shares weights with ${found.tied.join(", ")}: they change together.`) : null,
    studio.paid ? paid(studio) : null,
    alternatives(studio, found, now),
    h("section", {}, h("h4", {}, "How its tensors are cut"), picture(found.svg),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "tensors" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "whole", "on a device", ""].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, found.tensors.map((tensor) => h("tr", {}, h("th", { scope: "row" }, tensor.name), h("td", { class: "num" }, tensor.shape.join(" × ")), h("td", { class: "num" }, tensor.part.join(" × ")), h("td", { class: "quiet" }, tensor.told))))))),
    h("section", {}, h("h4", {}, "What it pays"), h("table", {}, h("tbody", {}, Object.entries(found.terms).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: "dot", style: { display: "inline-block", width: "10px", height: "10px", "border-radius": "2px", "margin-right": "6px", background: `var(--${name})` } }), name === "sync" ? "gradient exchange, hidden or not" : TERMS[name] ?? name), h("td", { class: "right num" }, seconds(value))))))));
}

function paid(studio) {
  const rows = studio.paid.filter((row) => row.before_s !== row.after_s).sort((a, b) => Math.abs(b.after_s - b.before_s) - Math.abs(a.after_s - a.before_s));
  const change = studio.view.predicted.iteration_s - studio.before.iteration_s;
  return h("section", { id: "paid" }, h("h4", {}, "Your change"),
    h("p", {}, "The step takes ", h("b", { class: change > 0 ? "up" : "down" }, signed(change)), `: ${seconds(studio.before.iteration_s)} before, ${seconds(studio.view.predicted.iteration_s)} now.`),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "who pays" }, h("table", {}, h("thead", {}, h("tr", {}, ["who pays", "before", "now", "change"].map((name, place) => h("th", { scope: "col", class: place ? "right" : "" }, name)))),
      h("tbody", {}, rows.slice(0, 8).map((row) => h("tr", {}, h("th", { scope: "row", title: moved(row) }, row.name), h("td", { class: "right num" }, seconds(row.before_s)), h("td", { class: "right num" }, seconds(row.after_s)), h("td", { class: `right num ${row.after_s > row.before_s ? "up" : "down"}` }, signed(row.after_s - row.before_s))))))),
    rows.length ? h("p", { class: "small quiet" }, moved(rows[0])) : h("p", { class: "small quiet" }, "No layer pays more or less."),
    h("button", { type: "button", onclick: () => studio.undo() }, "Undo"));
}

function moved(row) {
  const names = new Set([...Object.keys(row.before), ...Object.keys(row.after)]);
  const told = [...names].map((name) => [name, (row.after[name] ?? 0) - (row.before[name] ?? 0)]).filter(([, value]) => Math.abs(value) > 1e-9).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3);
  return `${row.name}: ${told.map(([name, value]) => `${signed(value)} ${TERMS[name] ?? name}`).join(", ")}`;
}

function alternatives(studio, found, now) {
  const axes = studio.view.axes;
  const letters = [...new Set(found.alternatives.flatMap((row) => [...row.letters].filter((letter) => letter !== "-")))].sort();
  let only = "", shown = FIRST;
  const list = h("div", { class: "alternatives", role: "group", "aria-label": "Other slicings of this layer" });
  const more = h("button", { type: "button", onclick: () => { shown += 200; redraw(); } });
  const filters = h("div", { class: "chips", role: "group", "aria-label": "Only slicings along" });
  function redraw() {
    const rows = found.alternatives.filter((row) => !only || row.letters.includes(only));
    put(filters, ["", ...letters].map((letter) => h("button", { type: "button", class: "chip", "aria-pressed": String(only === letter), title: letter ? WORDS[letter] : "", onclick: () => { only = letter; shown = FIRST; redraw(); } }, letter || "all")));
    put(list, rows.slice(0, shown).map((row) => h("button", { type: "button", class: "alternative", "aria-pressed": String(row.current), "data-letters": row.letters, title: `${seconds(row.iteration_s)} per step; this layer keeps ${amount(row.memory_bytes)}`, onclick: () => { if (!row.current) studio.change(found.name, row.letters); } },
      chips(row.letters, axes), h("span", { class: "right num small" }, seconds(row.iteration_s)), h("span", { class: `right num small ${row.current ? "quiet" : row.iteration_s > now.iteration_s ? "up" : "down"}` }, row.current ? "now" : signed(row.iteration_s - now.iteration_s)))));
    more.textContent = `Show more (${rows.length - shown} left)`;
    more.hidden = rows.length <= shown;
  }
  redraw();
  const rank = found.alternatives.indexOf(now) + 1;
  return h("section", {}, h("h4", {}, `All ${found.alternatives.length} slicings, with the whole step under each`),
    h("p", { class: "small quiet" }, found.alternatives.length === 1 ? "Only this one is legal: what devices feed and get follows from the batch." : `With all other layers as they are, it is ${rank === 1 ? "sliced in the fastest way" : `number ${rank} by speed`}. Choose another to try it.`), filters, list, more);
}
