// Timelines: scroll or pinch zooms, dragging moves, double-click or the button shows all again.
const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
const told = (value) => {
  if (Math.abs(value) < 1e-12) return "0";
  const [unit, name] = units.find(([size]) => Math.abs(value) >= size) || units[3];
  return `${(value / unit).toPrecision(3)} ${name}`;
};

// Whatever was drawn below `place`.
export function zoomable(place) {
  for (const lanes of place.querySelectorAll("svg.zoom")) zooming(lanes);
}

function zooming(lanes) {
  const picture = lanes.ownerSVGElement;
  const full = lanes.viewBox.baseVal.width;
  const seconds = Number(lanes.dataset.length);
  const height = lanes.viewBox.baseVal.height;
  const left = Number(lanes.getAttribute("x"));
  const width = Number(lanes.getAttribute("width"));
  const labels = [...picture.querySelectorAll("g.ticks text")].filter((item) => item.getAttribute("font-size") === "10");
  const view = { start: 0, span: full };

  const tools = document.createElement("div");
  tools.className = "tools";
  const readout = document.createElement("output");
  const button = (words, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    made.addEventListener("click", act);
    tools.append(made);
  };
  const draw = () => {
    view.span = Math.min(full, Math.max(full / 5000, view.span));
    view.start = Math.min(full - view.span, Math.max(0, view.start));
    lanes.setAttribute("viewBox", `${view.start} 0 ${view.span} ${height}`);
    for (const label of labels) {
      const share = (Number(label.getAttribute("x")) - left) / width;
      label.textContent = told(((view.start + share * view.span) / full) * seconds);
    }
  };
  const zoom = (factor, share) => {
    const centre = view.start + share * view.span;
    view.span = Math.min(full, view.span * factor);
    view.start = centre - share * view.span;
    draw();
  };
  const share = (event) => {
    const box = lanes.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  button("zoom in", () => zoom(0.5, 0.5));
  button("zoom out", () => zoom(2, 0.5));
  button("earlier", () => { view.start -= view.span / 2; draw(); });
  button("later", () => { view.start += view.span / 2; draw(); });
  button("all", () => { view.start = 0; view.span = full; draw(); });
  tools.append(readout);
  (picture.closest("figure") ?? picture.parentElement).append(tools);
  lanes.addEventListener("wheel", (event) => {
    if (event.deltaY > 0 && view.span >= full) return; // all is shown already: the page scrolls on
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, share(event));
  }, { passive: false });
  lanes.addEventListener("dblclick", () => { view.start = 0; view.span = full; draw(); });
  let held = null;
  lanes.addEventListener("pointerdown", (event) => { held = { at: share(event), start: view.start }; lanes.setPointerCapture(event.pointerId); });
  lanes.addEventListener("pointerup", () => { held = null; });
  lanes.addEventListener("pointermove", (event) => {
    if (held) { view.start = held.start - (share(event) - held.at) * view.span; draw(); }
    else { readout.textContent = event.target.querySelector?.("title")?.textContent ?? ""; }
  });
}
