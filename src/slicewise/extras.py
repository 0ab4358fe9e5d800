"""PyTorch is an extra: capturing and running need it; planning, explaining and projecting do not."""

from importlib.util import find_spec

from slicewise.errors import MissingTorch


def require_torch() -> None:
    """Before work that would be in vain without it."""
    try:
        found = find_spec("torch") is not None
    except ValueError:  # imports of it are blocked
        found = False
    if not found:
        raise MissingTorch("this needs PyTorch, which is not installed: `pip install 'slicewise[torch]'`")
