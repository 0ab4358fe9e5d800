// Every strategy by its closed form: a table with bars, drawn anew with every move of a slider.
import { h, put, $ } from "./dom.js";
import { bar, legend, picture, scaled, GROUPS, groupsOf } from "./bars.js";
import { seconds, amount, count } from "./units.js";

export function drawStrategies(setting, found, open) {
  const known = found.rows.filter((row) => row.iteration_s !== null);
  const longest = Math.max(...known.map((row) => row.iteration_s), 0);
  // one strategy that is far behind must not make the others unreadable
  const sorted = known.map((row) => row.iteration_s).sort((a, b) => a - b);
  const most = Math.min(longest, 8 * (sorted[0] ?? 1));
  const used = Object.keys(GROUPS).filter((name) => known.some((row) => groupsOf(row)[name] > 0));
  $("strategy-why").textContent = "";
  $("strategies-title").textContent = `Strategies on ${count(setting.devices)} devices`;
  put($("strategy-bars"),
    legend(used, GROUPS),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "strategies" }, h("table", { class: "strategy-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "strategy"), h("th", { scope: "col", class: "bars" }, "time per step"), h("th", { scope: "col", class: "right" }, "step"), h("th", { scope: "col", class: "right wide" }, "samples/s"), h("th", { scope: "col", class: "right wide" }, "memory"), h("th", { scope: "col", class: "wide" }, "split"))),
      h("tbody", {}, found.rows.filter((row) => row.strategy !== "serial" || row.feasible).map((row) => line(row, most, open))))));
}

function line(row, most, open) {
  const name = row.strategy === "serial" ? row.strategy : h("button", { type: "button", class: "plain", title: "Show it as a plan, layer by layer", onclick: () => open(row.strategy) }, row.strategy);
  if (row.iteration_s === null) return h("tr", { class: "no" }, h("th", { scope: "row" }, name), h("td", { colspan: "5", class: "small" }, `not possible: ${row.reason}`));
  return h("tr", { class: row.best ? "best" : row.feasible ? "" : "over", "data-strategy": row.strategy },
    h("th", { scope: "row" }, name, row.best ? h("span", { class: "tag good" }, "best") : null),
    h("td", { class: "bars" }, scaled(bar(groupsOf(row), row.iteration_s, GROUPS), row.iteration_s / most)),
    h("td", { class: "right num", title: `${seconds(row.low_s)} to ${seconds(row.high_s)}` }, seconds(row.iteration_s)),
    h("td", { class: "right num wide" }, count(row.samples_per_s)),
    h("td", { class: "right num wide" }, amount(row.memory_bytes), row.feasible ? null : h("span", { class: "tag bad", title: row.reason }, "does not fit")),
    h("td", { class: "small quiet wide" }, row.split));
}

export function drawScaling(found) {
  put($("strategy-curves"), picture(found.svg));
  put($("strategy-why"), found.verdict);
}

// Two ways to look at the strategies: bars at the chosen count, curves over all counts.
export function switchStrategies() {
  for (const button of document.querySelectorAll("[data-strategies]")) {
    button.addEventListener("click", () => {
      for (const other of document.querySelectorAll("[data-strategies]")) {
        other.setAttribute("aria-pressed", String(other === button));
        $(other.dataset.strategies).hidden = other !== button;
      }
    });
  }
}
