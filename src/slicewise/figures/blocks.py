"""A tensor as a block, its parts drawn apart: W to the right, H down, channels into the depth, samples side by side."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from slicewise.figures.colours import GREY, darker, dim_colour, dim_word, ink, paler
from slicewise.figures.cutting import Cut
from slicewise.figures.svg import Drawing, text_width
from slicewise.graph.dims import Dim

MOST = 4  # parts that are drawn of a dim; the caption says how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """The letters that each direction of the block stands for."""

    apart: tuple[str, ...] = ()
    across: str = ""
    down: str = ""
    deep: str = ""


def _axes(cut: Cut) -> _Axes:
    letters = [letter for letter in cut.letters if letter in set(Dim)]
    channel = next((letter for letter in letters if letter in "CF"), "")
    if cut.name == "w":
        return _Axes(across="C" if "C" in letters else "", down="F" if "F" in letters else "")
    samples = ("N",) if "N" in letters else ()
    rows = next((letter for letter in "QK" if letter in letters), "")
    if rows:  # a matrix per sample and head
        columns = next((letter for letter in ("K", channel) if letter in letters and letter != rows), "")
        return _Axes(apart=samples, across=columns, down=rows, deep="A" if "A" in letters else "")
    if not set(letters) & set("DHW"):
        return _Axes(across=channel, down="N" if "N" in letters else "")
    across, down = ("W" if "W" in letters else ""), ("H" if "H" in letters else "")
    if cut.parts.get("D", 1) > 1:  # depth itself is cut: channels, if they are too, stand side by side
        return _Axes(apart=(*samples, channel) if channel else samples, across=across, down=down, deep="D")
    return _Axes(apart=samples, across=across, down=down, deep=channel)


def draw_block(
    drawing: Drawing, cut: Cut, x: float, y: float, width: float, height: float, *, labels: bool = False
) -> None:
    """The block within a rectangle. What device 0 holds is strong, with what it borrows; all else is pale."""
    axes = _axes(cut)
    counts = [min(cut.parts.get(letter, 1), MOST) for letter in axes.apart]
    across, down, deep = (min(cut.parts.get(letter, 1), MOST) for letter in (axes.across, axes.down, axes.deep))
    groups = list(product(*(range(count) for count in counts)))
    gap = max(1.2, width * 0.018)
    flat = cut.name == "w" or not axes.deep
    away = 0.0 if flat else min(width / len(groups) * 0.3, height * 0.3)  # of the depth, to the right and up
    room = (width - gap * 2 * (len(groups) - 1)) / len(groups)
    colour = _colour(cut)
    shadows = min(cut.summands, 3) - 1  # of partial sums: the same block several times
    for shadow in range(shadows, 0, -1):
        shift = shadow * max(2.0, width * 0.025)
        drawing.rect(
            x + shift, y + away - shift, width - away - shadows * 2, height - away - shadows * 2, fill="none",
            stroke=colour, stroke_width=1, stroke_dasharray="2 2",
        )  # fmt: skip
    inner_width, inner_height = room - away - shadows * 2, height - away - shadows * 2
    for number, group in enumerate(groups):
        left = x + number * (room + 2 * gap)
        for far, row, column in product(range(deep - 1, -1, -1), range(down - 1, -1, -1), range(across)):
            place = dict(zip(axes.apart, group, strict=True)) | {axes.across: column, axes.down: row, axes.deep: far}
            piece = _piece(
                left, y + away, inner_width, inner_height, away, (across, down, deep), (column, row, far), gap
            )
            _draw_piece(drawing, cut, place, piece, colour, labels=labels and far == 0)
    if cut.borrowed and groups:
        _draw_borrowed(drawing, cut, axes, x, y + away, inner_width, inner_height, (across, down), gap, colour)
    if cut.summands > 1:
        size = 13.0 if labels else 9.0
        left, top = x + width - size - 3, y + height - size - 3
        drawing.rect(left, top, size + 4, size + 4, class_="n", rx=3, title=f"partial sums on {cut.summands} devices")
        drawing.text(left + size / 2 + 2, top + size + 0.5, "Σ", size=size, class_="t b", anchor="middle")


_Piece = tuple[float, float, float, float, float]  # left, top, width, height, depth


def _piece(
    x: float, y: float, width: float, height: float, away: float, counts: tuple[int, int, int],
    at: tuple[int, int, int], gap: float,
) -> _Piece:  # fmt: skip
    across, down, deep = counts
    own_width = (width - gap * (across - 1)) / across
    own_height = (height - gap * (down - 1)) / down
    own_depth = (away - gap * (deep - 1)) / deep if away else 0.0
    shift = at[2] * (own_depth + gap)
    return (
        x + at[0] * (own_width + gap) + shift,
        y + at[1] * (own_height + gap) - shift,
        own_width,
        own_height,
        own_depth,
    )


def _draw_piece(drawing: Drawing, cut: Cut, place: dict[str, int], piece: _Piece, colour: str, *, labels: bool) -> None:
    x, y, width, height, depth = piece
    key = tuple(place.get(letter, 0) for letter in cut.letters)
    box, ranks = cut.held[key]
    fill = colour if 0 in ranks else paler(colour, 0.62)
    drawing.open(title=_told(cut, box, ranks))
    drawing.rect(x, y, width, height, fill=fill)
    if depth > 0.5:
        top = [(x, y), (x + depth, y - depth), (x + width + depth, y - depth), (x + width, y)]
        side = [(x + width, y), (x + width + depth, y - depth), (x + width + depth, y + height - depth)]
        drawing.path(top, closed=True, fill=paler(fill, 0.3))
        drawing.path([*side, (x + width, y + height)], closed=True, fill=darker(fill, 0.2))
    words = next((told for told in (ranks_told(ranks), f"{ranks[0]},…") if text_width(told, 10) < width - 2), "")
    if labels and words and height > 12:
        drawing.text(x + width / 2, y + height / 2 + 3.5, words, size=10, class_=None, fill=ink(fill), anchor="middle")
    drawing.close()


def _draw_borrowed(
    drawing: Drawing, cut: Cut, axes: _Axes, x: float, y: float, width: float, height: float,
    counts: tuple[int, int], gap: float, colour: str,
) -> None:  # fmt: skip
    """What device 0 reads of the parts to its right and below, striped in its colour."""
    across, down = counts
    own_width, own_height = (width - gap * (across - 1)) / across, (height - gap * (down - 1)) / down
    band: dict[str, Any] = {"fill": colour, "fill_opacity": 0.55, "stroke": darker(colour, 0.3), "stroke_width": 0.8}
    right = max(2.0, own_width * 0.16) if axes.across in cut.borrowed and across > 1 else 0.0
    below = max(2.0, own_height * 0.16) if axes.down in cut.borrowed and down > 1 else 0.0
    told = ", ".join(f"{count} along {dim_word(letter)}" for letter, count in cut.borrowed.items())
    title = f"halo: device 0 borrows up to {told} of its neighbours"
    if right:
        drawing.rect(x + own_width + gap, y, right, own_height, stroke_dasharray="2 1", title=title, **band)
    if below:
        drawing.rect(x, y + own_height + gap, own_width + (gap + right if right else 0), below,
                     stroke_dasharray="2 1", title=title, **band)  # fmt: skip


def _colour(cut: Cut) -> str:
    """Of the dim that is cut into most parts."""
    cut_most = max(cut.parts.items(), key=lambda item: item[1], default=("", 1))
    return dim_colour(Dim(cut_most[0])) if cut_most[1] > 1 else GREY


def ranks_told(ranks: tuple[int, ...]) -> str:
    """`0`, `0-3`, `0,4,8,12`, or `0,4,...,60`."""
    if len(ranks) > 1 and ranks == tuple(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks)) if len(ranks) <= 4 else f"{ranks[0]},{ranks[1]},...,{ranks[-1]}"


def _told(cut: Cut, box: tuple[tuple[int, int], ...], ranks: tuple[int, ...]) -> str:
    extents = ", ".join(
        f"{letter} {start} to {stop - 1}" if stop - start > 1 else f"{letter} {start}"
        for letter, (start, stop) in zip(cut.letters, box, strict=False)
        if letter in set(Dim)
    )
    holds = "devices" if len(ranks) > 1 else "device"
    sums = ", as summands" if cut.summands > 1 else ""
    return f"{cut.name}: {extents}; on {holds} {ranks_told(ranks)}{sums}"
