// Stacked bars, their legend, and figures that the server drew.
import { h } from "./dom.js";
import { seconds } from "./units.js";

export const GROUPS = { compute: "compute", gradient: "gradient exchange", layerwise: "layer-wise collectives", halo: "halo exchange", p2p: "transfers between stages" };
export const TERMS = { compute: "compute", update: "weight update", transfer: "activations between layers", halo: "borders (halo)", reduce: "norm statistics", sync: "gradient exchange that is waited for", waiting: "waiting for shared links", bubble: "waiting of stages" };

export function bar(parts, total, words) {
  const told = Object.entries(parts).filter(([, value]) => value > 0).map(([name, value]) => `${words[name] ?? name} ${seconds(value)}`).join(", ");
  return h("div", { class: "bar", role: "img", "aria-label": told || "nothing", title: told },
    Object.entries(parts).filter(([, value]) => value > 0).map(([name, value]) => h("i", { style: { width: `${(100 * value) / total}%`, background: `var(--${name})` } })));
}

// As wide as its share of the longest that is shown; one that is longer fades out.
export function scaled(own, share) {
  const long = share > 1.0001;
  return h("div", { class: long ? "faded" : "", title: long ? "longer than shown" : null, style: { width: `${Math.min(100, 100 * share)}%` } }, own);
}

export function legend(names, words) {
  return h("ul", { class: "legend" }, names.map((name) => h("li", {}, h("i", { style: { background: `var(--${name})` } }), words[name] ?? name)));
}

export const groupsOf = (row) => ({ compute: row.compute_s, gradient: row.communication.gradient_s, layerwise: row.communication.layerwise_s, halo: row.communication.halo_s, p2p: row.communication.p2p_s });

// What a step spends on each term; of gradients what backward does not hide, and the rest of the step as waiting.
export function waitedOf(row) {
  const found = { compute: row.compute_s ?? 0, update: row.update_s ?? 0, transfer: row.transfer_s ?? 0, halo: row.halo_s ?? 0, reduce: row.reduce_s ?? 0, sync: row.exposed_sync_s ?? row.sync_s ?? 0 };
  const left = row.iteration_s - Object.values(found).reduce((all, value) => all + value, 0);
  if (row.bubble_s !== undefined) found.bubble = Math.max(0, left);
  else if (left > 1e-3 * row.iteration_s) found.waiting = left;
  return found;
}

// The server's own SVG: parsed as a picture, and put in without what could run.
export function picture(svg) {
  const found = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  for (const element of found.querySelectorAll("script, foreignObject")) element.remove();
  return h("div", { class: "figure", tabindex: "0", role: "group", "aria-label": "figure, scrolls sideways" }, document.importNode(found, true));
}
