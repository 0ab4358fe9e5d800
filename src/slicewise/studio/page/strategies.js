// Every strategy by its closed form: a table with bars, drawn anew with every move of a slider.
import { h, put, $ } from "./dom.js";
import { bar, legend, picture, GROUPS, groupsOf } from "./bars.js";
import { seconds, amount, count } from "./units.js";

export function drawStrategies(setting, found, open) {
  const known = found.rows.filter((row) => row.iteration_s !== null);
  const longest = Math.max(...known.map((row) => row.iteration_s), 0);
  // one strategy that is far behind must not make the others unreadable
  const sorted = known.map((row) => row.iteration_s).sort((a, b) => a - b);
  const most = Math.min(longest, 8 * (sorted[0] ?? 1));
  const used = Object.keys(GROUPS).filter((name) => known.some((row) => groupsOf(row)[name] > 0));
  put($("strategies"),
    h("div", { class: "row spread" }, h("h2", { id: "strategies-title" }, `Strategies on ${count(setting.devices)} devices`), h("span", { class: "quiet small" }, "closed forms, changing as you move a slider")),
    legend(used, GROUPS),
    h("div", { class: "scroll" }, h("table", { class: "strategy-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "strategy"), h("th", { scope: "col", class: "bars" }, "time per step"), h("th", { scope: "col", class: "right" }, "step"), h("th", { scope: "col", class: "right wide" }, "samples/s"), h("th", { scope: "col", class: "right wide" }, "memory"), h("th", { scope: "col", class: "wide" }, "split"))),
      h("tbody", {}, found.rows.filter((row) => row.strategy !== "serial" || row.feasible).map((row) => line(row, most, open))))));
}

function line(row, most, open) {
  const name = row.strategy === "serial" ? row.strategy : h("button", { type: "button", class: "plain", title: "Show it as a plan, layer by layer", onclick: () => open(row.strategy) }, row.strategy);
  if (row.iteration_s === null) return h("tr", { class: "no" }, h("th", { scope: "row" }, name), h("td", { colspan: "5", class: "small" }, `not possible: ${row.reason}`));
  const shown = Math.min(1, row.iteration_s / most);
  const cut = row.iteration_s > most * 1.0001;
  return h("tr", { class: row.best ? "best" : row.feasible ? "" : "over", "data-strategy": row.strategy },
    h("th", { scope: "row" }, name, row.best ? h("span", { class: "tag good" }, "best") : null),
    h("td", { class: "bars" }, h("div", { style: { width: `${100 * shown}%` } }, bar(groupsOf(row), row.iteration_s, GROUPS)), cut ? h("span", { class: "quiet small" }, "longer than shown") : null),
    h("td", { class: "right num", title: `${seconds(row.low_s)} to ${seconds(row.high_s)}` }, seconds(row.iteration_s)),
    h("td", { class: "right num wide" }, count(row.samples_per_s)),
    h("td", { class: "right num wide" }, amount(row.memory_bytes), row.feasible ? null : h("span", { class: "tag bad", title: row.reason }, "does not fit")),
    h("td", { class: "small quiet wide" }, row.split));
}

export function drawScaling(found) {
  const place = $("scaling");
  place.hidden = false;
  put(place, h("h2", { id: "scaling-title" }, "Over device counts"), picture(found.svg));
}
