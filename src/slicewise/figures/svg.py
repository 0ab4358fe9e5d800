"""A drawing as SVG text. Nothing that is drawn can become markup: every word and every value is escaped here."""

from collections.abc import Iterable
from html import escape
from typing import Any

LIGHT = """
.sw .bg{fill:#fff}.sw .t{fill:#1f2328}.sw .m{fill:#59636e}
.sw .g{stroke:#e4e8ec}.sw .a{stroke:#818b98}.sw .e{stroke:#8c959f}
.sw .c{fill:#f6f8fa;stroke:#d1d9e0}.sw .n{fill:#fff;stroke:#c4ccd4}.sw .k{stroke:#1f2328}.sw .h{stroke:#fff}
"""
DARK = """
.sw .bg{fill:#14181d}.sw .t{fill:#e6edf3}.sw .m{fill:#a3adb8}
.sw .g{stroke:#2a313a}.sw .a{stroke:#7d8896}.sw .e{stroke:#7d8896}
.sw .c{fill:#1b2129;stroke:#333c47}.sw .n{fill:#232b35;stroke:#414b57}.sw .k{stroke:#e6edf3}.sw .h{stroke:#14181d}
"""
STYLE = f"""
.sw{{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",Arial,sans-serif}}
.sw .b{{font-weight:600}}.sw .e{{fill:none}}{LIGHT}@media screen and (prefers-color-scheme:dark){{{DARK}}}
"""
# for a page whose reader chose light or dark, whatever the system has; paper is always light
CHOSEN = "@media screen{" + "".join(
    look.replace(".sw ", f":root[data-theme={name}] .sw ") for name, look in (("light", LIGHT), ("dark", DARK))
) + "}\n"  # fmt: skip
_NARROW, _WIDE = "iljtfr.,:;'|!()[] -/", "mwMW%@—"


def text_width(text: str, size: float) -> float:
    """Of a line of text, in pixels: an estimate from above, for the widest of the fonts."""
    return size * sum(map(_sign_width, text))


def _sign_width(sign: str) -> float:
    return 0.4 if sign in _NARROW else 1.0 if sign in _WIDE else 0.71 if sign.isupper() else 0.63


def fitted(text: str, width: float, size: float) -> str:
    """The text, or its two ends: what differs between names of layers stands at their end."""
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        head = kept // 3
        shorter = f"{text[:head]}…{text[head - kept :]}"
        if text_width(shorter, size) <= width:
            return shorter
    return "" if width < size else "…"


def wrapped(text: str, width: float, size: float) -> list[str]:
    """The text in lines of at most `width` pixels, parted at blanks; a word that is longer alone is shortened."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(fitted(word, width, size))
    return lines


def number(value: float) -> str:
    """As short as a tenth of a pixel allows."""
    return f"{value:.1f}".removesuffix(".0")


class Drawing:
    """Shapes in the order they are painted; coordinates are pixels from the top left."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def add(self, tag: str, *, title: str = "", text: str | None = None, **attributes: Any) -> None:
        """One element; `class_` is `class`, and `stroke_width` is `stroke-width`. What is None or empty is left out."""
        self.parts.append(_element(tag, attributes, title, text))

    def rect(self, x: float, y: float, width: float, height: float, *, fill: str | None = None, **others: Any) -> None:
        self.add("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), fill=fill, **others)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str = "g", **others: Any) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **others)

    def path(self, points: Iterable[tuple[float, float]], *, closed: bool = False, **others: Any) -> None:
        d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + ("Z" if closed else "")
        self.add("path", d=d, **others)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 11,
        class_: str | None = "t",
        anchor: str = "start",
        within: float | None = None,
        title: str = "",
        **others: Any,
    ) -> None:
        """A line whose base is at `y`. `within`: the pixels it may take; the whole text is then in the tooltip."""
        bold = 1.1 if class_ and "b" in class_.split() else 1.0
        shown = text if within is None else fitted(text, within, size * bold)
        if not shown:
            return
        self.add(
            "text",
            x=x,
            y=y,
            class_=class_,
            font_size=size,
            text_anchor=anchor if anchor != "start" else None,
            title=title or (text if shown != text else ""),
            text=shown,
            **others,
        )

    def open(self, tag: str = "g", title: str = "", **attributes: Any) -> None:
        """A group, until `close` of the same tag."""
        self.parts.append(_element(tag, attributes, title, "").removesuffix(f"</{tag}>"))

    def close(self, tag: str = "g") -> None:
        self.parts.append(f"</{tag}>")

    def svg(self, width: float, height: float, label: str) -> str:
        """The whole picture: it carries its style, light and dark, and says in words what it shows."""
        size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sw" {size} role="img" aria-label="{_clean(label)}">'
            f"<style>{STYLE}</style>"
            f'<rect class="bg" width="{number(width)}" height="{number(height)}"/>{"".join(self.parts)}</svg>'
        )


def _element(tag: str, attributes: dict[str, object], title: str, text: str | None) -> str:
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None and value != ""
    )
    inner = (f"<title>{_clean(title)}</title>" if title else "") + (_clean(text) if text else "")
    return f"<{tag}{written}>{inner}</{tag}>" if inner or text is not None else f"<{tag}{written}/>"


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else _clean(str(value))


def _clean(text: str) -> str:
    """Escaped, and without the signs that XML cannot hold."""
    return escape("".join(sign for sign in text if sign.isprintable() or sign == "\n"))
