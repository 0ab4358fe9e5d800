// The lessons: words, pictures, formulas and questions. Every number comes from the tables that the package made.
import { both, columns, drawBars, drawFrame, drawLayers, drawSchedule, drawStages, most, neighbours, ring, rows, strips, whole } from "./scenes.js";
import { amount, count, percent, seconds } from "./units.js";

const million = (value) => `${(value / 1e6).toPrecision(3)} M`;
const shown = (p) => Math.min(p, most());
const each = (many, device) => Array.from({ length: many }, (_, number) => device(number));
const drawn = (p) => (p > most() ? `${most()} of ${p} devices are drawn.` : "");
const back = { x: "dL/dx", w: "dL/dw", y: "dL/dy" };

function allReduce(t, v, items, name) {
  const bytes = t.item_bytes, p = v.devices;
  return { name, form: `2 (p − 1) (α + |w| δ / (p β))`, numbers: `2 × ${p - 1} × (${seconds(t.latency_s)} + ${million(items)} × ${bytes} B / (${p} × ${v.rate} GB/s))`, value: p < 2 ? 0 : 2 * (p - 1) * (t.latency_s + (items * bytes) / (p * v.rate * 1e9)) };
}

function gathers(t, v) {
  const p = v.devices, bytes = t.item_bytes, { messages, handed_on: items } = t.facts;
  return { name: "collectives of layers", form: "3 (p − 1) Σ (α + B |y| δ / (p β))", numbers: `3 × ${p - 1} × (${messages} × ${seconds(t.latency_s)} + ${v.batch} × ${million(items)} × ${bytes} B / (${p} × ${v.rate} GB/s))`, value: 3 * (p - 1) * (messages * t.latency_s + (v.batch * items * bytes) / (p * v.rate * 1e9)) };
}

const computed = (row) => ({ name: "compute", form: "Σ (forward + backward) of a device's part + update", numbers: "", value: row.compute });
const cutOf = (step) => (step === 0 ? "samples" : step < 3 ? "heads" : "queries");
const firstOf = (values, good) => values.find(good);

