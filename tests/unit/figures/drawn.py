"""What a drawing says, read back from its SVG."""

import xml.etree.ElementTree as ET
from itertools import combinations

from slicewise.figures.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float, str]


def parsed(svg: str) -> ET.Element:
    """Well-formed, and with words for those who do not see it."""
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root.get("aria-label")
    return root


def tooltips(svg: str) -> list[str]:
    return [title.text or "" for title in parsed(svg).iter(f"{SVG}title")]


def words(svg: str) -> list[str]:
    return [_shown(item) for item in parsed(svg).iter(f"{SVG}text")]


def _shown(item: ET.Element) -> str:
    """A text without its tooltip."""
    title = item.find(f"{SVG}title")
    return (item.text or "") + ((title.tail or "") if title is not None else "")


def _boxes(root: ET.Element) -> list[Box]:
    found = []
    for item in root.iter(f"{SVG}text"):
        size = float(item.get("font-size", "11"))
        shown = _shown(item)
        width, x, y = text_width(shown, size) * 0.9, float(item.get("x", "0")), float(item.get("y", "0"))
        left = {"middle": x - width / 2, "end": x - width}.get(item.get("text-anchor", ""), x)
        found.append((left, y - 0.72 * size, left + width, y + 0.12 * size, shown))
    return found


def overlapping(svg: str) -> list[tuple[str, str]]:
    """Pairs of labels that touch."""
    return [
        (one[4], other[4])
        for one, other in combinations(_boxes(parsed(svg)), 2)
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    ]


def outside(svg: str) -> list[str]:
    """Labels that leave the picture."""
    root = parsed(svg)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    return [box[4] for box in _boxes(root) if box[0] < 0 or box[1] < 0 or box[2] > width + 1 or box[3] > height]
