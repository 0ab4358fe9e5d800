// The setting: network, cluster, training, devices and batch.
import { h, put, $, notice } from "./dom.js";
import { upload, Refused } from "./api.js";
import { amount, count } from "./units.js";

const MOST_LOG_BATCH = 15;
const BUCKETS = [{ name: "", label: "the size that is fastest" }, ...[1, 4, 25, 100].map((size) => ({ name: String(size * 2 ** 20), label: `${size} MiB` }))];

export class Controls {
  // `changed` is told of another setting, `opened` of a plan that was uploaded, `traced` of a trace.
  constructor(choices, setting, { changed, opened, traced }) {
    Object.assign(this, { choices, setting, changed, opened, traced });
    this.networks = choices.networks.map((name) => ({ name, label: name }));
    this.clusters = [...choices.clusters];
    this.keepPerDevice = false;
    choices.uploads.forEach((added) => this.#offer(added));
    this.draw();
  }

  // Files that were named on the command line: the last of each kind is shown.
  openFirst() {
    const found = ["cluster", "graph", "plan"].map((kind) => this.choices.uploads.findLast((added) => added.kind === kind)).filter(Boolean);
    found.forEach((added) => this.#use(added));
    return found.length > 0;
  }

  get cluster() { return this.clusters.find((one) => one.name === this.setting.cluster) ?? this.clusters[0]; }

  set(values, { redraw = true } = {}) {
    this.setting = { ...this.setting, ...values };
    if (redraw) this.draw();
    this.changed(this.setting);
  }

  show(setting) { this.setting = setting; this.draw(); }

  draw() {
    const { setting, choices, cluster } = this;
    const focused = document.activeElement?.id;
    const select = (id, label, values, now, then) => h("div", { class: "field" }, h("label", { for: id }, label),
      h("select", { id, onchange: (event) => then(event.target.value) }, values.map(({ name, label: told }) => h("option", { value: name, selected: name === now }, told ?? name))));
    const plain = (names) => names.map((name) => ({ name }));
    put($("controls"),
      h("h2", {}, "Setting"),
      select("network", "Network", this.networks, setting.model, (model) => this.set({ model })),
      select("cluster", "Cluster", this.clusters.map((one) => ({ name: one.name, label: one.label ?? `${one.name} (${one.device})` })), setting.cluster, (name) => this.#useCluster(name)),
      this.#devices(), this.#batch(),
      h("div", { class: "check" }, h("input", { type: "checkbox", id: "per-device", checked: this.keepPerDevice, onchange: (event) => { this.keepPerDevice = event.target.checked; this.changed(this.setting); } }), h("label", { for: "per-device" }, "Keep samples per device")),
      h("div", { class: "two" },
        select("software", "Software", plain(choices.software), setting.software ?? cluster.software, (software) => this.set({ software })),
        select("dtype", "Dtype", plain(cluster.dtypes), setting.dtype, (dtype) => this.set({ dtype }))),
      h("details", { id: "more", open: this.more, ontoggle: (event) => { this.more = event.target.open; } }, h("summary", {}, "Training, links and memory"), h("div", {},
        h("div", { class: "two" },
          select("optimizer", "Optimizer", plain(choices.optimizer), setting.optimizer, (optimizer) => this.set({ optimizer })),
          select("batchnorm", "Batch norm", plain(choices.batchnorm), setting.batchnorm, (batchnorm) => this.set({ batchnorm }))),
        select("bucket", "Gradients summed together", BUCKETS, String(setting.bucket_bytes ?? ""), (size) => this.set({ bucket_bytes: size ? Number(size) : null })),
        h("div", { class: "check" }, h("input", { type: "checkbox", id: "recompute", checked: setting.recompute, onchange: (event) => this.set({ recompute: event.target.checked }) }), h("label", { for: "recompute" }, "Recompute cheap layers")),
        cluster.tiers.map((tier) => this.#tier(tier)),
        this.#number("memory", "Memory of a device, GB", (setting.memory_bytes ?? cluster.memory_bytes) / 1e9, (value) => this.set({ memory_bytes: Math.round(value * 1e9) })),
        h("button", { type: "button", onclick: () => this.set({ tiers: {}, memory_bytes: null }), disabled: !Object.keys(setting.tiers).length && setting.memory_bytes === null }, `Back to ${cluster.label ?? cluster.name}`))),
      this.#drop());
    if (focused) $(focused)?.focus();
  }

  #useCluster(name) {
    const cluster = this.clusters.find((one) => one.name === name);
    const counts = cluster.counts;
    const devices = counts.reduce((best, each) => (Math.abs(Math.log2(each / this.setting.devices)) < Math.abs(Math.log2(best / this.setting.devices)) ? each : best), counts[0]);
    const dtype = cluster.dtypes.includes(this.setting.dtype) ? this.setting.dtype : "fp32";
    this.set({ cluster: name, devices, dtype, tiers: {}, memory_bytes: null, software: null });
  }

  #devices() {
    const { setting, cluster } = this;
    const counts = cluster.counts;
    const place = Math.max(0, counts.findLastIndex((each) => each <= setting.devices));
    const told = (value) => `${count(value)} devices`;
    const number = h("input", { type: "number", id: "devices-number", min: "1", max: "65536", value: setting.devices, "aria-label": "Number of devices", onchange: (event) => this.#toDevices(Number(event.target.value)) });
    return h("div", { class: "field" }, h("label", { for: "devices" }, `Devices (${cluster.node} in a node)`), h("div", { class: "pair" },
      h("input", { type: "range", id: "devices", min: "0", max: String(counts.length - 1), value: String(place), "aria-valuetext": told(setting.devices),
        oninput: (event) => { const value = counts[Number(event.target.value)]; event.target.setAttribute("aria-valuetext", told(value)); number.value = value; this.#toDevices(value, false); } }),
      number));
  }

  #toDevices(devices, redraw = true) {
    if (!Number.isInteger(devices) || devices < 1) { notice("Devices must be a positive whole number."); this.draw(); return; }
    const batch = this.keepPerDevice ? Math.max(1, Math.round((this.setting.batch * devices) / this.setting.devices)) : this.setting.batch;
    if (batch !== this.setting.batch && $("batch-number")) { $("batch-number").value = batch; $("batch").value = Math.log2(batch); }
    this.set({ devices, batch }, { redraw });
  }

  #batch() {
    const { setting } = this;
    const told = (value) => `${count(value)} samples`;
    const number = h("input", { type: "number", id: "batch-number", min: "1", max: "1048576", value: setting.batch, "aria-label": "Samples per step", onchange: (event) => {
      const value = Number(event.target.value);
      if (Number.isInteger(value) && value > 0) this.set({ batch: value }); else { notice("A batch is a positive whole number."); this.draw(); }
    } });
    return h("div", { class: "field" }, h("label", { for: "batch" }, "Batch over all devices"), h("div", { class: "pair" },
      h("input", { type: "range", id: "batch", min: "0", max: String(MOST_LOG_BATCH), step: "1", value: String(Math.round(Math.log2(setting.batch))), "aria-valuetext": told(setting.batch),
        oninput: (event) => { const batch = 2 ** Number(event.target.value); event.target.setAttribute("aria-valuetext", told(batch)); number.value = batch; this.set({ batch }, { redraw: false }); } }),
      number));
  }

  #tier(tier) {
    const own = this.setting.tiers[tier.name] ?? {};
    const change = (field, value) => this.set({ tiers: { ...this.setting.tiers, [tier.name]: { ...own, [field]: value } } });
    return h("div", { class: "two" },
      this.#number(`rate-${tier.name}`, `${tier.name}: GB/s`, (own.bytes_per_s ?? tier.bytes_per_s) / 1e9, (value) => change("bytes_per_s", value * 1e9)),
      this.#number(`latency-${tier.name}`, "latency, µs", (own.latency_s ?? tier.latency_s) * 1e6, (value) => change("latency_s", value / 1e6)));
  }

  #number(id, label, value, then) {
    return h("div", { class: "field" }, h("label", { for: id }, label), h("input", { type: "number", id, min: "0", step: "any", value: String(Number(value.toPrecision(6))), onchange: (event) => {
      const given = Number(event.target.value);
      if (given > 0) then(given); else { notice(`${label}: must be above 0.`); this.draw(); }
    } }));
  }

  #drop() {
    const input = h("input", { type: "file", id: "file", accept: ".json,.gz,.toml", multiple: true, hidden: true, onchange: () => this.#upload(input.files) });
    const place = h("div", { class: "drop", ondragover: (event) => { event.preventDefault(); place.classList.add("over"); }, ondragleave: () => place.classList.remove("over"),
      ondrop: (event) => { event.preventDefault(); place.classList.remove("over"); this.#upload(event.dataTransfer.files); } },
    "Drop a graph, a plan or traces (.json) or a cluster (.toml), or ", h("button", { type: "button", id: "choose-file", onclick: () => input.click() }, "choose a file"), ". It stays on this machine.", input,
    h("div", { id: "upload-error", class: "error", role: "alert", hidden: true }));
    return place;
  }

  async #upload(files) {
    $("upload-error").hidden = true;
    for (const file of files) {
      try {
        if (file.size > this.choices.largest_bytes) throw new Refused(`${file.name}: ${amount(file.size)}; at most ${amount(this.choices.largest_bytes)} are read`);
        const added = await upload(file);
        this.#offer(added);
        this.#use(added);
        notice(added.kind === "trace" ? `${added.label}: ${added.steps > 1 ? `${added.steps} steps` : "a step"} of ${added.ranks.length > 1 ? `${added.ranks.length} ranks` : "a rank"}. The timeline shows one.` : `${added.label}: read as a ${added.kind}.`);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        const told = $("upload-error");
        told.textContent = error.message;
        told.hidden = false;
        return;
      }
    }
  }

  #offer(added) {
    if (added.kind === "graph") this.networks.push({ name: added.name, label: `${added.label} (uploaded)` });
    if (added.cluster) this.clusters.push({ ...added.cluster, label: `${added.label} (uploaded)` });
    if (added.kind === "plan") this.networks.push({ name: added.name, label: `${added.label} (uploaded plan)` });
  }

  #use(added) {
    if (added.kind === "graph") this.set({ model: added.name });
    if (added.kind === "cluster") this.#useCluster(added.name);
    if (added.kind === "plan") { this.setting = { ...this.setting, tiers: {}, memory_bytes: null, ...added.plan.setting }; this.draw(); this.opened(added); }
    if (added.kind === "trace") this.traced(added);
  }
}
