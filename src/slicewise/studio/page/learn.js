// Learn: one lesson at a time, step by step, with sliders, the formula with its numbers, and a closing question.
import { h, put } from "./dom.js";
import { LESSONS } from "./lessons.js";
import { amount, count, seconds } from "./units.js";

const START = { devices: 8, batch: 512, rate: 5, length: 1024, segments: 8, split: null, "searched-devices": 8, "searched-batch": 512 };
const PARTS = { compute: "compute", gradient: "gradient exchange", layerwise: "layer-wise collectives", halo: "halo exchange", p2p: "transfers between stages" };
let learned = null;

// `load(part, progress)` brings the tables: "closed" at once, "searched" for the last two lessons.
export async function showLessons(place, load) {
  learned ??= new Learn(place, load);
  await learned.open();
}

class Learn {
  constructor(place, load) {
    Object.assign(this, { place, load, number: 0, step: 0, values: { ...START }, answers: {}, tables: null });
  }

  async open() {
    const asked = /^#learn\/(\d+)(?:\.(\d+))?/.exec(location.hash);
    if (asked && location.hash !== this.at) {
      this.number = Math.min(LESSONS.length, Math.max(1, Number(asked[1]))) - 1;
      this.step = Math.max(0, Math.min(Number(asked[2] ?? 1) - 1, this.lesson.steps.length));
      this.at = location.hash;
      this.#begin();
    }
    if (!this.tables) {
      this.#wait("making the tables of the lessons");
      try { this.tables = await this.load("closed", (text) => this.#wait(text)); } catch (error) { this.#fail(error); return; }
    }
    if (this.lesson.searched && !this.tables.searched) {
      this.#wait("searching the plans that this lesson shows");
      try { this.tables.searched = await this.#search(); } catch (error) { this.#fail(error); return; }
    }
    this.draw();
    this.#search().then((found) => { this.tables.searched ??= found; }, () => {}); // while the first lessons are read
  }

  // The plans of the last two lessons take a while: asked for once, told to who waits.
  #search() {
    this.searching ??= this.load("searched", (text) => { if (this.lesson.searched && !this.tables.searched) this.#wait(text); }).catch((error) => { this.searching = null; throw error; });
    return this.searching;
  }

  get lesson() { return LESSONS[this.number]; }

  #wait(text) {
    put(this.place, h("div", { class: "card" }, h("h2", {}, "Learn"), h("p", { class: "quiet", role: "status" }, h("span", { class: "spin" }), text)));
  }

  #fail(error) {
    put(this.place, h("div", { class: "card" }, h("h2", {}, "Learn"), h("p", { class: "error", role: "alert" }, error.message), h("button", { type: "button", onclick: () => this.open() }, "Try again")));
  }

  go(number, step = 0) {
    this.number = number;
    this.step = step;
    this.#begin();
    this.#remember();
    this.open().then(() => document.getElementById("lesson-title")?.focus({ preventScroll: true }));
    scrollTo({ top: 0 });
  }

  toStep(step) {
    this.step = step;
    if (step >= this.lesson.steps.length) this.#begin();
    this.#remember();
    this.draw();
    document.getElementById(step >= this.lesson.steps.length ? "question-title" : "step-title")?.focus({ preventScroll: true });
  }

  // The sliders stand where the question asks for them.
  #begin() { Object.assign(this.values, this.lesson.question.start, { split: null }); }

  #remember() {
    this.at = `#learn/${this.number + 1}.${this.step + 1}`;
    history.replaceState(null, "", `${location.search}${this.at}`);
  }

  draw() {
    const { lesson } = this;
    this.#settle();
    put(this.place, h("div", { class: "learn" },
      h("nav", { class: "lesson-list card", "aria-label": "Lessons" }, h("h2", {}, "Learn"), h("ol", {}, LESSONS.map((one, number) => h("li", {}, h("button", { type: "button", class: "plain", "aria-current": number === this.number ? "step" : null, onclick: () => this.go(number) }, one.title, this.answers[one.id] ? h("span", { class: "tag good", title: "answered" }, "✓") : null)))),
        h("p", { class: "small quiet" }, lesson.about?.(this.tables) ?? `${this.tables.network} on ${this.tables.device} GPUs, joined by one switch, latency ${seconds(this.tables.latency_s)}.`)),
      h("article", { class: "lesson card", "aria-labelledby": "lesson-title" },
        h("p", { class: "quiet small" }, `Lesson ${this.number + 1} of ${LESSONS.length}`), h("h1", { id: "lesson-title", tabindex: "-1" }, lesson.title), h("p", { class: "lead" }, lesson.lead),
        h("div", { class: "lesson-body" },
          h("div", {}, this.#steps(), h("div", { class: "stage", id: "stage", tabindex: "0", role: "group", "aria-label": "Drawing" })),
          h("div", { class: "side" }, this.#sliders(), h("div", { id: "formula", "aria-live": "polite" }))),
        this.#walk())));
    this.update();
  }

  // Values that this lesson's tables have.
  #settle() {
    const { values, tables, lesson } = this;
    if (lesson.controls.includes("segments")) {
      if (values.devices < 2) values.devices = 2;
      const known = Object.keys(tables.tables.pipeline[values.rate][values.batch][values.devices].segments ?? {}).map(Number);
      if (known.length && !known.includes(values.segments)) values.segments = known.reduce((best, each) => (Math.abs(each - values.segments) < Math.abs(best - values.segments) ? each : best));
    }
    if (lesson.controls.includes("split")) {
      if (values.devices < 4) values.devices = 4;
      const { splits } = tables.tables["data+filter"][values.rate][values.batch][values.devices];
      if (!splits?.[values.split]) values.split = Object.keys(splits)[0];
    }
  }

  update() {
    const { lesson, tables, values, step } = this;
    const at = Math.min(step, lesson.steps.length - 1);
    const row = lesson.row(tables, values, at);
    put(document.getElementById("stage"), lesson.scene(tables, values, at), h("p", { class: "small quiet" }, lesson.drawn?.(values, at) ?? ""));
    put(document.getElementById("formula"), row.reason ? h("p", { class: "error" }, `Not possible: ${row.reason}.`) : this.#formula(lesson.formula(tables, values, row, at), row),
      lesson.compared ? h("table", { class: "compared" }, h("tbody", {}, lesson.compared(tables, values).map(([name, other]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "num" }, other.reason ? h("span", { class: "quiet small" }, other.reason) : seconds(other.step)))))) : null);
  }

  // What the signs of the formulas that are shown mean, with their values.
  #signs(terms) {
    const { tables } = this;
    const used = terms.map((term) => term.form).join(" ");
    const words = { α: `latency of a link, ${seconds(tables.latency_s)}`, β: "bytes per second of a link", δ: `bytes of a number, ${tables.item_bytes}`, p: "devices", B: "samples", S: "segments", L: "tokens of a sample", d: `channels, ${tables.attention.channels}`, "|w|": "weights", "|y|": "numbers of an output, per sample" };
    const known = Object.entries({ ...words, B: this.lesson.id === "attention" ? `samples, ${tables.attention.batch}` : words.B }).filter(([sign]) => (sign.length > 1 ? used.includes(sign) : new RegExp(`(^|[^\\p{L}|])${sign}([^\\p{L}|]|$)`, "u").test(used)));
    return known.length ? h("p", { class: "small quiet signs" }, known.map(([sign, told], number) => [number ? "; " : "", h("b", {}, sign), ` ${told}`]), ".") : null;
  }

  #formula(terms, row) {
    const { lesson } = this;
    const step = row.step;
    const parts = Object.entries(PARTS).filter(([name]) => row[name] > 0);
    return h("div", { class: "formula" },
      h("div", { class: "row spread" }, h("h3", {}, lesson.taken ?? "A step takes"), h("b", { class: "figure-number", id: "lesson-step" }, seconds(step))),
      parts.length ? [h("div", { class: "bar tall", role: "img", "aria-label": parts.map(([name, told]) => `${told} ${seconds(row[name])}`).join(", ") }, parts.map(([name]) => h("i", { style: { width: `${(100 * row[name]) / step}%`, background: `var(--${name})` } }))),
        h("ul", { class: "legend" }, parts.map(([name, told]) => h("li", {}, h("i", { style: { background: `var(--${name})` } }), `${told} ${seconds(row[name])}`)))] : null,
      terms.map((term) => h("div", { class: "term" }, h("div", { class: "row spread" }, h("b", {}, term.name), term.value === null ? null : h("b", { class: "num" }, seconds(term.value))), term.form ? h("div", { class: "math" }, term.form) : null, term.numbers ? h("div", { class: "math numbers num" }, `= ${term.numbers}`) : null)),
      this.#signs(terms.filter((term) => term.form)),
      row.memory ? h("p", { class: "small quiet" }, `Memory of a device: ${amount(row.memory)}${row.memory > this.tables.facts.memory_bytes ? ", more than it has" : ""}.`) : null,
      row.split ? h("p", { class: "small quiet" }, `Split: ${row.split}.`) : null);
  }

  #steps() {
    const { lesson, step } = this;
    const at = Math.min(step, lesson.steps.length - 1);
    return h("div", { class: "step" }, h("div", { class: "dots", role: "group", "aria-label": "Steps" }, lesson.steps.map(([name], number) => h("button", { type: "button", class: "dot-button", "aria-current": number === at ? "step" : null, "aria-label": `Step ${number + 1}: ${name}`, onclick: () => this.toStep(number) }, String(number + 1)))),
      h("h2", { id: "step-title", tabindex: "-1" }, lesson.steps[at][0]), h("p", { class: "step-text" }, lesson.steps[at][1]));
  }

  #sliders() {
    const { tables, values, lesson } = this;
    const known = {
      devices: ["Devices p", tables.devices, count], batch: ["Batch B", tables.batches, count], rate: ["Links β", tables.rates, (value) => `${value} GB/s`], length: ["Tokens L", tables.attention.lengths, count],
      segments: ["Segments S", Object.keys(tables.tables.pipeline[values.rate]?.[values.batch]?.[values.devices]?.segments ?? { 1: 0 }).map(Number), count],
      split: ["p1 x p2", Object.keys(tables.tables["data+filter"][values.rate]?.[values.batch]?.[values.devices]?.splits ?? {}), String],
      "searched-devices": ["Devices p", tables.searched?.devices ?? [], count], "searched-batch": ["Batch B", tables.searched?.batches ?? [], count],
    };
    const least = lesson.controls.includes("segments") ? 2 : lesson.controls.includes("split") ? 4 : 1;
    return h("div", { class: "sliders" }, lesson.controls.map((name) => {
      const [label, all, told] = known[name];
      const options = name === "devices" ? all.filter((value) => value >= least) : all;
      const out = h("output", { class: "num", for: `slider-${name}` }, told(values[name]));
      return h("div", { class: "slider" }, h("label", { for: `slider-${name}` }, label), h("input", { type: "range", id: `slider-${name}`, min: "0", max: String(options.length - 1), value: String(options.indexOf(values[name])), "aria-valuetext": told(values[name]), oninput: (event) => {
        values[name] = options[Number(event.target.value)];
        out.textContent = told(values[name]);
        event.target.setAttribute("aria-valuetext", told(values[name]));
        const before = `${values.segments} ${values.split}`;
        this.#settle();
        if (["devices", "batch"].includes(name) && (lesson.controls.includes("segments") || lesson.controls.includes("split")) && `${values.segments} ${values.split}` !== before) { this.draw(); document.getElementById(`slider-${name}`)?.focus(); } else this.update();
      } }), out);
    }));
  }

