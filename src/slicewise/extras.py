"""Extras: PyTorch, which capturing and running need, Lightning, and the web server of the studio. Planning, explaining
and projecting need none of them."""

from collections.abc import Container
from importlib.util import find_spec

from slicewise.errors import MissingLightning, MissingStudio, MissingTorch


def require_torch() -> None:
    """Before work that would be in vain without it."""
    if not installed("torch"):
        raise MissingTorch("this needs PyTorch, which is not installed: `pip install 'slicewise[torch]'`")


def require_studio() -> None:
    """Before the page is served."""
    if not (installed("starlette") and installed("uvicorn")):
        raise MissingStudio(
            "the studio needs its web server, which is not installed: `pip install 'slicewise[studio]'`"
        )


def lightning_package(imported: Container[str]) -> str:
    """Lightning comes under two names, with classes of its own under each: the one that the script uses."""
    names = [name for name in ("lightning.pytorch", "pytorch_lightning") if installed(name.partition(".")[0])]
    if not names:
        raise MissingLightning("this needs Lightning, which is not installed: `pip install 'slicewise[lightning]'`")
    return next((name for name in names if name in imported), names[0])


def installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # imports of it are blocked
        return False
