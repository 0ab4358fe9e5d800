"""The network as a graph: every layer coloured by its slicing, with how its tensors are cut; repeated blocks once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slicewise.cluster.mesh import Mesh
from slicewise.figures.blocks import draw_block
from slicewise.figures.chart import heading, legend
from slicewise.figures.colours import GREY, dim_colour, dim_word, ink
from slicewise.figures.cutting import cuts_of
from slicewise.figures.folding import Fold, Folded, Node, folded, plain_name
from slicewise.figures.lanes import Lanes, lanes_of
from slicewise.figures.notes import NOTE, WIDEST, notes_below, notes_beside
from slicewise.figures.svg import Drawing, number
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Trait
from slicewise.partition.spelling import short_spelled, spelled
from slicewise.units import seconds

if TYPE_CHECKING:
    from slicewise.graph.layer_graph import LayerGraph
    from slicewise.plans.plan import Plan

_WIDTH, _HEIGHT, _STEP = 300.0, 46.0, 66.0  # of a box, and from one rank to the next
_NARROW, _PAD, _TITLE = 22.0, 20.0, 24.0
_GLYPH = 41.0  # from one small drawing of a tensor to the next


def network_figure(plan: "Plan", graph: "LayerGraph | None" = None, notes: Mapping[str, str] | None = None) -> str:
    """The plan's network from top to bottom. Each box: name, slicing, and x, w and y as they are cut.

    `notes`: sentences by layer, which stand beside the box that they speak of.
    """
    network = plan.sized(graph or plan.network())
    shape = folded(network, plan.slicings)
    lanes = lanes_of([node.inputs for node in shape.nodes])
    drawing = Drawing()
    title = f"{plan.model}: how every layer is sliced on {plan.devices} devices"
    shown = f"{len(plan.slicings)} layers in {len(shape.nodes)} boxes; blocks that repeat are drawn once"
    note = f"{shown}. Strong: what device 0 holds; striped: what it borrows (halo); Σ: partial sums."
    lefts, right = _columns(lanes)
    beside = right <= WIDEST  # notes of a wider network stand below it
    width = max(right + (NOTE + _PAD if notes and beside else 0.0), 420.0)
    top = heading(drawing, _PAD, 24, title, note, width - 2 * _PAD)
    used = {dim for node in shape.nodes for dim in node.slicing}
    words = [(dim_colour(dim), f"{dim}: {dim_word(dim)}") for dim in Dim if dim in used]
    top += legend(drawing, _PAD, top, width - 2 * _PAD, [*words, *([(GREY, "not sliced")] if None in used else [])])
    tops, bottom = _rows(shape, lanes, top + 10)
    for fold in sorted(shape.folds, key=lambda fold: -len(fold.nodes)):
        _draw_fold(drawing, fold, lanes, lefts, tops)
    for position, node in enumerate(shape.nodes):
        for source in node.inputs:
            _draw_edge(drawing, lanes, lefts, tops, source, position)
    for position, node in enumerate(shape.nodes):
        _draw_node(drawing, plan, node, plan.mesh, lefts[lanes.lane[position]], tops[lanes.rank[position]])
    boxes = {
        layer.name: (lefts[lanes.lane[position]] + _WIDTH, tops[lanes.rank[position]])
        for position, node in enumerate(shape.nodes)
        for layer in node.layers
    }
    told = {name: notes[name] for name in boxes if name in notes} if notes else {}
    if beside:
        bottom = max(bottom, notes_beside(drawing, told, boxes, right))
    else:
        bottom = notes_below(drawing, told, boxes, _PAD, bottom + 16, width - 2 * _PAD)
    label = f"{title}. {shown}: " + "; ".join(
        f"{node.head.name} {spelled(node.slicing, plan.axes)}" for node in shape.nodes[:60]
    )
    return drawing.svg(width, bottom + 8, label)


def _columns(lanes: Lanes) -> tuple[list[float], float]:
    """The left of every lane, and the width of all."""
    lefts, x = [], _PAD + 8
    for boxed in lanes.boxed:
        lefts.append(x)
        x += _WIDTH + 26 if boxed else _NARROW
    return lefts, x + _PAD


def _rows(shape: Folded, lanes: Lanes, top: float) -> tuple[list[float], float]:
    """The top of every rank: a folded block has room for its title above its first."""
    titled = {min(lanes.rank[node] for node in fold.nodes): 0 for fold in shape.folds}
    for fold in shape.folds:
        titled[min(lanes.rank[node] for node in fold.nodes)] += 1
    tops, y = [], top
    for rank in range(max(lanes.rank, default=0) + 1):
        y += _TITLE * titled.get(rank, 0)
        tops.append(y)
        y += _STEP
    return tops, y


def _middle(lanes: Lanes, lefts: list[float], lane: int) -> float:
    return lefts[lane] + (_WIDTH / 2 if lanes.boxed[lane] else _NARROW / 2)


def _draw_fold(drawing: Drawing, fold: Fold, lanes: Lanes, lefts: list[float], tops: list[float]) -> None:
    """A card behind the block's boxes, with its names and how often it is there."""
    left = min(lefts[lanes.lane[node]] for node in fold.nodes) - 10
    right = max(lefts[lanes.lane[node]] for node in fold.nodes) + _WIDTH + 10
    top = min(tops[lanes.rank[node]] for node in fold.nodes) - _TITLE - 4
    bottom = max(tops[lanes.rank[node]] for node in fold.nodes) + _HEIGHT + 8
    middle = left + 10 + _WIDTH / 2  # where the trunk's line comes down: no words on it
    drawing.rect(left, top, right - left, bottom - top, class_="c", rx=8, title=f"{fold.title}: {fold.times} alike")
    drawing.text(left + 10, top + 17, fold.title, size=10, class_="m", within=middle - left - 18)
    drawing.text(middle + 8, top + 18, f"× {fold.times}", size=13, class_="t b")


