// The plan: how it was found, what it costs, and its layers.
import { h, put, $ } from "./dom.js";
import { bar, legend, picture, scaled, waitedOf, TERMS } from "./bars.js";
import { chips, mainLetter, WORDS } from "./slices.js";
import { seconds, amount, count, signed, percent } from "./units.js";
import { LAYERWISE } from "./state.js";
import { zoomable } from "./zoom.js";

const MOST_IN_BLOCK = 24;
const OPTIMUM = "the additive optimum";

export const STAGED = ["slicings", "timeline"]; // of a pipeline
export const FIGURES = [["layers", "Layers"], ["network", "Network"], ["slicings", "Slicings"], ["costs", "Costs"], ["memory", "Memory"], ["timeline", "Timeline"]];
export const title = (strategy) => (strategy === LAYERWISE ? "layer-wise" : strategy);

export function drawSearching(strategy, progress, cancel) {
  put($("plan"), h("div", { class: "progress" }, h("h2", { id: "plan-title" }, strategy === LAYERWISE ? "The best plan is being searched" : `The plan of ${strategy}`),
    h("button", { type: "button", id: "cancel", onclick: cancel }, "Cancel")),
  h("p", { class: "quiet" }, h("span", { class: "spin", "aria-hidden": "true" }), h("span", { id: "progress", class: "num" }, progress)));
}

export function drawStopped(message, again) {
  put($("plan"), h("h2", { id: "plan-title" }, "No plan"), h("p", { class: "error", role: "alert" }, message), h("button", { type: "button", onclick: again }, "Search again"));
}

export function drawPlan(studio) {
  const { view, description } = studio;
  const predicted = view.predicted;
  const edited = description.edits.length > 0;
  put($("plan"),
    h("div", { class: "plan-head" },
      h("div", {}, h("h2", { id: "plan-title" }, `Plan: ${title(description.strategy)}`, edited ? ", changed by hand" : ""),
        h("div", { class: "figure-number", id: "plan-step" }, seconds(predicted.iteration_s)),
        h("div", { class: "quiet small num" }, `${seconds(predicted.low_s)} to ${seconds(predicted.high_s)} per step, ${count(predicted.samples_per_s)} samples/s, ${amount(predicted.peak_memory_bytes)} per device, ${amount(predicted.bytes_moved)} sent${view.bucket_bytes ? `, gradients in buckets of ${view.bucket_bytes / 2 ** 20} MiB` : ""}`)),
      proof(view, description)),
    h("div", { class: "plan-tools" },
      h("label", { class: "quiet small", for: "plan-strategy" }, "Show"),
      h("select", { id: "plan-strategy", onchange: (event) => studio.open(event.target.value) }, [LAYERWISE, ...studio.choices.strategies.filter((one) => one.planned).map((one) => one.name)].map((name) => h("option", { value: name, selected: name === description.strategy }, title(name)))),
      h("button", { type: "button", id: "undo", disabled: !studio.past.length, onclick: () => studio.undo() }, "Undo"),
      h("button", { type: "button", id: "redo", disabled: !studio.future.length, onclick: () => studio.redo() }, "Redo"),
      h("button", { type: "button", id: "best-given", disabled: !edited, title: "Search again with the layers that you changed as they are", onclick: () => studio.bestGiven() }, "Best given this"),
      h("button", { type: "button", id: "keep", onclick: () => studio.keep() }, "Keep to compare")),
    terms(view, studio.before),
    body(studio));
}

// What is proven about a plan, in one phrase.
export function proven(certificate = {}) {
  const { optimal, gap, space_log10: digits, returned } = certificate;
  if (optimal === undefined) return "nothing is proven";
  const many = digits ? `of 10^${Math.round(digits)} plans` : "plan";
  if (!optimal) return `proven: within ${percent(gap)} of the cheapest ${many}`;
  return (returned ?? OPTIMUM) === OPTIMUM ? `proven: the cheapest ${many}` : `with overlap faster than the proven cheapest ${many}`;
}

