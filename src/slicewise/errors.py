"""What can go wrong, in one tree.

    SlicewiseError
    ├── RequestError          the request was wrong: exit code 2
    │   ├── UnknownName       a name nobody knows; the message lists the known ones
    │   ├── GraphError        a graph file or a model that cannot be used
    │   ├── ClusterError      a cluster description with a wrong field
    │   ├── SlicingError      a slicing that is not legal for its layer
    │   ├── PlanError         a plan that does not match model, world or batch
    │   ├── CheckpointError   a checkpoint that cannot be saved or loaded
    │   ├── MissingTorch      PyTorch is not installed; an ImportError too
    │   ├── MissingAccelerate Hugging Face Accelerate is not installed; an ImportError too
    │   ├── MissingLightning  PyTorch Lightning is not installed; an ImportError too
    │   └── MissingStudio     the studio's web server is not installed; an ImportError too
    ├── InfeasibleError       the answer is no: exit code 1
    │   └── MemoryLimitError  no plan fits the devices' memory
    └── RankError             a rank of a distributed run failed: exit code 3
        └── StallError        ranks wait for one that does not move any more

Every message says what is wrong, with which value, and what would work.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MOST_LISTED = 40  # names in one message
_ALIKE = 8  # of more names


class SlicewiseError(Exception):
    """Base of every error that slicewise raises on purpose."""

    exit_code = 3


class RequestError(SlicewiseError):
    exit_code = 2

    def __str__(self) -> str:
        """One line, whatever signs the request has that it repeats."""
        said = super().__str__()
        return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in said)


class UnknownName(RequestError):
    """`UnknownName("model", "alexnte", ["alexnet", "unet3d"])`."""

    def __init__(self, what: str, name: str, known: Iterable[str], hint: str = "") -> None:
        super().__init__(f"unknown {what} {name!r}; choose from {_offered(name, sorted(known))}{hint}")


def _offered(name: str, known: Sequence[str]) -> str:
    """All of them; of many, as a network has layers, those that are spelled alike."""
    if len(known) <= _MOST_LISTED:
        return ", ".join(known)
    from difflib import get_close_matches  # only where something is wrong

    alike = get_close_matches(name[:100], known, _ALIKE, 0.4) or known[:_ALIKE]
    return f"{', '.join(alike)} and {len(known) - len(alike)} more"


class GraphError(RequestError):
    pass


class ClusterError(RequestError):
    pass


class SlicingError(RequestError):
    pass


class PlanError(RequestError):
    pass


class CheckpointError(RequestError):
    pass


class MissingTorch(RequestError, ImportError):
    pass


class MissingStudio(RequestError, ImportError):
    pass


class MissingAccelerate(RequestError, ImportError):
    pass


class MissingLightning(RequestError, ImportError):
    pass


class InfeasibleError(SlicewiseError):
    exit_code = 1


class MemoryLimitError(InfeasibleError):
    pass


class RankError(SlicewiseError):
    pass


class StallError(RankError):
    """`record`: where every rank was last seen."""

    def __init__(self, message: str, record: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.record = record
