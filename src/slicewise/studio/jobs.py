"""Long work (a plan, the tables of Learn) in processes of its own: the page never waits for it, and what nobody
waits for is stopped.

Who asks for what is under way already joins it. The last to leave ends it. So many jobs run at once, the others wait
for their turn; none runs longer than its limit. A search returns the best plan so far before that.
"""

import asyncio
import multiprocessing
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from slicewise.errors import SlicewiseError

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

MOST_AT_ONCE = 2
MOST_WAITING = 64
MOST_KEPT = 16
LONGEST_S = 120.0  # of a search; then the best plan so far, with its proven gap
_GRACE_S = 60.0  # for what comes before and after the search itself

_PROCESSES: "ForkServerContext | SpawnContext"
if "forkserver" in multiprocessing.get_all_start_methods():
    _PROCESSES = multiprocessing.get_context("forkserver")
    _PROCESSES.set_forkserver_preload([__name__, "slicewise.planning", "slicewise.studio.exporting"])
else:
    _PROCESSES = multiprocessing.get_context("spawn")

Said = tuple[str, Any]  # "progress" and a text, "done" and what was made, or "error" and its words
Job = Callable[[Callable[[str], None]], Any]  # makes something, and tells how far it is; can be sent to a process


@dataclass(eq=False)
class _UnderWay:
    """One job, and those who listen."""

    listeners: list["asyncio.Queue[Said]"] = field(default_factory=list)
    said: Said | None = None  # the last
    task: "asyncio.Task[None] | None" = None

    def tell(self, said: Said) -> None:
        self.said = said
        for listener in self.listeners:
            listener.put_nowait(said)


class Jobs:
    """By key: done, under way, or waiting for their turn."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(MOST_AT_ONCE)
        self._running: dict[Hashable, _UnderWay] = {}
        self._done: OrderedDict[Hashable, Any] = OrderedDict()

    def done(self, key: Hashable) -> Any:
        return self._done.get(key)

    async def follow(self, key: Hashable, job: Job, *, keep: bool = True) -> AsyncGenerator[Said, None]:
        """What a job says, up to its end. Who stops listening leaves it. `keep`: what it made, for who asks again."""
        if key in self._done:
            self._done.move_to_end(key)
            yield "done", self._done[key]
            return
        work = self._running.get(key)
        if work is None:
            if len(self._running) >= MOST_WAITING:
                yield "error", f"{MOST_WAITING} others are waiting already; try again in a minute"
                return
            work = self._running[key] = _UnderWay()
            work.task = asyncio.create_task(self._run(key, work, job, keep))
        heard: asyncio.Queue[Said] = asyncio.Queue()
        work.listeners.append(heard)
        if work.said:
            heard.put_nowait(work.said)
        try:
            while True:
                said = await heard.get()
                yield said
                if said[0] != "progress":
                    return
        finally:
            work.listeners.remove(heard)
            if not work.listeners and work.task is not None:
                work.task.cancel()
                self._leave(key, work)  # who asks from now on begins anew

    async def _run(self, key: Hashable, work: _UnderWay, job: Job, keep: bool) -> None:
        try:
            if self._turn.locked():
                work.tell(("progress", "waiting for its turn"))
            async with self._turn:
                work.tell(("progress", "starting"))
                last = await self._in_process(work, job)
            if last[0] == "done" and keep:
                self._done[key] = last[1]
                while len(self._done) > MOST_KEPT:
                    self._done.popitem(last=False)
            work.tell(last)
        except OSError as error:
            work.tell(("error", f"no process for it ({error.strerror or error}); try again"))
        finally:
            self._leave(key, work)

    def _leave(self, key: Hashable, work: _UnderWay) -> None:
        if self._running.get(key) is work:
            del self._running[key]

    async def _in_process(self, work: _UnderWay, job: Job) -> Said:
        ours, theirs = _PROCESSES.Pipe(duplex=False)
        process = _PROCESSES.Process(target=_answer, args=(theirs, job), daemon=True)
        await asyncio.to_thread(process.start)
        theirs.close()
        try:
            async with asyncio.timeout(LONGEST_S + _GRACE_S):
                while True:
                    while not ours.poll():  # a thread that waits could not be called back
                        await asyncio.sleep(0.03)
                    said: Said = await asyncio.to_thread(ours.recv)
                    if said[0] != "progress":
                        return said
                    work.tell(said)
        except EOFError:
            return "error", "it ended without an answer; is there enough memory?"
        except TimeoutError:
            return "error", f"nothing after {LONGEST_S + _GRACE_S:.0f} s; ask for fewer devices"
        finally:
            process.kill()
            with suppress(Exception):
                await asyncio.shield(asyncio.to_thread(process.join))
            ours.close()


def _answer(to: Connection, job: Job) -> None:
    """In the process of the job."""
    try:
        to.send(("done", job(lambda text: to.send(("progress", text)))))
    except SlicewiseError as error:
        to.send(("error", str(error)))
    except (MemoryError, RecursionError) as error:
        to.send(("error", f"{type(error).__name__}: ask for fewer devices"))
