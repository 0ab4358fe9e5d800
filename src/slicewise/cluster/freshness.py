"""Whether this is still the machine that was measured."""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from slicewise.errors import RequestError

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOn:
    """What was there when `slicewise calibrate` measured a machine."""

    device: str
    torch: str
    cores: int
    ranks: int


def here(ranks: int, device: str | None = None) -> MeasuredOn:
    """This machine as it is now; `device` where it is no CPU."""
    return MeasuredOn(device=device or _processor(), torch=_torch_version(), cores=os.cpu_count() or 1, ranks=ranks)


def check_fresh(then: MeasuredOn, devices: int | None, *, on_cpu: bool, path: Path) -> None:
    """Refuse what was measured on another machine, with another torch, or on fewer ranks than are asked for.

    GPUs cannot be asked for their names without torch: of them, torch and ranks alone are compared.
    """
    now = here(then.ranks)
    differ = [
        f"{what} {getattr(then, name)}, not {getattr(now, name)}"
        for name, what in (("device", "on"), ("torch", "with torch"), ("cores", "on this many cores:"))
        if getattr(now, name) not in (getattr(then, name), UNKNOWN) and (on_cpu or name == "torch")
    ]
    again = "slicewise calibrate --quick"
    if devices is not None and devices > then.ranks:
        differ.append(f"on {then.ranks} ranks, not {devices}")
        again += f" --nproc-per-node {devices}"
    if differ:
        raise RequestError(
            f"local was measured {'; '.join(differ)}; run `{again}`, or name the file to use it all the same: "
            f"--cluster {path}"
        )


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip() or UNKNOWN
    return platform.processor() or UNKNOWN


def _torch_version() -> str:
    """Without importing it; who plans only may not have it."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return UNKNOWN