function proof(view, { strategy, fix, edits }) {
  const { certificate = {} } = view;
  if (edits.length) return h("div", { class: "proof" }, h("span", { class: "tag warn", id: "proof" }, `${edits.length} ${edits.length > 1 ? "layers" : "layer"} changed by hand: nothing is proven`));
  if (strategy !== LAYERWISE || !("optimal" in certificate)) return h("p", { class: "quiet small" }, "One rule for every layer: nothing was searched.");
  const others = Object.entries(view.baselines ?? {}).filter(([, row]) => row.feasible && row.iteration_s);
  const best = others.sort((a, b) => a[1].iteration_s - b[1].iteration_s)[0];
  const speed = best ? best[1].iteration_s / view.predicted.iteration_s : null;
  const faster = Object.entries(view.references ?? {}).filter(([, row]) => row.feasible && row.iteration_s < 0.995 * view.predicted.iteration_s);
  return h("div", { class: "proof" },
    h("div", { class: "row" }, h("span", { class: `tag ${certificate.optimal ? "good" : "warn"}`, id: "proof" }, proven(certificate)),
      speed ? h("span", { class: "tag" }, speed > 1.005 ? `${speed.toFixed(2)} times as fast as ${best[0]}` : `as fast as ${best[0]}`) : null,
      faster.map(([name, row]) => h("span", { class: "tag warn" }, `${name} is faster: ${seconds(row.iteration_s)}`))),
    h("details", {}, h("summary", { class: "small" }, "What is proven"), h("ul", {},
      h("li", {}, `Space: ${certificate.space}.`),
      certificate.configurations ? h("li", {}, `${count(certificate.configurations)} slicings of single layers were priced.`) : null,
      h("li", {}, `Returned: ${certificate.returned ?? "the optimum"}.`),
      fix.length ? h("li", {}, `Fixed: ${fix.join(", ")}.`) : null,
      h("li", {}, "Cheapest: the smallest sum of all terms, without overlap."),
      certificate.simulated_lower_s ? h("li", {}, `With overlap, no plan takes less than ${seconds(certificate.simulated_lower_s)}.`) : null)));
}

function terms(view, before) {
  const rows = [["this plan", view.predicted], ...(before ? [["before", before]] : []), ...Object.entries({ ...view.baselines, ...view.references }).filter(([, row]) => row.iteration_s)];
  const most = Math.min(Math.max(...rows.map(([, row]) => row.iteration_s)), 6 * view.predicted.iteration_s);
  const used = Object.keys(TERMS).filter((name) => rows.some(([, row]) => waitedOf(row)[name] > 0));
  return h("div", {}, legend(used, TERMS), h("table", { class: "strategy-table terms-table", "aria-label": "Predicted step by term" }, h("tbody", {}, rows.map(([name, row]) => h("tr", {},
    h("th", { scope: "row", class: "small" }, name), h("td", { class: "bars" }, scaled(bar(waitedOf(row), row.iteration_s, TERMS), row.iteration_s / most)),
    h("td", { class: "right num" }, seconds(row.iteration_s), row.feasible === false ? h("span", { class: "tag bad", title: row.reason }, "does not fit") : null),
    h("td", { class: "right num small quiet wide" }, name === "this plan" ? "" : signed(row.iteration_s - view.predicted.iteration_s)))))));
}

function stages(view) {
  const { pipeline } = view;
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "stages" }, h("p", {}, `${pipeline.stages.length} stages, ${pipeline.micro_batches} micro-batches, schedule ${pipeline.schedule}. A pipeline slices no layer, so there is none to change.`),
    h("table", {}, h("thead", {}, h("tr", {}, ["stage", "from", "to", "layers", "forward", "backward"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, pipeline.stages.map((stage, number) => h("tr", {}, h("td", {}, String(number)), h("td", {}, stage.first), h("td", {}, stage.last), h("td", { class: "num" }, String(stage.layers)), h("td", { class: "num" }, seconds(stage.forward_s)), h("td", { class: "num" }, seconds(stage.backward_s)))))));
}

function body(studio) {
  const { view, drawn } = studio;
  const known = view.pipeline ? FIGURES.filter(([name]) => name === "layers" || STAGED.includes(name)).map(([name, label]) => [name, name === "layers" ? "Stages" : label]) : FIGURES;
  const figure = known.some(([name]) => name === studio.figure) ? studio.figure : "layers";
  const tabs = h("div", { class: "chips", role: "group", "aria-label": "What to show of the plan" }, known.map(([name, label]) => h("button", { type: "button", class: "chip", "aria-pressed": String(figure === name), "data-figure": name, onclick: () => studio.showFigure(name) }, label)));
  const left = h("div", { id: "plan-figure", class: figure === "network" ? "natural" : "" }, figure === "timeline" ? traces(studio) : null, figure === "layers" ? (view.pipeline ? stages(view) : layers(studio)) : drawn ? picture(drawn.svg) : h("p", { class: "quiet" }, h("span", { class: "spin" }), "drawing"));
  zoomable(left);
  left.addEventListener("click", (event) => {
    const found = event.target.closest("[data-layer]");
    if (found && found.closest("svg")) studio.select(found.getAttribute("data-layer"));
  });
  const beside = !view.pipeline && ["layers", "network"].includes(figure);
  return h("div", {}, h("div", { style: { "margin-top": "14px" } }, tabs), h("div", { class: `plan-body${beside ? "" : " wide-body"}` }, left, beside ? h("aside", { class: "inspector", id: "inspector", "aria-label": "Layer", tabindex: "-1" }) : null));
}

