"""`slicewise cluster list | show | init`: the machines that can be planned for."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cli.options import CLUSTER, add_json, positive, print_json, progress

if TYPE_CHECKING:
    from slicewise.cluster.cluster import Cluster

HELP = "list the known clusters and devices, show one, or begin a file for your own"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="presets and the catalogue of devices")
    add_json(listing)
    listing.set_defaults(act=_list)

    showing = actions.add_parser("show", help="all figures of one cluster")
    showing.add_argument("cluster", metavar="NAME|FILE", help=CLUSTER)
    showing.add_argument("--devices", type=positive, help="trim or grow the cluster to this many devices")
    add_json(showing)
    showing.set_defaults(act=_show)

    beginning = actions.add_parser("init", help="write a commented TOML file to edit")
    beginning.add_argument("file", type=Path, metavar="FILE", help="where to write; its name ends in .toml")
    beginning.add_argument("--from", dest="base", default="dgx-a100", metavar="PRESET", help="default: dgx-a100")
    beginning.add_argument("--force", action="store_true", help="overwrite the file if it is there")
    beginning.set_defaults(act=_init)


def main(options: argparse.Namespace) -> int:
    code: int = options.act(options)
    return code


def _list(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster, local_path, preset_names
    from slicewise.cluster.device import device_names, load_device

    calibrated = local_path().exists()
    clusters = [load_cluster(name) for name in [*preset_names(), *(["local"] if calibrated else [])]]
    devices = [load_device(name) for name in device_names()]
    if options.json:
        print_json(
            {
                "clusters": [_document(cluster) for cluster in clusters],
                "devices": [asdict(device) for device in devices],
            }
        )
    else:
        from slicewise.report.clusters import show_catalogue

        show_catalogue(clusters, devices, calibrated=calibrated)
    return 0


def _show(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster

    cluster = load_cluster(options.cluster)
    cluster = cluster.with_devices(options.devices) if options.devices else cluster
    if options.json:
        print_json(_document(cluster))
    else:
        from slicewise.report.clusters import show_cluster

        show_cluster(cluster)
    return 0


def _init(options: argparse.Namespace) -> int:
    from slicewise.cluster.starter import starter
    from slicewise.errors import RequestError
    from slicewise.saving import check_target, write_file

    if options.file.suffix != ".toml":
        raise RequestError(f"a cluster file is known by its ending: call it {options.file.with_suffix('.toml')}")
    if options.file.exists() and not options.force:
        raise RequestError(f"{options.file} is there already; choose another name, or --force to overwrite it")
    check_target(options.file)
    write_file(options.file, starter(options.file, options.base))
    progress(f"wrote {options.file}")
    return 0


def _document(cluster: "Cluster") -> dict[str, Any]:
    return {"devices": cluster.devices, **asdict(cluster)}
