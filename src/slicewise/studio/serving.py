"""The server: one process, on this machine only unless told otherwise."""

import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from slicewise.errors import RequestError
from slicewise.studio.answers import Answers
from slicewise.studio.guards import App, Guard
from slicewise.studio.routes import Studio
from slicewise.studio.uploads import LARGEST_BYTES

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
BACKLOG = 128


def application(hosts: tuple[str, ...], port: int, files: tuple[Path, ...] = ()) -> App:
    """The page behind its guard. `files` are there as if they had been uploaded."""
    answers = Answers()
    for path in files:
        answers.preload(path)
    known = [f"{host}:{port}" for host in hosts] + ([*hosts] if port == 80 else [])
    return Guard(Studio(answers).app(), known, LARGEST_BYTES)


def serve(host: str, port: int, files: tuple[Path, ...], *, show: bool, told: Callable[[str], None]) -> None:
    """Until Control-C. Port 0 is any that is free."""
    with _bound(host, port) as listening:
        _serve(listening, host, files, show=show, told=told)


def _serve(
    listening: socket.socket, host: str, files: tuple[Path, ...], *, show: bool, told: Callable[[str], None]
) -> None:
    actual = listening.getsockname()[1]
    named = f"[{host}]" if ":" in host else host
    own, everywhere = host in ("127.0.0.1", "::1", "localhost"), host in ("0.0.0.0", "::")
    hosts = [*(LOOPBACK if own or everywhere else (named,))]
    if not own:
        hosts += [socket.gethostname(), *_addresses()]
    app = application(tuple(dict.fromkeys(hosts)), actual, files)
    address = f"http://{'127.0.0.1' if everywhere else named}:{actual}/"
    told(f"slicewise studio: {address}  (Control-C ends it)")
    if not own:
        told("slicewise studio: others on your network can reach this page, and make this machine work")
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, date_header=False, lifespan="off",
        timeout_keep_alive=30, timeout_graceful_shutdown=1, ws="none", h11_max_incomplete_event_size=65_536,
    )  # fmt: skip
    server = uvicorn.Server(settings)
    if show:
        webbrowser.open(address)
    server.run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise RequestError(
            f"cannot listen at {host}:{port} ({error.strerror or error}); choose another with `port=8766`"
        ) from error
    listening.listen(BACKLOG)
    return listening


def _addresses() -> list[str]:
    """What this machine is called by others on its network."""
    try:
        return sorted({str(item[4][0]) for item in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)})
    except OSError:
        return []
