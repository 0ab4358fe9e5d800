"""Who may ask: the page that this server sent, and nobody else. There are no cookies and no sessions to steal.

Host      must be the address that was bound: a name that somebody points here (DNS rebinding) is refused
Origin    where a browser sends one, must be our own; so must Sec-Fetch-Site
POST      of JSON or bytes only: what a form of another page can send without asking is refused
body      bounded, by what it says and by what comes
"""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_JSON_BYTES = 4 * 2**20
JSON, BYTES = "application/json", "application/octet-stream"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Stands before the application."""

    def __init__(self, app: App, hosts: Collection[str], largest_bytes: int) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._largest_bytes = largest_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in known),
                ]
            await send(message)

        refused = self._refusal(scope["method"], headers)
        if refused:
            code, reason = refused
            await JSONResponse({"error": reason}, status_code=code)(scope, receive, guarded)
            return
        limit = self._largest_bytes if headers.get("content-type", "") == BYTES else LARGEST_JSON_BYTES
        await self._app(scope, _bounded(receive, limit), guarded)

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return 421, f"this server answers at {', '.join(sorted(self._hosts))} only (got {host!r})"
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return 403, f"a page of {origin!r} may not ask this server"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "a page of another origin may not ask this server"
        if method == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in (JSON, BYTES):
                return 415, f"send {JSON} or {BYTES} (got {kind!r})"
            length = headers.get("content-length", "0")
            most = self._largest_bytes if kind == BYTES else LARGEST_JSON_BYTES
            if not length.isdecimal() or int(length) > most:
                return 413, f"{length} bytes; at most {most:,} are read"
        elif method not in ("GET", "HEAD"):
            return 405, f"{method} is not answered here"
        return None


def _bounded(receive: Receive, limit: int) -> Receive:
    """What comes, up to `limit` bytes."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > limit:
                raise HTTPException(413, f"more than {limit:,} bytes; send less")
        return message

    return receiving