export const LESSONS = [
  {
    id: "data", title: "Data parallelism", controls: ["devices", "batch", "rate"],
    lead: "Every device has the whole network and a share of the samples. What they learn must be added up.",
    steps: [
      ["Who holds what", "Rows of x are samples, columns are channels. Each device holds some samples (rows) and all weights."],
      ["Forward", "Each device computes y for its own samples. Nobody needs anything of another device."],
      ["Backward", "Each device finds dL/dw for its own samples only. These are summands (striped): every device has a different one."],
      ["All-reduce", "The summands are added up round a ring: 2 (p − 1) messages of |w| / p each. Afterwards all hold the same gradient."],
      ["Update", "Every device changes its own copy of the weights in the same way. The next step can begin."],
    ],
    row: (t, v) => t.tables.data[v.rate][v.batch][v.devices],
    scene: (t, v, step) => {
      const many = shown(v.devices);
      return drawFrame({ devices: each(many, (n) => ({ x: rows(n, many), w: step === 2 ? whole("partial") : whole(), y: step > 0 ? rows(n, many) : undefined, names: step === 2 || step === 3 ? back : {} })), messages: step === 3 ? ring(many, "w", "dL/dw") : [] }, `Data parallelism, step ${step + 1}. ${drawn(v.devices)}`);
    },
    drawn: (v) => drawn(v.devices),
    formula: (t, v, row) => [computed(row), allReduce(t, v, t.facts.weights, "gradient exchange")],
    question: {
      text: "8 devices, links of 5 GB/s: from which batch on is less than half of the step spent on gradients?", start: { devices: 8, rate: 5 },
      options: (t) => [...t.batches.map(count), "from none of them"],
      answer: (t) => { const found = firstOf(t.batches, (b) => { const row = t.tables.data[5][b][8]; return row.gradient / row.step < 0.5; }); return found ? count(found) : "from none of them"; },
      why: (t) => `The all-reduce takes ${seconds(t.tables.data[5][t.batches[0]][8].gradient)} whatever the batch is; compute grows with it. Larger batches hide the exchange.`,
    },
  },
  {
    id: "spatial", title: "Spatial parallelism", controls: ["devices", "batch", "rate"],
    lead: "All devices share every image: each holds a strip of it. A convolution looks beyond the edge of its strip, so borders travel.",
    steps: [
      ["Who holds what", "Each image (cell) is cut into strips. Every device has all samples, but only its strip of each, and all weights."],
      ["Halo exchange", "A 3 × 3 kernel needs a row above and below. Neighbours send each other their border rows (the halo)."],
      ["Forward", "Each device computes its strip of y."],
      ["Backward", "Borders of dL/dy travel the same way back. Each device has a summand of dL/dw, from its strip."],
      ["All-reduce", "The weights are everywhere, so their gradients are added up as under data parallelism."],
      ["Gather", "Linear layers have no space. Where the split ends, the tensor is gathered, and every device computes the rest whole."],
    ],
    row: (t, v) => t.tables.spatial[v.rate][v.batch][v.devices],
    scene: (t, v, step) => {
      const many = shown(v.devices);
      return drawFrame({ devices: each(many, (n) => ({ x: strips(n, many, step >= 1 && step <= 3), w: step === 3 ? whole("partial") : whole(), y: step === 5 ? whole() : step >= 2 ? strips(n, many) : undefined, names: step === 3 || step === 4 ? back : {} })), messages: step === 1 ? neighbours(many, "x", "border rows") : step === 3 ? neighbours(many, "y", "borders of dL/dy") : step === 4 ? ring(many, "w", "dL/dw") : step === 5 ? ring(many, "y", "strips of y") : [] }, `Spatial parallelism, step ${step + 1}. ${drawn(v.devices)}`);
    },
    drawn: (v) => drawn(v.devices),
    formula: (t, v, row) => {
      const p = v.devices, bytes = t.item_bytes, rate = v.rate * 1e9;
      return [computed(row), allReduce(t, v, t.facts.weights, "gradient exchange"),
        { name: "halo exchange", form: "2 Σ (2 α + B (halo(x) + halo(dL/dy)) δ / β)", numbers: `2 × (2 × ${row.exchanges} × ${seconds(t.latency_s)} + ${v.batch} × ${count(row.halo_items)} × ${bytes} B / ${v.rate} GB/s)`, value: 2 * (2 * row.exchanges * t.latency_s + (v.batch * row.halo_items * bytes) / rate) },
        { name: "gather where the split ends", form: "(p − 1) (α + B |y| δ / (p β))", numbers: `${p - 1} × (${seconds(t.latency_s)} + ${v.batch} × ${count(row.gathered)} × ${bytes} B / (${p} × ${v.rate} GB/s))`, value: (p - 1) * (t.latency_s + (v.batch * row.gathered * bytes) / (p * rate)) }];
    },
    question: {
      text: "Batch 512, links of 5 GB/s: on how many devices is spatial parallelism fastest?", start: { batch: 512, rate: 5 },
      options: (t) => t.devices.map(count),
      answer: (t) => count(t.devices.reduce((best, p) => ((t.tables.spatial[5][512][p].step ?? Infinity) < (t.tables.spatial[5][512][best].step ?? Infinity) ? p : best), 1)),
      why: () => "Compute shrinks with the strip. The halo shrinks more slowly, for a thin strip has as long an edge as a thick one; and the layers behind the split do not shrink at all.",
    },
  },
  {
    id: "filter", title: "Filter parallelism", controls: ["devices", "batch", "rate"],
    lead: "Each device holds some of the filters and makes some of the output channels. Weights stay at home; activations travel.",
    steps: [
      ["Who holds what", "Columns of w are filters. Each device holds some of them; x is on every device."],
      ["Forward", "Each device makes its own columns (channels) of y."],
      ["All-gather", "The next layer needs all channels. The columns go round until everybody has them."],
      ["Backward", "Each device knows dL/dw of its filters completely: no exchange. But its dL/dx is only a summand."],
      ["Reduce", "The summands of dL/dx are added up: twice the bytes of the gather. So three messages round the ring for every layer."],
    ],
    row: (t, v) => t.tables.filter[v.rate][v.batch][v.devices],
    scene: (t, v, step) => {
      const many = shown(v.devices);
      return drawFrame({ devices: each(many, (n) => ({ x: step === 3 ? whole("partial") : whole(), w: columns(n, many), y: step === 1 ? columns(n, many) : step >= 2 ? whole() : undefined, names: step >= 3 ? back : {} })), messages: step === 2 ? ring(many, "y", "columns of y") : step === 4 ? ring(many, "x", "dL/dx") : [] }, `Filter parallelism, step ${step + 1}. ${drawn(v.devices)}`);
    },
    drawn: (v) => drawn(v.devices),
    formula: (t, v, row) => [computed(row), gathers(t, v)],
    question: {
      text: "8 devices, batch 512: how fast must links be for filter parallelism to beat data parallelism?", start: { devices: 8, batch: 512 },
      options: (t) => [...t.rates.map((rate) => `${rate} GB/s`), "it never does here"],
      answer: (t) => { const found = firstOf(t.rates, (rate) => t.tables.filter[rate][512][8].step < t.tables.data[rate][512][8].step); return found ? `${found} GB/s` : "it never does here"; },
      why: (t) => `Filter parallelism moves ${amount(3 * 512 * t.facts.handed_on * t.item_bytes)} of activations, data parallelism ${amount(2 * t.facts.weights * t.item_bytes)} of gradients. Both scale with the links alike.`,
    },
  },
  {
    id: "channel", title: "Channel parallelism", controls: ["devices", "batch", "rate"],
    lead: "Each device reads some of the input channels. Everybody gets a summand of every output.",
    steps: [
      ["Who holds what", "Each device holds some channels of x (columns) and the weights that read them (rows of w)."],
      ["Forward", "Every device makes all of y, but only as a summand (striped): the other channels are missing."],
      ["All-reduce", "The summands of y are added up. Then every device has the true y."],
      ["Backward", "dL/dx of a device's channels, and dL/dw of its rows, are complete: no exchange of weights."],
      ["All-gather", "The layer before needs dL/dx of all channels: they are gathered. The same bytes as filter parallelism, the other way round."],
    ],
    row: (t, v) => t.tables.channel[v.rate][v.batch][v.devices],
    scene: (t, v, step) => {
      const many = shown(v.devices);
      return drawFrame({ devices: each(many, (n) => ({ x: step === 4 ? whole() : columns(n, many), w: rows(n, many), y: step === 1 ? whole("partial") : step >= 2 ? whole() : undefined, names: step >= 3 ? back : {} })), messages: step === 2 ? ring(many, "y", "summands of y") : step === 4 ? ring(many, "x", "dL/dx") : [] }, `Channel parallelism, step ${step + 1}. ${drawn(v.devices)}`);
    },
    drawn: (v) => drawn(v.devices),
    formula: (t, v, row) => [computed(row), gathers(t, v)],
    question: {
      text: "8 devices, batch 512, 5 GB/s: does channel parallelism spend more on messages than filter parallelism?", start: { devices: 8, batch: 512, rate: 5 },
      options: () => ["more", "the same", "less"],
      answer: (t) => { const [a, b] = ["channel", "filter"].map((name) => t.tables[name][5][512][8].layerwise); return Math.abs(a - b) < 1e-9 * b ? "the same" : a > b ? "more" : "less"; },
      why: () => "Forward and backward change places: one gathers where the other adds up. Put a channel layer behind a filter layer and nothing has to move between them: that pair is what the search likes.",
    },
  },
  {
    id: "pipeline", title: "Pipelines", controls: ["devices", "batch", "rate", "segments"],
    lead: "Each device holds some of the layers. Samples pass through in segments, so that devices need not wait for each other.",
    steps: [
      ["Stages", "The network is cut into stages of about the same time. Each device holds one: weights do not travel at all."],
      ["Forward", "Segment after segment enters. The last stage starts late: the pipeline fills."],
      ["Backward", "The gradients come back the same way. At the end, the first stage works alone: the pipeline drains. The empty slots are the bubble."],
    ],
    row: (t, v) => { const row = t.tables.pipeline[v.rate][v.batch][v.devices]; return row.segments ? row.segments[v.segments] ?? row : row; },
    scene: (t, v, step) => (step === 0 ? drawStages(v.devices, t.facts.products.map((layer) => layer.name.replace("features", "conv").replace("classifier", "fc"))) : drawSchedule(Math.min(8, Math.max(2, v.devices)), Math.min(16, v.segments), step)),
    drawn: (v, step) => (step === 0 ? (v.devices > 4 ? `4 of ${v.devices} devices are drawn.` : "") : v.devices > 8 || v.segments > 16 ? `At most 8 stages and 16 segments are drawn.` : ""),
    formula: (t, v, row) => [{ name: "compute", form: "(p + S − 1) × slowest stage, of a segment + update", numbers: `(${v.devices} + ${v.segments} − 1) × ${seconds((row.compute - (row.update ?? 0)) / (v.devices + v.segments - 1))}${row.update ? ` + ${seconds(row.update)}` : ""}`, value: row.compute },
      { name: "transfers between stages", form: "2 (p + S − 2) × (α + B/S |y| δ / β)", numbers: `2 × ${v.devices + v.segments - 2} × ${seconds((row.p2p ?? 0) / 2 / (v.devices + v.segments - 2))}`, value: row.p2p ?? 0 },
      { name: "share of slots that are empty", form: "(p − 1) / (p + S − 1)", numbers: `${v.devices - 1} / ${v.devices + v.segments - 1} = ${percent((v.devices - 1) / (v.devices + v.segments - 1))}`, value: null }],
    question: {
      text: "4 devices, batch 512, 25 GB/s: how many segments are best?", start: { devices: 4, batch: 512, rate: 25 },
      options: (t) => Object.keys(t.tables.pipeline[25][512][4].segments).map((value) => count(Number(value))),
      answer: (t) => count(t.tables.pipeline[25][512][4].best),
      why: () => "More segments make the bubble smaller, but small segments use a device badly and cost a message each.",
    },
  },
  {
    id: "hybrid", title: "Hybrids", controls: ["devices", "batch", "rate", "split"],
    lead: "p1 groups share the samples; inside a group, p2 devices share the filters. Each exchange has fewer partners.",
    steps: [
      ["Who holds what", "Upper pair: one group, lower pair: another. A group has half of the samples; inside it each device has half of the filters."],
      ["Inside a group", "Forward and backward as in filter parallelism, but with p2 partners and the samples of one group."],
      ["Between groups", "Gradients are added up between groups: each device only with those that hold the same filters."],
    ],
    row: (t, v) => { const row = t.tables["data+filter"][v.rate][v.batch][v.devices]; return row.splits?.[v.split] ?? row; },
    scene: (t, v, step) => {
      const many = Math.min(v.devices, 4), groups = many === 4 ? 2 : 1, inside = many / groups;
      const inner = many === 4 ? [[0, 1], [1, 0], [2, 3], [3, 2]] : [], outer = many === 4 ? [[0, 2], [2, 0], [1, 3], [3, 1]] : [];
      return drawFrame({ grouped: true, titles: each(many, (n) => `device ${n}, group ${Math.floor(n / inside)}`), devices: each(many, (n) => ({ x: rows(Math.floor(n / inside), groups), w: columns(n % inside, inside, step === 2 ? "partial" : "held"), y: step === 0 ? undefined : step === 1 ? rows(Math.floor(n / inside), groups) : both(rows(Math.floor(n / inside), groups), columns(n % inside, inside)), names: step === 2 ? back : {} })), messages: (step === 1 ? inner : step === 2 ? outer : []).map(([from, to], n) => ({ from, to, of: step === 1 ? "y" : "w", label: n ? "" : step === 1 ? "columns of y" : "dL/dw" })) }, `Data and filter parallelism, step ${step + 1}. ${drawn(v.devices)}`);
    },
    drawn: (v) => (v.devices > 4 ? `4 of ${v.devices} devices are drawn, as two groups of two.` : ""),
    formula: (t, v, row) => {
      const [p1, p2] = (v.split ?? "1x1").split("x").map(Number), bytes = t.item_bytes, rate = v.rate * 1e9, { messages, handed_on: items, weights } = t.facts, few = Math.ceil(v.batch / p1);
      return [computed(row), { name: "inside a group", form: "3 (p2 − 1) Σ (α + B/p1 |y| δ / (p2 β))", numbers: `3 × ${p2 - 1} × (${messages} × ${seconds(t.latency_s)} + ${few} × ${million(items)} × ${bytes} B / (${p2} × ${v.rate} GB/s))`, value: 3 * (p2 - 1) * (messages * t.latency_s + (few * items * bytes) / (p2 * rate)) },
        { name: "between groups", form: "2 (p1 − 1) (α + |w|/p2 δ / (p1 β))", numbers: `2 × ${p1 - 1} × (${seconds(t.latency_s)} + ${million(weights / p2)} × ${bytes} B / (${p1} × ${v.rate} GB/s))`, value: 2 * (p1 - 1) * (t.latency_s + ((weights / p2) * bytes) / (p1 * rate)) }];
    },
    question: {
      text: "16 devices, batch 32, 5 GB/s: which split p1 x p2 is fastest?", start: { devices: 16, batch: 32, rate: 5 },
      options: (t) => Object.keys(t.tables["data+filter"][5][32][16].splits),
      answer: (t) => { const { splits } = t.tables["data+filter"][5][32][16]; return Object.keys(splits).reduce((best, name) => ((splits[name].step ?? Infinity) < (splits[best].step ?? Infinity) ? name : best)); },
      why: () => "Many groups mean large gradients between them; large groups mean many activations inside. The batch decides: it makes activations grow, and leaves gradients as they are.",
    },
  },
  {
    id: "attention", title: "Attention", taken: "One layer takes", controls: ["devices", "length", "rate"],
    lead: "Every token's query meets every token's key. Samples, heads and queries can be shared; each asks for other messages.",
    steps: [
      ["By samples", "Rows are tokens, columns are heads. Sliced by samples, each device has whole sequences: nothing travels in attention. The weights are everywhere, so their gradients are added up."],
      ["By heads", "Heads know nothing of each other. Each device computes some heads for all tokens: nothing travels in attention, and no gradient of a weight."],
      ["Heads join", "The projection behind adds up all heads, so each device has a summand (striped). The summands are added up forward, and those of dL/dx backward."],
      ["By queries", "Each device holds some of the tokens: their queries, keys and values. But its queries must meet the keys of all tokens."],
      ["Round the ring", "Keys and values go round until every query has met them all. A device collects them (gather), or works with each part and passes it on (ring attention): the same bytes, less memory."],
    ],
    row: (t, v, step) => t.attention.tables[cutOf(step)][v.rate][v.length][v.devices],
    scene: (t, v, step) => {
      const many = shown(v.devices), cut = cutOf(step), part = cut === "samples" ? () => whole() : cut === "heads" ? columns : rows;
      return drawFrame({ devices: each(many, (n) => ({ x: part(n, many), w: step === 4 ? whole() : part(n, many), y: step === 2 ? whole("partial") : step === 3 ? undefined : part(n, many), names: { x: "q", w: "k, v", y: step === 2 ? "y, behind the projection" : "y" } })), titles: cut === "samples" ? each(many, (n) => `device ${n}, its samples`) : null, messages: step === 2 ? ring(many, "y", "summands of y") : step === 4 ? ring(many, "w", "k, v") : [] }, `Attention by ${cut}, step ${step + 1}. ${drawn(v.devices)}`);
    },
    drawn: (v) => drawn(v.devices),
    formula: (t, v, row, step) => {
      const { batch: b, channels: d, peak } = t.attention, l = v.length, p = v.devices, bytes = t.item_bytes, rate = v.rate * 1e9, cut = cutOf(step);
      const flops = 3 * (8 * b * l * d * d + 4 * b * l * l * d);
      const terms = [{ name: "compute", form: "3 (8 B L d² + 4 B L² d) / (p peak)", numbers: `${(flops / 1e12).toPrecision(3)} TFLOP / (${p} × ${(peak / 1e12).toPrecision(3)} TFLOP/s)`, value: flops / p / peak }];
      if (cut === "heads") terms.push({ name: "all-reduce of y, of dL/dx", form: "2 × 2 (p − 1) (α + B L d δ / (p β))", numbers: `4 × ${p - 1} × (${seconds(t.latency_s)} + ${million(b * l * d)} × ${bytes} B / (${p} × ${v.rate} GB/s))`, value: 4 * (p - 1) * (t.latency_s + (b * l * d * bytes) / (p * rate)) });
      if (cut === "queries") terms.push({ name: "k, v, and gradients back", form: "2 (p − 1) (α + 2 B L d δ / (p β))", numbers: `2 × ${p - 1} × (${seconds(t.latency_s)} + ${million(2 * b * l * d)} × ${bytes} B / (${p} × ${v.rate} GB/s))`, value: 2 * (p - 1) * (t.latency_s + (2 * b * l * d * bytes) / (p * rate)) });
      if (cut !== "heads") terms.push(allReduce(t, v, 4 * d * d, "gradient exchange"));
      return terms;
    },
    about: (t) => `One layer of attention on ${t.device} GPUs: ${t.attention.batch} samples, ${count(t.attention.channels)} channels in ${t.attention.heads} heads. Links as before.`,
    compared: (t, v) => ["samples", "heads", "queries"].map((cut) => [`by ${cut}`, t.attention.tables[cut][v.rate][v.length][v.devices]]),
    question: {
      text: "8 devices, links of 5 GB/s: from how many tokens on is attention faster by samples than by heads?", start: { devices: 8, rate: 5 },
      options: (t) => [...t.attention.lengths.map(count), "never"],
      answer: (t) => { const found = firstOf(t.attention.lengths, (length) => ["samples", "heads"].map((cut) => t.attention.tables[cut][5][length][8].step).reduce((one, other) => one < other)); return found ? count(found) : "never"; },
      why: (t) => `Activations grow with the tokens, weights do not. But samples run out: ${t.attention.batch} of them do not reach 16 devices, ${t.attention.heads} heads do not reach 32. Queries go on.`,
    },
  },
  {
    id: "layerwise", title: "Layer by layer", controls: ["searched-devices", "searched-batch"], searched: true,
    lead: "No strategy suits every layer. Convolutions have few weights and large activations; linear layers have it the other way round. So slice each layer its own way.",
    steps: [
      ["The layers", "AlexNet's eight layers with weights. Above: how the planner slices each; below: what each costs in a step. Parcels travel where the slicing changes."],
      ["Read the letters", "N: by sample. F: by filter. C: by input channel. N4 C2: four ways by sample, and each of these two ways by channel."],
      ["Why so", "The first layers stay with N: their gradients are small. The linear layers leave it: their gradients would be most of the step."],
    ],
    row: (t, v) => t.searched.plans[v["searched-batch"]][v["searched-devices"]],
    scene: (t, v) => { const found = t.searched.plans[v["searched-batch"]][v["searched-devices"]]; return drawLayers(found.layers, (layer) => layer, seconds); },
    formula: (t, v, row) => [{ name: "layer-wise, as found", form: "Σ layers + Σ layout changes, with overlap", numbers: "", value: row.step }, ...Object.entries(row.baselines).map(([name, value]) => ({ name, form: "", numbers: `${(value / row.step).toFixed(2)} times as long`, value }))],
    question: {
      text: "Batch 512 on 8 devices: how many of the eight layers are sliced by something else than samples alone?", start: { "searched-devices": 8, "searched-batch": 512 },
      options: () => ["0", "1", "2", "3", "4", "5", "6", "7", "8"],
      answer: (t) => String(t.searched.plans[512][8].layers.filter((layer) => Object.keys(layer.degrees).join() !== "N").length),
      why: () => "Look at the letters above the bars. With more samples the linear layers go back to N: their activations grow, their gradients do not.",
    },
  },
  {
    id: "search", title: "Why a search is needed", controls: ["searched-devices", "searched-batch"], searched: true,
    lead: "Could each layer not simply take what is best for it? Then neighbours disagree, and tensors must be moved between every two layers.",
    steps: [
      ["Each for itself", "Every layer takes the slicing that is cheapest for it alone. The letters change from layer to layer, and so tensors must be moved: the parcels say how long that takes."],
      ["All together", "The planner counts layout changes too. It finds the cheapest plan of all, and proves it: no plan of this space has a smaller sum."],
      ["How many plans", "Every layer has tens of slicings, so a network has more plans than can be tried. Eliminating one layer after the other finds the best without trying them all."],
    ],
    row: (t, v, step) => { const found = t.searched.plans[v["searched-batch"]][v["searched-devices"]]; return { ...found, step: step === 0 ? found.selfish : found.step, best: found.step }; },
    scene: (t, v, step) => {
      const found = t.searched.plans[v["searched-batch"]][v["searched-devices"]];
      const bars = drawBars([{ name: "each for itself", value: found.selfish }, ...Object.entries(found.baselines).map(([name, value]) => ({ name, value })), { name: "all together (searched)", value: found.step, best: true }], seconds);
      const box = document.createElement("div");
      box.append(drawLayers(found.layers, (layer) => (step === 0 ? layer.alone : layer), seconds), bars);
      return box;
    },
    formula: (t, v, row) => [{ name: "each for itself", form: "what it moves between layers", numbers: seconds(row.selfish_terms.transfer), value: row.selfish }, { name: "all together", form: "what it moves between layers", numbers: seconds(row.terms.transfer), value: row.best },
      { name: "plans to choose from", form: "Π (slicings of each layer)", numbers: `10^${Math.round(row.space_log10)}; ${row.optimal ? "the best is proven" : `within ${percent(row.gap)}`}`, value: null }],
    question: {
      text: "Batch 512: on how many devices does “each for itself” lose most against the planner?", start: { "searched-batch": 512 },
      options: (t) => t.searched.devices.map(count),
      answer: (t) => { const lost = (p) => t.searched.plans[512][p].selfish / t.searched.plans[512][p].step; return count(t.searched.devices.reduce((best, p) => (lost(p) > lost(best) ? p : best))); },
      why: () => "Compare the first bar with the last one for every number of devices.",
    },
  },
];
