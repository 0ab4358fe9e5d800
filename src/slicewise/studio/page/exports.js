// What leaves the page: files, and commands to type.
import { h, put, $, notice } from "./dom.js";
import { ask, save, stream } from "./api.js";

export function drawActions(studio) {
  const menu = h("div", { class: "menu", id: "export-menu", role: "group", "aria-label": "Export", hidden: true }, studio.exports.map(([form, label]) => h("button", { type: "button", "data-form": form, onclick: () => { menu.hidden = true; toggle.setAttribute("aria-expanded", "false"); studio.export(form); } }, label)));
  const toggle = h("button", { type: "button", id: "export", "aria-expanded": "false", "aria-controls": "export-menu", onclick: () => { menu.hidden = !menu.hidden; toggle.setAttribute("aria-expanded", String(!menu.hidden)); if (!menu.hidden) menu.querySelector("button").focus(); } }, "Export");
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.hidden = true; toggle.setAttribute("aria-expanded", "false"); toggle.focus(); } });
  document.addEventListener("click", (event) => { if (!event.target.closest("#actions")) { menu.hidden = true; toggle.setAttribute("aria-expanded", "false"); } });
  put($("actions"), h("button", { type: "button", id: "run-this", class: "main", onclick: () => studio.commands() }, "Run this"), toggle, menu);
}

export async function download(question) {
  const { edited, ...asked } = question;
  const file = question.form === "report" ? await stream("report", asked, (text) => notice(`The report: ${text}`)) : await ask("export", question);
  save(file.name, file.kind, file.text ?? JSON.stringify(file.document, null, 1));
  notice(`${file.name} is saved by your browser.`);
}

export function drawCommands(rows) {
  const dialog = $("dialog");
  put(dialog, h("div", { class: "row spread" }, h("h2", { id: "dialog-title" }, "Run this"), h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
    rows.map((row) => h("div", { style: { "margin-top": "12px" } }, h("p", {}, row.told), row.command ? h("div", { class: "command" }, h("code", { tabindex: "0" }, row.command), h("button", { type: "button", onclick: (event) => copy(row.command, event.target) }, "Copy")) : null)));
  dialog.showModal();
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    notice("The browser does not allow to copy; select the line instead.");
  }
}