// What was measured, beside what is predicted.
function traces(studio) {
  const { drawn } = studio;
  const told = drawn?.measured_s ? h("span", {}, h("b", { class: "num" }, seconds(drawn.measured_s)), " measured, ", h("b", { class: "num" }, seconds(drawn.predicted_s)), " predicted: ", h("b", { class: "num" }, `${(drawn.measured_s / drawn.predicted_s).toFixed(2)} times`)) : null;
  return h("div", { class: "traces", id: "traces" }, told,
    studio.traces.map((one) => h("span", { class: "tag" }, one.label, " ", h("button", { type: "button", class: "plain remove", "aria-label": `Remove ${one.label}`, onclick: () => studio.dropTrace(one.name) }, "×"))),
    studio.traces.length ? null : h("span", { class: "quiet" }, "Drop a trace of ", h("code", {}, "slicewise run --trace"), " or torch.profiler on the page: the measured step is drawn below. Several files are several ranks."));
}

// Blocks of layers: `layer3.4.conv1` is in `layer3.4`, `features.0` in `features`. One that has too many is split.
export function blocks(layers) {
  return split(layers.map((layer, number) => ({ ...layer, number })).filter((layer) => layer.shown), 1);
}

function split(layers, depth) {
  const found = [];
  for (const layer of layers) {
    const words = layer.name.split(".").slice(0, -1);
    const key = words.slice(0, depth).join(".");
    if (found.at(-1)?.key === key) found.at(-1).layers.push(layer); else found.push({ key, layers: [layer], deeper: false });
    found.at(-1).deeper ||= words.length > depth;
  }
  return found.flatMap((group) => (group.deeper && group.layers.length > MOST_IN_BLOCK ? split(group.layers, depth + 1) : [group]));
}

const total = (layer) => Object.values(layer.terms).reduce((all, value) => all + value, 0);

function layers(studio) {
  const { view, description } = studio;
  const edited = new Set(description.edits.map(([name]) => name));
  const groups = blocks(view.layers);
  const most = Math.max(...view.layers.map(total), 1e-12);
  const letters = new Set([...view.slicings.join("")].filter((letter) => letter !== "-"));
  return h("div", {},
    h("ul", { class: "legend" }, [...letters].sort().map((letter) => h("li", {}, h("i", { style: { background: `var(--${letter.toLowerCase()})` } }), `${letter}: ${WORDS[letter]}`))),
    h("div", { class: "layers" }, groups.map((group) => block(group, groups.length <= 3, { studio, edited, most }))));
}

function block(group, open, context) {
  const { studio } = context;
  const { view } = studio;
  const label = group.key || (group.layers.length > 1 ? `${group.layers[0].name} … ${group.layers.at(-1).name}` : group.layers[0].name);
  const runs = [];
  for (const layer of group.layers) {
    const letter = mainLetter(view.slicings[layer.number]);
    if (runs.at(-1)?.letter === letter) runs.at(-1).count += 1; else runs.push({ letter, count: 1 });
  }
  const chosen = group.layers.some((layer) => layer.name === studio.selected);
  const shown = open || chosen || studio.opened.has(label);
  const place = h("details", { open: shown, ontoggle: () => {
    if (place.open) studio.opened.add(label); else studio.opened.delete(label);
    if (place.open && place.children.length === 1) place.append(...group.layers.map((layer) => line(layer, group, context)));
  } },
  h("summary", {}, h("span", { class: "name", title: label }, group.key ? ending(group.key) : label, " ", h("span", { class: "count" }, `${group.layers.length}`)),
    h("span", { class: "strip", "aria-hidden": "true" }, runs.map((run) => h("i", { class: `s-${run.letter}`, style: { flex: String(run.count) } }, run.letter === "whole" ? "" : run.letter))),
    h("span", { class: "right num small" }, seconds(group.layers.reduce((all, layer) => all + total(layer), 0)))),
  shown ? group.layers.map((layer) => line(layer, group, context)) : null);
  return place;
}

// Drawn when its block is opened: a network has hundreds.
function line(layer, group, { studio, edited, most }) {
  const { view } = studio;
  return h("button", { type: "button", class: `layer${edited.has(layer.name) ? " edited" : ""}`, "aria-pressed": String(layer.name === studio.selected), "data-layer-name": layer.name, onclick: () => studio.select(layer.name) },
    h("span", { class: "name", title: `${layer.name} (${layer.kind})` }, shortened(layer.name, group.key), h("span", { class: "count" }, ` ${layer.kind}`)), chips(view.slicings[layer.number], view.axes),
    h("span", { class: "own-bar", "aria-hidden": "true" }, h("span", { class: "bar", style: { width: `${Math.max(1, (100 * total(layer)) / most)}%` } }, Object.entries(layer.terms).map(([name, value]) => h("i", { style: { width: `${(100 * value) / total(layer)}%`, background: `var(--${name})` } })))),
    h("span", { class: "right num small" }, seconds(total(layer))));
}

// Of a long name its end, where blocks differ.
const ending = (key) => { const last = key.split(".").at(-1); return key.length > 15 ? `…${last}` : key; };
const shortened = (name, key) => (key && name.startsWith(`${key}.`) ? name.slice(key.length + 1) : name);
