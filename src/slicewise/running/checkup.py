"""Is this machine ready? What is installed, where things are kept, does the profile describe what is here."""

import os
import platform
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slicewise.cluster.cluster import Cluster, load_cluster, local_path
from slicewise.errors import RequestError
from slicewise.extras import installed
from slicewise.running.installed import Package, packages
from slicewise.units import amount

WRONG, MISSING = "wrong", "missing"  # something stands in the way; something could be added
AS_CALIBRATED = 2.0  # a short look at a link that others use tells no smaller difference
_SAME_MEMORY = 0.1
_DRIVER = Path("/proc/driver/nvidia/gpus")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: str
    said: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceCheck:
    """An all-reduce between the ranks: as measured now, and as the profile has it."""

    message_bytes: int
    measured_s: float
    calibrated_s: float | None

    @property
    def ratio(self) -> float | None:
        return self.measured_s / self.calibrated_s if self.calibrated_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCheck:
    ranks: int
    exchanges: tuple[AllReduceCheck, ...]

    @property
    def ratio(self) -> float | None:
        """The geometric mean over message sizes."""
        ratios = [exchange.ratio for exchange in self.exchanges if exchange.ratio is not None]
        product = 1.0
        for ratio in ratios:
            product *= ratio
        return product ** (1 / len(ratios)) if ratios else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    packages: tuple[Package, ...]
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...]
    cache: Path
    cache_from: str
    profile: str  # "local", or the file that was named
    cluster: Cluster | None
    network: NetworkCheck | None = None
    findings: tuple[Finding, ...] = ()
    python: str = field(default_factory=platform.python_version)
    system: str = field(default_factory=lambda: f"{platform.system()} {platform.machine()}")

    @property
    def well(self) -> bool:
        return all(finding.level != WRONG for finding in self.findings)


def check_up(profile: str = "local", network: NetworkCheck | None = None) -> Checkup:
    """Everything that can be known without starting ranks; `network` is what they have measured."""
    found = tuple(packages())
    gpus = _gpus()
    cluster, unreadable = _cluster(profile)
    folder = local_path().parent
    findings = [*_about_packages(found), *_about_gpus(gpus), *_about_cache(folder), *_about_interfaces(os.environ)]
    findings += unreadable
    if cluster is not None and not unreadable:
        findings += _about_profile(cluster, gpus)
    if network is not None:
        findings += _about_network(network)
    return Checkup(
        packages=found,
        cores=os.cpu_count() or 1,
        memory_bytes=host_memory_bytes(),
        gpus=gpus,
        cache=folder,
        cache_from=next((name for name in ("SLICEWISE_CACHE", "XDG_CACHE_HOME") if os.environ.get(name)), "default"),
        profile=profile,
        cluster=cluster,
        network=network,
        findings=tuple(findings),
    )


def host_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpus() -> tuple[str, ...]:
    if not installed("torch"):
        return ()
    from slicewise.running.gpus import gpu_names

    return tuple(gpu_names())


def _cluster(profile: str) -> tuple[Cluster | None, list[Finding]]:
    again = "slicewise calibrate"
    if profile == "local" and not local_path().exists():
        said = "this machine is not calibrated: `--cluster local` has nothing to predict with"
        return None, [Finding(level=MISSING, said=said, fix=again)]
    try:
        return load_cluster(profile), []
    except (RequestError, OSError) as error:
        if profile != "local":
            raise
        return None, [Finding(level=WRONG, said=f"the profile cannot be read: {error}", fix=again)]


def _about_packages(found: tuple[Package, ...]) -> Iterator[Finding]:
    if not found:
        said = "slicewise itself is not installed, only on the path: versions of packages are not checked"
        yield Finding(level=MISSING, said=said, fix="pip install slicewise")
    for package in found:
        source = f"slicewise[{package.extra}]" if package.extra else "slicewise"
        if package.version is None and package.extra:
            said = f"{package.name} is not installed, which {_USES.get(package.extra, package.extra)} needs"
            yield Finding(level=MISSING, said=said, fix=f"pip install '{source}'")
        elif not package.fits:
            said = f"{package.name} is {package.version or 'not installed'}; slicewise needs {package.wanted}"
            yield Finding(level=WRONG, said=said, fix=f"pip install '{package.name}{package.wanted}'")


