"""How one layer's tensors are cut: what it reads, its weight, what it writes."""

from slicewise.cluster.mesh import Mesh
from slicewise.figures.blocks import MOST, draw_block
from slicewise.figures.chart import heading
from slicewise.figures.colours import dim_word
from slicewise.figures.cutting import Cut, cuts_of
from slicewise.figures.svg import Drawing
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.partition.spelling import spelled

_BLOCK, _HEIGHT, _PAD, _GAP = 190.0, 120.0, 16.0, 34.0


def cut_figure(layer: Layer, slicing: Slicing, mesh: Mesh) -> str:
    """Blocks of x, w and y with the devices that hold each part; device 0's parts are strong.

    >>> plan = sw.plan("lenet5", "p100-4x4", batch=64, devices=4)
    >>> layer = plan.network()["features.0"]
    >>> cut_figure(layer, plan.slicings[layer.name], plan.hardware().mesh)[:4]
    '<svg'
    """
    cuts = cuts_of(layer, slicing, mesh)
    axes = {axis.name: axis.size for axis in mesh.axes}
    drawing = Drawing()
    width = 2 * _PAD + len(cuts) * _BLOCK + (len(cuts) - 1) * _GAP
    heading(drawing, _PAD, 24, f"{layer.name} ({layer.kind}): {spelled(slicing, axes)}", within=width - 2 * _PAD)
    lines = 0
    for number, cut in enumerate(cuts):
        left = _PAD + number * (_BLOCK + _GAP)
        draw_block(drawing, cut, left, 42, _BLOCK, _HEIGHT, labels=True)
        if number:
            sign = "→" if cut.name == "y" else "∗" if cut.name == "w" or layer.kind.has(Trait.PRODUCT) else "+"
            drawing.text(left - _GAP / 2, 42 + _HEIGHT / 2 + 6, sign, size=18, class_="m", anchor="middle")
        captions = _captions(cut)
        lines = max(lines, len(captions))
        for line, words in enumerate(captions):
            drawing.text(
                left, 42 + _HEIGHT + 18 + 15 * line, words, class_="t b" if line == 0 else "m", within=_BLOCK + _GAP - 6
            )
    told = "; ".join(". ".join(_captions(cut)) for cut in cuts)
    return drawing.svg(width, 42 + _HEIGHT + 18 + 15 * lines + 4, f"How {layer.name} is cut, {told}")


def _captions(cut: Cut) -> list[str]:
    """What stands below a block, line by line."""
    shape = " x ".join(map(str, cut.shape)) or "a number"
    lines = [f"{cut.name}: {shape}"]
    lines += [
        f"{dim_word(letter)} in {count}" + (f" ({MOST} drawn)" if count > MOST else "")
        for letter, count in cut.parts.items()
        if count > 1
    ]
    if cut.borrowed:
        lines.append("halo: " + ", ".join(f"{count} of {letter}" for letter, count in cut.borrowed.items()))
    if cut.summands > 1:
        lines.append(f"partial sums on {cut.summands} devices")
    if cut.copies > 1:
        lines.append(f"the same on {cut.copies} devices")
    return lines
