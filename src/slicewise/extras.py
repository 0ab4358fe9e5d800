"""Extras: PyTorch, which capturing and running need, and the web server of the studio. Planning, explaining and
projecting need none of them."""

from importlib.util import find_spec

from slicewise.errors import MissingStudio, MissingTorch


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


def installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # imports of it are blocked
        return False