_USES = {
    "figures": "figures as .png",
    "safetensors": "exporting checkpoints as .safetensors",
    "studio": "the studio",
    "torch": "capturing, running and calibrating",
}


def _about_gpus(gpus: tuple[str, ...]) -> Iterator[Finding]:
    driven = len(list(_DRIVER.iterdir())) if _DRIVER.is_dir() else 0
    if driven and not gpus and installed("torch"):
        said = f"this host has {driven} NVIDIA GPUs, but the torch that is installed sees none"
        yield Finding(level=WRONG, said=said, fix="pip install --force-reinstall torch (a build for CUDA)")


def _about_cache(folder: Path) -> Iterator[Finding]:
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        said = f"nothing can be written to {folder}, where `slicewise calibrate` keeps its profile"
        yield Finding(level=WRONG, said=said, fix="export SLICEWISE_CACHE=FOLDER")


def _about_interfaces(environment: Mapping[str, str]) -> Iterator[Finding]:
    """gloo and NCCL take a name or, separated by commas, several; NCCL's may begin with ^ or =."""
    known = [name for _, name in socket.if_nameindex()]
    for variable in _INTERFACES:
        for name in filter(None, environment.get(variable, "").split(",")):
            if not name.startswith("^") and not any(one.startswith(name.lstrip("=")) for one in known):
                said = f"{variable} names {name!r}, which this host does not have; it has {', '.join(known)}"
                yield Finding(level=WRONG, said=said, fix=f"export {variable}={known[-1]}")


def _about_profile(cluster: Cluster, gpus: tuple[str, ...]) -> Iterator[Finding]:
    """Only what was measured can be compared; a preset or a file of your own describes what you say it does."""
    if cluster.origin != "fitted":
        return
    hosts = 1 if cluster.tiers[0].name == "local" else cluster.tiers[0].size  # as `calibrate` names them
    ranks = cluster.devices // hosts
    differs = []
    on_cpu = cluster.cores is not None
    if on_cpu and gpus:
        differs.append(f"it was measured on CPU cores, and this host has {len(gpus)} x {gpus[0]}")
    elif not on_cpu and installed("torch") and cluster.device.name not in gpus:
        here = f"{len(gpus)} x {gpus[0]}" if gpus else "no GPU"
        differs.append(f"it was measured on {cluster.device.name}, and this host has {here}")
    elif not on_cpu and len(gpus) < ranks and installed("torch"):
        differs.append(f"it was measured on {ranks} GPUs of one host, and this host has {len(gpus)}")
    if cluster.cores is not None and cluster.cores != hosts * max(os.cpu_count() or 1, ranks):
        differs.append(f"it was measured with {cluster.cores // hosts} cores, and this host has {os.cpu_count()}")
    if on_cpu and abs(cluster.device.memory_bytes * ranks / host_memory_bytes() - 1) > _SAME_MEMORY:
        was, here = amount(cluster.device.memory_bytes * ranks, "B"), amount(host_memory_bytes(), "B")
        differs.append(f"it was measured with {was} of memory, and this host has {here}")
    for difference in differs:
        said = f"the profile is not of this machine: {difference}"
        yield Finding(level=WRONG, said=said, fix="slicewise calibrate")


def _about_network(network: NetworkCheck) -> Iterator[Finding]:
    ratio = network.ratio
    if ratio is not None and not 1 / AS_CALIBRATED <= ratio <= AS_CALIBRATED:
        times = f"takes {ratio:.1f}x as long as" if ratio > 1 else f"is {1 / ratio:.1f}x as fast as"
        said = f"an all-reduce between {network.ranks} ranks {times} the profile says"
        fix = "slicewise calibrate" if ratio < 1 else "look for other jobs on this link, or `slicewise calibrate`"
        yield Finding(level=WRONG, said=said, fix=fix)
