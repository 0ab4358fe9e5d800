// The page: one value, `description`, says what is shown; the address carries it.
import { $, h, put, notice } from "./dom.js";
import { ask, stream, Refused } from "./api.js";
import { Controls } from "./controls.js";
import { drawStrategies, drawScaling, switchStrategies } from "./strategies.js";
import { drawPlan, drawSearching, drawStopped, proven, STAGED } from "./plan.js";
import { drawEmpty, drawLayer, drawWaiting } from "./inspector.js";
import { drawCompare } from "./compare.js";
import { drawActions, drawCommands, download } from "./exports.js";
import { showLessons } from "./learn.js";
import { described, recalled, remember, LAYERWISE } from "./state.js";
import { seconds, count } from "./units.js";

const PLAN_DELAY = 500; // ms after the last move of a slider
const SETTLED = 600; // ms after a change, until every other slicing is priced anew
const MOST_PAST = 50;

class Studio {
  past = []; future = []; traces = []; opened = new Set(); figure = "layers"; exports = [["plan", "Plan (plan.json)"], ["cluster", "Cluster (cluster.toml)"], ["projection", "Projections (oracle.json)"], ["report", "Report (report.html)"]];
  #projecting = false; #wanted = null; #planning = null; #timer = 0; #asked = 0;

  async start() {
    const { description, kept } = recalled();
    this.description = description;
    this.choices = await ask("choices");
    this.controls = new Controls(this.choices, description.setting, { changed: (setting) => this.changedSetting(setting), opened: (added) => this.openUploaded(added), traced: (added) => this.addTrace(added) });
    this.traces = this.choices.uploads.filter((added) => added.kind === "trace");
    drawActions(this);
    switchStrategies();
    addEventListener("hashchange", () => this.route());
    this.route();
    this.project();
    this.scale();
    if (kept) this.recallKept(kept);
    if (location.search || !this.controls.openFirst()) this.plan();
  }

