"""Measure this machine, as one call."""

from pathlib import Path

from slicewise.cluster.cluster import Cluster, load_cluster, local_path
from slicewise.errors import RequestError
from slicewise.running.launch import launch
from slicewise.saving import check_target

LEAST_RANKS = 2


def check_measurable(ranks: int) -> None:
    if ranks < LEAST_RANKS:
        raise RequestError(
            f"links are measured, which takes at least {LEAST_RANKS} ranks (got `nproc_per_node={ranks}`)"
        )


def calibrate(*, quick: bool = False, nproc_per_node: int = 2, output: str | Path | None = None) -> Cluster:
    """Measure compute and links of this machine on `nproc_per_node` ranks, and write them to `output`, a .toml file.

    Left out, that is where "local" is read from. An older file is kept beside it. `calibrate_from` learns another
    machine from runs that somebody measured on it.
    """
    check_measurable(nproc_per_node)
    path = Path(output) if output is not None else local_path()
    if path.suffix != ".toml":
        raise RequestError(f"a cluster is written to a .toml file (got {str(path)!r})")
    path.parent.mkdir(parents=True, exist_ok=True)
    check_target(path)
    launch(["calibrate", *(["--quick"] if quick else []), "-o", str(path)], nproc_per_node)
    return load_cluster(path)
