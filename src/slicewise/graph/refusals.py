"""Why torch.export could not take a model, in our words, and what to change."""

import re
import traceback
from pathlib import Path
from typing import Any

from slicewise.graph.own_gradients import OwnGradient

_VALUES = ("data-dependent", "Data dependent", "data dependent", "GuardOnDataDependent", "DynamicOutputShape")
_UNKNOWN_CLASS = re.compile(r"Found <class '([^']+)'> in output, which is not a known type")
_OURS = str(Path(__file__).parents[1])
_LONGEST_LINE = 80
_HOST = ("numpy", "FakeTensor", ".item()", "tolist")


def reason(error: BaseException, given: tuple[Any, ...]) -> str:
    """One line: what was found, and what would work."""
    if isinstance(error, OwnGradient):
        return str(error)
    first_line = str(error).strip().split("\n")[0]
    kind = type(error).__name__
    said = f"{kind}: {first_line}"
    place = _place(error)
    if returned := _UNKNOWN_CLASS.search(str(error)):
        name = returned[1].split(".")[-1]
        return (
            f"forward() returns a {name}, which torch does not know; call torch.export.register_dataclass({name}) "
            "first if it is a dataclass, or return a tuple or a dict"
        )
    if any(word in kind or word in str(error) for word in _VALUES):
        return (
            f"forward() decides by the value of a tensor ({place or said}); make it free of branches on tensor values "
            "(torch.where, clamp), or pass the part of the model that is"
        )
    if isinstance(error, TypeError) and "argument" in first_line:
        return (
            f"forward() does not take what was given ({first_line}); "
            "pass all its tensors as a tuple, or as a dict by name"
        )
    if any(word in str(error) for word in _HOST):
        return f"forward() takes tensors out of torch ({place or said}); keep the computation in torch operators"
    if kind in ("RuntimeError", "ValueError", "IndexError", "AssertionError"):
        shapes = ", ".join(str(tuple(x.shape)[1:]) for x in given if hasattr(x, "shape"))
        return f"forward() fails on samples of shape {shapes} ({said}); give a sample that the model takes"
    return (
        f"torch.export cannot follow forward() ({said}); write that part in plain tensor operators, "
        "or pass the part of the model that is"
    )


def _place(error: BaseException) -> str:
    """The line of the model that it comes from, if there is one: `model.py:12: if x.sum() > 0:`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if frame.line and "torch" not in path.parts and not frame.filename.startswith(_OURS):
            return f"{path.name}:{frame.lineno}: {frame.line[:_LONGEST_LINE]}"
    return ""
