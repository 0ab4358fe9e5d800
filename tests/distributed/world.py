"""Real gloo ranks that stay up: importing torch takes longer than most tests."""

import multiprocessing as mp
import os
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from math import isnan
from multiprocessing.connection import Connection, wait
from tempfile import TemporaryDirectory
from typing import Any

from tests.campaigns import LONG

TIMEOUT_S = 1200 if LONG else 120
PRELOADED = ["torch.distributed.tensor", "torch._dynamo", "torch.export._trace", "slicewise.runtime.parallel"]
GRACE_S = 3


class World:
    """`world.run(function, *arguments)` calls a top-level function on every rank and returns what all of them agree on.

    The function finds an initialised process group and equal random numbers. What any rank raises is raised here, with
    its traceback. `world.run_each` returns a list: every rank's own answer.
    """

    def __init__(self, ranks: int) -> None:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)  # imported once for all ranks of all worlds
        self._folder = TemporaryDirectory()
        meeting = f"{self._folder.name}/meeting"
        self.ranks = ranks
        self.broken = False  # some rank hangs: start another world
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, ranks, meeting, theirs), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return agreed(self.run_each(function, *arguments))

    def run_each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        for pipe in self._pipes:
            pipe.send((function, arguments))
        answers: dict[int, tuple[bool, Any]] = {}
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(answers) < self.ranks and time.monotonic() < deadline_s:
            waiting = {pipe: rank for rank, pipe in enumerate(self._pipes) if rank not in answers}
            for ready in wait(list(waiting), timeout=1.0):
                assert isinstance(ready, Connection)
                rank = waiting[ready]
                answers[rank] = self._answer(ready)
                if answers[rank][0]:  # the others may wait for this rank for ever
                    deadline_s = min(deadline_s, time.monotonic() + GRACE_S)
        errors = [f"rank {rank}:\n{text}" for rank, (failed, text) in answers.items() if failed]
        if len(answers) < self.ranks:
            self.broken = True
            errors.append(f"no answer from ranks {sorted(set(range(self.ranks)) - set(answers))}")
        if errors:
            raise AssertionError("\n".join(errors))
        return [answers[rank][1] for rank in range(self.ranks)]

    def _answer(self, pipe: Connection) -> tuple[bool, Any]:
        try:
            answer: tuple[bool, Any] = pipe.recv()
            return answer
        except EOFError:
            self.broken = True
            return True, "the rank has ended"

    def close(self) -> None:
        for pipe in self._pipes:
            with suppress(BrokenPipeError):
                pipe.send(None)
        for process in self._processes:
            process.join(0.1 if self.broken else 10)
            if process.is_alive():
                process.kill()
        self._folder.cleanup()


def agreed(answers: Sequence[Any]) -> Any:
    """The answer of all ranks. Figures may differ, as differences from one device do: the largest counts, NaN first."""
    first = answers[0]
    if any(type(answer) is not type(first) for answer in answers):
        raise AssertionError(f"ranks disagree: {answers}")
    if isinstance(first, float):
        return next((answer for answer in answers if isnan(answer)), max(answers))
    if isinstance(first, dict) and all(answer.keys() == first.keys() for answer in answers):
        return {key: agreed([answer[key] for answer in answers]) for key in first}
    if isinstance(first, list | tuple) and all(len(answer) == len(first) for answer in answers):
        return type(first)(map(agreed, zip(*answers, strict=True)))
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{name: agreed([getattr(answer, name) for answer in answers]) for name in names})
    if any(answer != first for answer in answers):
        raise AssertionError(f"ranks disagree: {answers}")
    return first


def _serve(rank: int, ranks: int, meeting: str, pipe: Connection) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), OMP_NUM_THREADS="1")
    import torch
    import torch.distributed as dist

    from slicewise.runtime.parallel import DtypeWarning

    torch.set_num_threads(1)
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", DtypeWarning)  # tests compare in float64, whatever plans are for
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    while (task := pipe.recv()) is not None:
        function, arguments = task
        torch.manual_seed(0)
        try:
            pipe.send((False, function(*arguments)))
        except BaseException:
            pipe.send((True, traceback.format_exc()))
    dist.destroy_process_group()
