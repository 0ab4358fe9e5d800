"""What the page can ask. Every answer follows from what is sent: nothing is kept between two questions but caches."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as Asked
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from slicewise.errors import RequestError, SlicewiseError
from slicewise.studio.answers import Answers, Wanted
from slicewise.studio.jobs import Jobs
from slicewise.studio.page_files import page_files
from slicewise.studio.remembering import Remembered

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
THREADS = 4
LASTING = ("project", "scaling", "layer", "change", "price", "figure", "compare")  # the same question, the same answer
LARGEST_MEMORY_BYTES = 32 * 2**20  # of answers that are remembered


class Studio:
    """The routes, and what they share."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.jobs = Jobs()
        self._threads = anyio.CapacityLimiter(THREADS)
        self._known = Remembered(LARGEST_MEMORY_BYTES)
        self._files = {name: text.encode() for name, text in page_files().items()}

    def app(self) -> Starlette:
        wanted_report = partial(self.answers.wanted_report, self.jobs.done)
        questions: dict[str, Callable[[Any], Any]] = {
            "choices": self.answers.choices,
            "project": self.answers.project,
            "scaling": self.answers.scaling,
            "layer": self.answers.layer,
            "change": self.answers.change,
            "price": self.answers.price,
            "compare": self.answers.compare,
            "commands": self.answers.commands,
            "figure": partial(self.answers.figure, self.jobs.done),
            "export": partial(self.answers.export, self.jobs.done),
        }
        return Starlette(
            exception_handlers={HTTPException: _refused},
            routes=[
                Route("/", self._file, methods=["GET"]),
                Route("/page/{name}", self._file, methods=["GET"]),
                Route("/api/plan", self._streaming(self.answers.wanted_plan), methods=["POST"]),
                Route("/api/lessons", self._streaming(self.answers.wanted_lessons), methods=["POST"]),
                Route(
                    "/api/report",
                    self._streaming(wanted_report),
                    methods=["POST"],
                ),
                Route("/api/upload", self._upload, methods=["POST"]),
                *(
                    Route(f"/api/{name}", self._answering(name, question), methods=["POST"])
                    for name, question in questions.items()
                ),
            ],
        )

    async def _file(self, asked: Asked) -> Response:
        """A file of the page; names are looked up among those that are there."""
        name = asked.path_params.get("name", "index.html")
        if name not in self._files:
            return _json({"error": f"no such file: {name}"}, 404)
        kind = KINDS.get(name[name.rfind(".") :], "application/octet-stream")
        return Response(self._files[name], media_type=kind, headers={"cache-control": "no-cache"})

    def _answering(self, name: str, question: Callable[[Any], Any]) -> Callable[[Asked], Awaitable[Response]]:
        async def answered(asked: Asked) -> Response:
            body = await asked.body()
            known = self._known.get((name, body))
            if known is not None:
                return _encoded(known)
            made = await self._guarded(question, body)
            if made.status_code == 200 and name in LASTING:
                self._known.add((name, body), bytes(made.body))
            return made

        return answered

    async def _guarded(self, question: Callable[[Any], Any], body: bytes) -> Response:
        """In a thread; whatever is wrong with the request comes back as one line."""
        try:
            document = _parsed(body)
            return await anyio.to_thread.run_sync(lambda: _json(question(document)), limiter=self._threads)
        except SlicewiseError as error:
            return _json({"error": str(error)}, 400)
        except (MemoryError, RecursionError) as error:
            return _json({"error": f"{type(error).__name__}: ask for fewer devices or a smaller network"}, 400)

    async def _upload(self, asked: Asked) -> Response:
        try:
            name = asked.query_params.get("name", "")
            content = await asked.body()
            added = await anyio.to_thread.run_sync(self.answers.upload, name, content, limiter=self._threads)
            return _json(added)
        except SlicewiseError as error:
            return _json({"error": str(error)}, 400)

    def _streaming(self, question: Callable[[Any], Wanted]) -> Callable[[Asked], Awaitable[Response]]:
        """A stream of events: progress, then what was made or what is wrong. To hang up is to cancel."""

        async def answered(asked: Asked) -> Response:
            try:
                document = _parsed(await asked.body())
                wanted = await anyio.to_thread.run_sync(question, document, limiter=self._threads)
            except SlicewiseError as error:
                return _json({"error": str(error)}, 400)
            events = self._events(wanted)
            return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

        return answered

    async def _events(self, wanted: Wanted) -> AsyncIterator[bytes]:
        following = self.jobs.follow(wanted.key, wanted.job, keep=wanted.keep)
        try:
            async for kind, said in following:
                if kind == "done":
                    said = await anyio.to_thread.run_sync(wanted.shown, said, limiter=self._threads)
                yield b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(said))
        except SlicewiseError as error:
            yield b"event: error\ndata: %s\n\n" % msgspec.json.encode(str(error))
        finally:
            await following.aclose()


async def _refused(_: Asked, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code)


def _parsed(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"the request is not JSON ({error})") from error


def _json(document: Any, code: int = 200) -> Response:
    """NaN and infinity are null."""
    return _encoded(msgspec.json.encode(document), code)


def _encoded(text: bytes, code: int = 200) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(text, status_code=code, media_type="application/json", headers=headers)
