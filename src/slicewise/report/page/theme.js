"use strict";
// Light, dark, or as the system: a button wherever the page has room for one (`data-theme-button`).
{
  const WORDS = { auto: "as the system", light: "light", dark: "dark" };
  const NAMES = Object.keys(WORDS);
  const KEY = "slicewise-theme";
  let chosen = "auto";
  try { chosen = localStorage.getItem(KEY) ?? "auto"; } catch { /* a page from disk may not remember */ }
  if (!NAMES.includes(chosen)) chosen = "auto";
  const apply = () => {
    if (chosen === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = chosen;
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll("[data-theme-button]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "theme";
      const told = () => {
        button.textContent = chosen;
        button.title = `Colours: ${WORDS[chosen]}`;
        button.setAttribute("aria-label", `Colours: ${WORDS[chosen]}. Press for ${WORDS[NAMES[(NAMES.indexOf(chosen) + 1) % 3]]}.`);
      };
      button.addEventListener("click", () => {
        chosen = NAMES[(NAMES.indexOf(chosen) + 1) % 3];
        try { localStorage.setItem(KEY, chosen); } catch { /* then it lasts as long as the page */ }
        apply();
        told();
      });
      told();
      place.append(button);
    }
  });
}
