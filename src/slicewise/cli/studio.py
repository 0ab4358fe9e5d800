"""`slicewise studio`: the page, on this machine."""

import argparse
from pathlib import Path

from slicewise.cli.options import progress

HELP = "a page on this machine: see, change and compare plans; learn how parallel training works"
PORT = 8765


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be from 0 (any that is free) to 65535 (got {text!r})")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="graphs, plans or clusters to begin with")
    parser.add_argument("--port", type=_port, default=PORT, help=f"where it listens (default: {PORT}; 0: any)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="another address than this machine's own (default: 127.0.0.1)"
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")


def main(options: argparse.Namespace) -> int:
    from slicewise.extras import require_studio

    require_studio()
    from slicewise.studio.serving import serve

    serve(options.host, options.port, tuple(options.files), show=not options.no_open, told=progress)
    return 0
