// Slicings as people read them: chips with the letter of the dim, its degree and the tier it crosses.
import { h } from "./dom.js";

export function parts(letters, axes) {
  const found = new Map();
  [...letters].forEach((letter, number) => {
    if (letter === "-") return;
    const key = `${letter} ${axes[number].tier}`;
    found.set(key, (found.get(key) ?? 1) * axes[number].size);
  });
  return [...found].map(([key, degree]) => ({ letter: key[0], tier: key.slice(2), degree }));
}

export function chips(letters, axes) {
  const found = parts(letters, axes);
  const tiers = new Set(axes.map((axis) => axis.tier));
  const one = new Set(found.map((part) => part.letter)).size === 1 && !letters.includes("-");
  if (!found.length) return h("span", { class: "slices" }, h("span", { class: "slice s-whole" }, "whole"));
  if (one) return h("span", { class: "slices" }, h("span", { class: `slice s-${found[0].letter}` }, `${found[0].letter}${found.reduce((all, part) => all * part.degree, 1)}`));
  return h("span", { class: "slices" }, found.map((part) => h("span", { class: `slice s-${part.letter}` }, `${part.letter}${part.degree}${tiers.size > 1 ? "@" + part.tier : ""}`)));
}

export const mainLetter = (letters) => {
  const counts = {};
  for (const letter of letters) if (letter !== "-") counts[letter] = (counts[letter] ?? 0) + 1;
  return Object.keys(counts).sort((a, b) => counts[b] - counts[a])[0] ?? "whole";
};

export const WORDS = { N: "samples", F: "filters (output channels)", C: "input channels", D: "depth", H: "height", W: "width", A: "heads", Q: "queries", K: "keys" };
