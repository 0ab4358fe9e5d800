// Two plans side by side, and what work each difference saves.
import { h, put, $ } from "./dom.js";
import { bar, legend, waitedOf, TERMS } from "./bars.js";
import { seconds, amount, count, signed } from "./units.js";
import { title } from "./plan.js";

export function drawCompare(studio, found, problem) {
  const place = $("view-compare");
  const { kept, view, description } = studio;
  if (!kept || !view) {
    put(place, h("div", { class: "card" }, h("h2", {}, "Compare two plans"), h("p", {}, "Open a plan, press ", h("b", {}, "Keep to compare"), ", then change the setting, the strategy or a layer. Both plans are then shown here."),
      h("p", {}, h("a", { href: "#plan" }, "To the plan"))));
    return;
  }
  const sides = [["A: kept", kept], ["B: now", { description, view }]];
  const most = Math.max(...sides.map(([, side]) => side.view.predicted.iteration_s));
  const used = Object.keys(TERMS).filter((name) => sides.some(([, side]) => waitedOf(side.view.predicted)[name] > 0));
  const change = view.predicted.iteration_s - kept.view.predicted.iteration_s;
  put(place,
    h("div", { class: "row spread", style: { "margin-bottom": "10px" } }, h("h2", {}, "B takes ", h("span", { class: change > 0 ? "up" : "down" }, change === 0 ? "as long as A" : `${seconds(Math.abs(change))} ${change > 0 ? "longer" : "less"} than A`)),
      h("div", { class: "row" }, h("button", { type: "button", onclick: () => studio.swap() }, "Open A again"), h("button", { type: "button", onclick: () => studio.forget() }, "Forget A"))),
    legend(used, TERMS),
    h("div", { class: "compare-grid" }, sides.map(([label, side]) => card(label, side, most))),
    problem ? h("p", { class: "error", role: "alert" }, problem) : found ? differences(found) : h("p", { class: "quiet" }, h("span", { class: "spin" }), "comparing layer by layer"));
}

function card(label, { description, view }, most) {
  const { setting } = description;
  const row = view.predicted;
  const waited = waitedOf(row);
  const facts = [["strategy", title(description.strategy) + (description.edits.length ? ", changed by hand" : "")], ["network", setting.model], ["cluster", `${setting.cluster}, ${count(setting.devices)} devices`], ["batch", count(setting.batch)], ["samples/s", count(row.samples_per_s)], ["memory per device", amount(row.peak_memory_bytes)], ["sent per step", amount(row.bytes_moved)], ...Object.entries(waited).filter(([, value]) => value > 0).map(([name, value]) => [TERMS[name], seconds(value)])];
  return h("section", { class: "card", "aria-label": label }, h("div", { class: "row spread" }, h("h3", {}, label), h("span", { class: "figure-number" }, seconds(row.iteration_s))),
    h("div", { class: "terms" }, h("div", { style: { width: `${(100 * row.iteration_s) / most}%` } }, bar(waited, row.iteration_s, TERMS))),
    h("table", {}, h("tbody", {}, facts.map(([name, value]) => h("tr", {}, h("th", { scope: "row", class: "small quiet" }, name), h("td", { class: "right num" }, value))))));
}

function differences(found) {
  if (!found.changes.length) return h("div", { class: "card" }, h("h3", {}, "Every layer is sliced alike"));
  const worth = new Map((found.differences ?? []).flatMap((each) => each.changes).map((each) => [each.layers.join(), each.worth_s]));
  return h("section", { class: "card" }, h("h3", {}, `${found.changes.length} stretches of layers differ`),
    h("p", { class: "small quiet" }, found.differences ? "Undone: extra work if only this change were reverted, also where it hides behind compute." : "Machine, batch or training differ too, so a change has no price of its own."),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "differences" }, h("table", { class: "strategy-table" }, h("thead", {}, h("tr", {}, ["layers", "A", "B", "undone"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, found.changes.map((each) => h("tr", {}, h("td", {}, each.layers.length > 1 ? `${each.layers[0]} … ${each.layers.at(-1)} (${each.layers.length})` : each.layers[0]), h("td", { class: "mono" }, each.before), h("td", { class: "mono" }, each.after), h("td", { class: "num" }, worth.has(each.layers.join()) ? signed(worth.get(each.layers.join())) : "–")))))));
}
