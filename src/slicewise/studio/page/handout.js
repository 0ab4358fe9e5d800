// The lessons in a file of their own: the tables are in it.
const tables = JSON.parse(document.getElementById("tables").textContent);
const show = () => showLessons(document.getElementById("main"), async (part) => tables[part]);
addEventListener("hashchange", show);
show();