def _draw_edge(drawing: Drawing, lanes: Lanes, lefts: list[float], tops: list[float], source: int, to: int) -> None:
    x1, y1 = _middle(lanes, lefts, lanes.lane[source]), tops[lanes.rank[source]] + _HEIGHT
    x2, y2 = _middle(lanes, lefts, lanes.lane[to]), tops[lanes.rank[to]]
    d = f"M{number(x1)} {number(y1)}"
    if (source, to) in lanes.edges:
        x = _middle(lanes, lefts, lanes.edges[source, to])
        begin, end = tops[lanes.rank[source] + 1] - 2, tops[lanes.rank[to] - 1] + _HEIGHT + 2
        d += _curve(x1, y1, x, begin) + f"V{number(end)}" + _curve(x, end, x2, y2)
    else:
        d += _curve(x1, y1, x2, y2)
    drawing.add("path", d=d, class_="e", stroke_width=1.5)


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    if abs(x1 - x2) < 0.5:
        return f"V{number(y2)}"
    middle = (y1 + y2) / 2
    return f"C{number(x1)} {number(middle)} {number(x2)} {number(middle)} {number(x2)} {number(y2)}"


def _draw_node(drawing: Drawing, plan: "Plan", node: Node, mesh: Mesh, x: float, y: float) -> None:
    head, told = node.head, spelled(node.slicing, plan.axes)
    others = [layer.name for layer in node.layers if layer is not head]
    cost = sum(float(plan.costs.get(layer.name, {}).get("total_s", 0.0)) for layer in node.layers)
    shape = "x".join(map(str, node.layers[-1].shape))
    title = f"{head.name} ({head.kind}), sliced {told}; writes {shape}; {seconds(cost)} per step"
    title += f"; with {', '.join(others)}" if others else ""
    drawing.open(title=title, data_layer=head.name)
    drawing.rect(x, y, _WIDTH, _HEIGHT, class_="n", rx=6)
    _draw_stripe(drawing, node, mesh, x, y)
    if head.kind.has(Trait.EDGE):
        drawing.text(x + 18, y + 20, head.name, size=12, class_="t b", within=_WIDTH - 30)
        short = short_spelled(node.slicing, mesh.sizes)
        drawing.text(x + 18, y + 36, f"{short} · {shape}", size=10, class_="m", within=_WIDTH - 30)
    else:
        cuts = cuts_of(head, node.slicing, mesh)[-3 if head.weights else -2 :]
        room = _WIDTH - 26 - _GLYPH * len(cuts)
        drawing.text(x + 18, y + 19, plain_name(head.name), size=12, class_="t b", within=room)
        more = f" +{len(others)}" if others else ""
        drawing.text(
            x + 18,
            y + 35,
            f"{short_spelled(node.slicing, mesh.sizes)} · {head.kind}{more}",
            size=10,
            class_="m",
            within=room,
        )
        for position, cut in enumerate(cuts):
            draw_block(drawing, cut, x + _WIDTH - 2 - _GLYPH * (len(cuts) - position), y + 8, _GLYPH - 7, 30)
    drawing.close()


def _draw_stripe(drawing: Drawing, node: Node, mesh: Mesh, x: float, y: float) -> None:
    """The slicing at the left of a box: a field per mesh axis, with the letter of its dim where there is room."""
    fields = node.slicing or (None,)
    height = (_HEIGHT - 2) / len(fields)
    for row, dim in enumerate(fields):
        colour = dim_colour(dim)
        drawing.rect(x + 1, y + 1 + row * height, 11, height, fill=colour)
        if dim and height >= 10:
            drawing.text(x + 6.5, y + 1 + (row + 0.5) * height + 3, dim.value, size=8, class_="b", fill=ink(colour),
                         anchor="middle")  # fmt: skip
