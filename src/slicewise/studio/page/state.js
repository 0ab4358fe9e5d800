// What the page shows, as a value that an address can carry.
const PLAIN = { software: null, dtype: "fp32", optimizer: "sgd", recompute: false, batchnorm: "exact", bucket_bytes: null, tiers: {}, memory_bytes: null };
export const FIRST = { model: "alexnet", cluster: "p100-4x4", devices: 16, batch: 512, ...PLAIN };
export const LAYERWISE = "layerwise";

// A description of a plan: a setting, how it was made, and what was changed by hand.
export const described = (setting) => ({ setting, strategy: LAYERWISE, fix: [], edits: [] });

export function written({ setting, strategy, fix, edits }) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(setting)) {
    if (name === "tiers") {
      for (const [tier, link] of Object.entries(value)) for (const [field, number] of Object.entries(link)) words.append("link", `${tier}.${field}=${number}`);
    } else if (value !== null && (!(name in PLAIN) || value !== PLAIN[name])) words.set(name, value);
  }
  if (strategy !== LAYERWISE) words.set("strategy", strategy);
  for (const pin of fix) words.append("fix", pin);
  for (const [layer, letters] of edits) words.append("edit", `${layer}=${letters}`);
  return words.toString();
}

export function read(text) {
  const words = new URLSearchParams(text);
  const setting = { ...FIRST, tiers: {} };
  for (const name of ["model", "cluster", "software", "dtype", "optimizer", "batchnorm"]) if (words.get(name)) setting[name] = words.get(name);
  for (const name of ["devices", "batch", "memory_bytes", "bucket_bytes"]) {
    const value = Number(words.get(name));
    if (words.get(name) && Number.isInteger(value) && value > 0) setting[name] = value;
  }
  setting.recompute = words.get("recompute") === "true";
  for (const link of words.getAll("link")) {
    const [, tier, field, number] = /^(.+)\.(latency_s|bytes_per_s)=(.+)$/.exec(link) ?? [];
    if (tier && Number(number) > 0) (setting.tiers[tier] ??= {})[field] = Number(number);
  }
  const edits = words.getAll("edit").map((edit) => [edit.slice(0, edit.lastIndexOf("=")), edit.slice(edit.lastIndexOf("=") + 1)]);
  return { setting, strategy: words.get("strategy") ?? LAYERWISE, fix: words.getAll("fix"), edits };
}

export function remember(description, kept) {
  const words = new URLSearchParams(written(description));
  if (kept) words.set("kept", written(kept));
  history.replaceState(null, "", `?${words}${location.hash}`);
}

export function recalled() {
  const kept = new URLSearchParams(location.search).get("kept");
  return { description: read(location.search), kept: kept ? read(kept) : null };
}