  route() {
    const view = ["plan", "compare", "learn"].find((name) => location.hash.slice(1).startsWith(name)) ?? "plan";
    for (const name of ["plan", "compare", "learn"]) $(`view-${name}`).hidden = name !== view;
    for (const link of document.querySelectorAll(".tabs a")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
    $("actions").hidden = view === "learn";
    document.title = `${{ plan: "Plan", compare: "Compare", learn: "Learn" }[view]} · slicewise studio`;
    if (view === "compare") this.compare();
    if (view === "learn") showLessons($("view-learn"), (part, progress) => stream("lessons", { part }, progress));
  }

  // -- the setting

  changedSetting(setting) {
    performance.mark("changed");
    this.description = { ...described(setting), strategy: this.description.strategy };
    this.#remember();
    this.project();
    clearTimeout(this.#timer);
    this.#planning?.abort();
    this.#timer = setTimeout(() => { this.scale(); this.plan(); }, PLAN_DELAY);
  }

  // One question at a time; what changed meanwhile is asked next.
  async project() {
    this.#wanted = this.description.setting;
    if (this.#projecting) return;
    this.#projecting = true;
    try {
      while (this.#wanted) {
        const setting = this.#wanted;
        this.#wanted = null;
        try {
          const found = await ask("project", { setting });
          this.projected = found;
          drawStrategies(setting, found, (strategy) => this.open(strategy));
        } catch (error) {
          this.#told(error, (message) => { this.projected = null; put($("strategy-bars"), h("p", { class: "error", role: "alert" }, message)); });
        }
        this.summarise();
        if (performance.getEntriesByName("changed").length) requestAnimationFrame(() => { performance.measure("redraw", "changed"); });
      }
    } finally {
      this.#projecting = false;
    }
  }

  async scale() {
    const { setting } = this.description;
    try {
      const found = await ask("scaling", { setting, weak: this.controls.keepPerDevice });
      if (setting === this.description.setting) drawScaling(found);
    } catch (error) {
      this.#told(error, (message) => put($("strategy-curves"), h("p", { class: "error" }, message)));
    }
  }

  summarise() {
    const best = this.projected?.rows.find((row) => row.best);
    const searched = this.view && this.description.strategy === LAYERWISE && !this.searching;
    put($("summary"),
      h("div", { class: "card" }, h("div", { class: "quiet small" }, "Best single strategy, by closed form"), best ? [h("div", { class: "figure-number", id: "best-step" }, seconds(best.iteration_s)), h("div", {}, h("b", {}, best.strategy), h("span", { class: "quiet" }, `, ${count(best.samples_per_s)} samples/s`))] : h("div", { class: "figure-number" }, "none fits")),
      h("div", { class: "card" }, h("div", { class: "quiet small" }, "Best plan, searched layer by layer"), searched
        ? [h("div", { class: "figure-number", id: "searched-step" }, seconds(this.view.predicted.iteration_s)), h("div", { class: "quiet" }, this.description.edits.length ? "changed by hand" : [proven(this.view.certificate), h("span", {}, `, ${count(this.view.predicted.samples_per_s)} samples/s`)])]
        : [h("div", { class: "figure-number quiet" }, "…"), h("div", { class: "quiet" }, this.searching ? [h("span", { class: "spin" }), "searching"] : "not searched yet")]));
  }

  // -- the plan

  async plan() {
    this.#planning?.abort();
    const controller = this.#planning = new AbortController();
    const { setting, strategy, fix, edits } = this.description;
    const selected = this.selected;
    Object.assign(this, { view: null, searching: true, past: [], future: [], before: null, paid: null, drawn: null });
    drawSearching(strategy, "asking", () => { controller.abort(); this.searching = false; drawStopped("You cancelled the search.", () => this.plan()); this.summarise(); });
    this.summarise();
    try {
      let view = await stream("plan", { setting, strategy, fix }, (text) => { const place = $("progress"); if (place) place.textContent = text; }, controller.signal);
      if (edits.length && !view.pipeline) view = { ...view, ...(await ask("price", { setting, bucket_bytes: view.bucket_bytes, slicings: withEdits(view, edits) }, controller.signal)) };
      this.view = view;
      this.searching = false;
      this.#drawn();
      if (selected && view.layers?.some((layer) => layer.name === selected)) this.select(selected, false);
      if (!$("view-compare").hidden) this.compare();
    } catch (error) {
      if (controller.signal.aborted) return;
      this.searching = false;
      this.#told(error, (message) => drawStopped(message, () => this.plan()));
    }
    this.summarise();
  }

  openUploaded(added) {
    this.#planning?.abort();
    clearTimeout(this.#timer);
    const { setting, ...view } = added.plan;
    this.description = { ...described({ ...this.controls.setting }), strategy: view.strategy };
    Object.assign(this, { view, searching: false, past: [], future: [], before: null, paid: null, drawn: null });
    this.#remember();
    this.#drawn();
    this.project();
    this.scale();
    this.summarise();
  }

  // The plan is another: what was looked at before is looked at again.
  #drawn() {
    if (this.figure === "layers" || (this.view.pipeline && !STAGED.includes(this.figure))) this.redraw(); else this.showFigure(this.figure);
  }

  open(strategy) {
    this.description = { ...described(this.description.setting), strategy };
    this.#remember();
    this.plan();
    $("plan").scrollIntoView({ block: "start" });
  }

  redraw() {
    drawPlan(this);
    if (this.layer && this.layer.name === this.selected) drawLayer(this, this.layer); else drawEmpty();
  }

  async showFigure(name) {
    this.figure = name;
    this.drawn = null;
    this.redraw();
    $("plan").querySelector(`[data-figure=${name}]`)?.focus({ preventScroll: true });
    if (name === "layers") return;
    const { view, traces } = this;
    try {
      const drawn = await ask("figure", { ...this.#question(), form: name, traces: name === "timeline" ? traces.map((one) => one.name) : [] });
      if (this.figure === name && this.view === view && this.traces === traces) { this.drawn = drawn; this.redraw(); $("plan").querySelector(`[data-figure=${name}]`)?.focus({ preventScroll: true }); }
    } catch (error) { this.#told(error, notice); }
  }

  // Measured steps stand below the predicted one; each file is a rank, or has several.
  addTrace(added) {
    this.traces = [...this.traces, added];
    this.figure = "timeline";
    location.hash = "#plan";
    if (this.view) { this.showFigure("timeline"); $("plan-figure").scrollIntoView({ block: "nearest" }); }
  }

  dropTrace(name) {
    this.traces = this.traces.filter((one) => one.name !== name);
    this.showFigure("timeline");
  }

  async select(name, focus = true) {
    this.selected = name;
    this.paid = null;
    for (const button of document.querySelectorAll("[data-layer-name]")) button.setAttribute("aria-pressed", String(button.dataset.layerName === name));
    drawWaiting(name);
    await this.#inspect(focus);
  }

  async #inspect(focus) {
    const mine = ++this.#asked;
    try {
      const found = await ask("layer", { ...this.#question(), layer: this.selected });
      if (mine !== this.#asked || !this.view) return;
      this.layer = found;
      drawLayer(this, found);
      if (focus && innerWidth < 1180) { $("inspector").scrollIntoView({ block: "start" }); $("layer-title").focus({ preventScroll: true }); }
    } catch (error) { this.#told(error, notice); }
  }

  async change(layer, letters) {
    performance.mark("sliced");
    try {
      const { paid, ...priced } = await ask("change", { ...this.#question(), layer, to: letters });
      this.#push();
      const before = this.view.predicted;
      this.view = { ...this.view, ...priced };
      this.description = { ...this.description, edits: [...this.description.edits.filter(([name]) => name !== layer), [layer, letters]] };
      Object.assign(this, { paid, before, drawn: null });
      this.layer = { ...this.layer, alternatives: this.layer.alternatives.map((row) => ({ ...row, current: row.letters === letters })) };
      this.#remember();
      this.redraw();
      performance.measure("resliced", "sliced");
      this.summarise();
      if (this.figure !== "layers") this.showFigure(this.figure);
      setTimeout(() => this.#inspect(false), SETTLED); // who tries one slicing after the other need not wait for all prices
    } catch (error) { this.#told(error, notice); }
  }

  #push() {
    this.past = [...this.past, this.#snapshot()].slice(-MOST_PAST);
    this.future = [];
  }

  #snapshot() { return { description: this.description, view: this.view }; }

  #restore(snapshot) {
    Object.assign(this, { ...snapshot, before: null, paid: null, drawn: null });
    this.#remember();
    this.redraw();
    this.summarise();
    if (this.figure !== "layers") this.showFigure(this.figure);
    if (this.selected) this.#inspect(false);
  }

  undo() {
    if (!this.past.length) return;
    this.future.push(this.#snapshot());
    this.#restore(this.past.pop());
  }

  redo() {
    if (!this.future.length) return;
    this.past.push(this.#snapshot());
    this.#restore(this.future.pop());
  }

  // The planner decides all layers but those that were changed by hand.
  bestGiven() {
    const fix = this.description.edits.map(([name, letters]) => `${name.replace(/[[\]*?]/g, "[$&]")}=${pin(letters, this.view.axes)}`);
    this.description = { ...described(this.description.setting), fix: [...new Set([...this.description.fix, ...fix])] };
    this.#remember();
    this.plan();
  }

  // -- two plans

  keep() {
    this.kept = this.#snapshot();
    this.#remember();
    notice("Kept as A. Change anything, then open Compare.");
  }

  async recallKept(description) {
    const { setting, strategy, fix, edits } = description;
    try {
      let view = await stream("plan", { setting, strategy, fix }, () => {});
      if (edits.length) view = { ...view, ...(await ask("price", { setting, bucket_bytes: view.bucket_bytes, slicings: withEdits(view, edits) })) };
      this.kept = { description, view };
      if (!$("view-compare").hidden) this.compare();
    } catch (error) { this.#told(error, notice); }
  }

  async compare() {
    drawCompare(this);
    if (!this.kept || !this.view) return;
    if (this.kept.view.pipeline || this.view.pipeline) { drawCompare(this, null, "A pipeline slices no layer: only the steps are compared."); return; }
    const side = ({ description, view }) => ({ setting: description.setting, bucket_bytes: view.bucket_bytes, slicings: view.slicings });
    try {
      drawCompare(this, await ask("compare", { before: side(this.kept), after: side(this) }));
    } catch (error) { this.#told(error, (message) => drawCompare(this, null, message)); }
  }

  swap() {
    const { description, view } = this.kept;
    this.controls.show(description.setting);
    this.#restore({ description, view });
    this.project();
    this.scale();
    location.hash = "#plan";
  }

  forget() { this.kept = null; this.#remember(); this.compare(); }

  // -- what leaves the page

  #question() {
    const { setting, strategy, fix, edits } = this.description;
    return { setting, strategy, fix, bucket_bytes: this.view?.bucket_bytes ?? null, slicings: this.view?.slicings ?? [], edited: edits.length > 0 };
  }

  async export(form) {
    if (form !== "cluster" && form !== "projection" && !this.view) { notice("There is no plan yet; wait for the search."); return; }
    try { await download({ ...this.#question(), form, traces: form === "report" ? this.traces.map((one) => one.name) : [] }); } catch (error) { this.#told(error, notice); }
  }

  async commands() {
    try {
      const { slicings, bucket_bytes, ...question } = this.#question();
      drawCommands((await ask("commands", question)).commands);
    } catch (error) { this.#told(error, notice); }
  }

  #remember() { remember(this.description, this.kept?.description); }

  #told(error, tell) {
    if (error instanceof Refused) tell(error.message);
    else if (error instanceof TypeError && /fetch/i.test(error.message)) tell("The server does not answer; is `slicewise studio` still running?");
    else if (error.name !== "AbortError") throw error;
  }
}

function withEdits(view, edits) {
  const slicings = [...view.slicings];
  for (const [name, letters] of edits) {
    const number = view.layers.findIndex((layer) => layer.name === name);
    for (const tied of view.ties.find((tie) => tie.includes(number)) ?? [number]) if (tied >= 0) slicings[tied] = letters;
  }
  return slicings;
}

function pin(letters, axes) {
  const degrees = {};
  [...letters].forEach((letter, number) => { if (letter !== "-") degrees[letter] = (degrees[letter] ?? 1) * axes[number].size; });
  return Object.entries(degrees).map(([letter, degree]) => `${letter}${degree}`).join("") || "whole";
}

const studio = new Studio();
studio.start().catch((error) => { put($("controls"), h("p", { class: "error", role: "alert" }, error.message)); });
