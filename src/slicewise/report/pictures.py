"""Figures as files: SVG as it is, PNG by resvg (`pip install slicewise[figures]`)."""

from pathlib import Path
from typing import Any

from slicewise.errors import RequestError
from slicewise.saving import write_file

_ZOOM = 2  # pixels of a PNG per unit of the drawing


def check_picture(path: Path) -> None:
    """Refuse, before any work, a name that no picture can be written under."""
    if path.suffix not in (".svg", ".png"):
        raise RequestError(f"cannot draw {path}: name it .svg or .png (an HTML report prints to PDF from any browser)")
    if path.suffix == ".png":
        check_png()


def check_png() -> None:
    _renderer()


def write_picture(path: Path, svg: str) -> None:
    write_file(path, svg if path.suffix == ".svg" else as_png(svg))


def as_png(svg: str) -> bytes:
    return bytes(_renderer().svg_to_bytes(svg_string=svg, zoom=_ZOOM, sans_serif_family="DejaVu Sans"))


def _renderer() -> Any:
    try:
        import resvg_py
    except ModuleNotFoundError as error:
        raise RequestError("a PNG needs resvg; `pip install 'slicewise[figures]'`, or choose SVG") from error
    return resvg_py