  #walk() {
    const { lesson, step, number } = this;
    const asking = step >= lesson.steps.length;
    const last = number === LESSONS.length - 1;
    return h("div", {},
      asking ? this.#question() : null,
      h("div", { class: "walk row spread" },
        h("button", { type: "button", disabled: number === 0 && step === 0, onclick: () => (step > 0 ? this.toStep(step - 1) : this.go(number - 1, LESSONS[number - 1].steps.length)) }, "Back"),
        asking ? (last ? h("p", { id: "the-end" }, h("b", {}, "That was the last lesson."), " Now plan a network of your own.") : h("button", { type: "button", class: "main", id: "next", onclick: () => this.go(number + 1) }, `Next: ${LESSONS[number + 1].title}`))
          : h("button", { type: "button", class: "main", id: "next", onclick: () => this.toStep(step + 1) }, step + 1 < lesson.steps.length ? "Next" : "To the question")));
  }

  #question() {
    const { lesson, tables } = this;
    const { question } = lesson;
    const answer = question.answer(tables);
    const told = h("div", { role: "status", class: "verdict" });
    const judge = (given) => {
      const right = given === answer;
      if (right) this.answers[lesson.id] = true;
      put(told, h("p", {}, h("span", { class: `tag ${right ? "good" : "warn"}` }, right ? "Right" : "Not quite"), right ? ` ${question.why(tables)}` : " Move the sliders and look again."));
    };
    return h("section", { class: "question", "aria-labelledby": "question-title" }, h("h2", { id: "question-title", tabindex: "-1" }, "A question that the sliders answer"), h("fieldset", {}, h("legend", {}, question.text),
      h("div", { class: "options" }, question.options(tables).map((option, number) => h("label", { class: "option" }, h("input", { type: "radio", name: `answer-${lesson.id}`, value: option, onchange: () => judge(option), id: `answer-${number}` }), h("span", {}, option))))), told);
  }
}
