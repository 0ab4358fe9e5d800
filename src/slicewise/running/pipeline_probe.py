"""What a pipeline costs beside its layers and messages: the schedule's own work, in a step and for every micro-batch.

A small network, a stage per rank, with one micro-batch and with several. p stages take, of m micro-batches,

    T(m) = once + (m + p - 1) * (turn + layers of a stage) + (m + p - 2) * (a message there and one back)

for a stage asks for a message when it comes to it.
"""

from itertools import repeat
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn

from slicewise.cluster.lines import PIPELINE, STEP
from slicewise.graph.capture import capture
from slicewise.plans.plan import Stages
from slicewise.running.contenders import OPTIMIZERS, Contender
from slicewise.running.line_fit import Point
from slicewise.running.link_probes import ITEM_BYTES, PROBES, Members, message_seconds
from slicewise.running.measure import alternate, whole_steps
from slicewise.running.stopwatch import empty_backward_s, passes_s
from slicewise.runtime.batches import Batch, class_loss
from slicewise.runtime.pipeline import Pipeline

_SAMPLES, _WIDTH = 4, 64  # of a micro-batch; small, so that layers take little themselves
_FEW, _MANY = 1, 4  # micro-batches
_WARM_UP, _STEPS = 3, 20
_REPEATS = 5


class PipelineProbe:
    """Looked at several times, between other probes: a machine has better and worse seconds."""

    def __init__(self, device: torch.device) -> None:
        self._ranks = dist.get_world_size()
        self._stage = _stage().to(device)
        self._x = torch.randn(_MANY * _SAMPLES, _WIDTH, device=device)
        self._targets = torch.randint(_WIDTH, (_MANY * _SAMPLES,), device=device)
        self._pipes = {count: self._pipe(count) for count in (_FEW, _MANY)}
        self._own_s: dict[int, list[float]] = {count: [] for count in self._pipes}

    def look(self) -> None:
        batch = Batch(inputs=self._x, targets=self._targets)
        measured = alternate([*self._pipes.values()], repeat(batch), _STEPS, _WARM_UP)
        steps = {count: whole_steps(pipe, measured.steps[pipe.name]) for count, pipe in self._pipes.items()}
        took_s = {count: told["iteration_s"]["median"] - told["update_s"] for count, told in steps.items()}
        layers_s = sum(
            passes_s(
                self._stage,
                list(self._stage.parameters()),
                _REPEATS,
                prepare=lambda: self._x[:_SAMPLES],
                empty_s=empty_backward_s(),
            )
        )
        message_bytes = _SAMPLES * _WIDTH * ITEM_BYTES
        there_and_back_s = message_seconds([PROBES["send"]], [message_bytes], Members(size=self._ranks), _REPEATS)[0]
        for count, seconds in took_s.items():
            turns = self._turns(count)
            own_s = seconds - turns * layers_s - (turns - 1) * there_and_back_s
            self._own_s[count].append(max(0.0, own_s))

    def points(self) -> list[Point]:
        """An item is a turn. Every rank returns the same."""
        return [
            Point(kind=STEP, direction=PIPELINE, seconds=median(seconds), items=float(self._turns(count)))
            for count, seconds in self._own_s.items()
        ]

    def _turns(self, micro_batches: int) -> int:
        """Of all stages until the last is through, forward; as many backward."""
        return micro_batches + self._ranks - 1

    def _pipe(self, micro_batches: int) -> Contender:
        network = nn.Sequential(*(_stage() for _ in range(self._ranks))).to(self._x.device)
        samples = micro_batches * _SAMPLES
        graph = capture(network, self._x[:samples])
        ends = [*(f"{number}.1" for number in range(self._ranks - 1)), graph.layers[-1].name]
        stages = Stages(schedule="gpipe", micro_batches=micro_batches, stages=tuple({"last": end} for end in ends))
        pipe = Pipeline(network, graph, stages, class_loss)

        def forward_backward(fed: Batch) -> Tensor:
            return pipe.step(fed.inputs[:samples], fed.targets[:samples])

        return Contender(
            name=str(micro_batches),
            net=pipe.module,
            optimizer=OPTIMIZERS["sgd"](pipe.parameters()),
            forward_backward=forward_backward,
            loss_scale=1 / self._ranks,
        )


def _stage() -> nn.Sequential:
    return nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU())
