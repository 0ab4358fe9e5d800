"""What a step costs beside its layers: calls between them, the loss, ranks that agree and wait for each other.

  a small network, sliced by sample, step by step as `slicewise run` has it      without messages and update
- the same layers by themselves, in a row
"""

from itertools import repeat
from statistics import median

import torch
import torch.distributed as dist
from torch import nn

from slicewise.cluster.lines import STEP
from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.running.contenders import OPTIMIZERS, Contender
from slicewise.running.line_fit import Point
from slicewise.running.measure import alternate, summary
from slicewise.running.stopwatch import empty_backward_s, passes_s
from slicewise.runtime.batches import Batch, class_loss
from slicewise.runtime.clock import backpropagate
from slicewise.runtime.sliced_module import SlicedModule

_SAMPLES, _WIDTH, _BLOCKS = 4, 64, 4  # of a rank; small, so that layers take little themselves
_WARM_UP, _STEPS = 5, 40
_REPEATS = 5


class StepProbe:
    """Looked at several times, between other probes: a machine has better and worse seconds."""

    def __init__(self, device: torch.device) -> None:
        self._network = nn.Sequential(
            *(part for _ in range(_BLOCKS) for part in (nn.Linear(_WIDTH, _WIDTH), nn.ReLU()))
        ).to(device)
        self._sliced = _contender(self._network)
        self._x = torch.randn(_SAMPLES, _WIDTH, device=device)
        self._targets = torch.randint(_WIDTH, (_SAMPLES,), device=device)
        self._seconds: list[float] = []

    def look(self) -> None:
        batch = Batch(inputs=self._x, targets=self._targets)
        measured = alternate([self._sliced], repeat(batch), _STEPS, _WARM_UP)
        whole_s = summary(self._sliced, measured.steps[self._sliced.name], measured.data_s)["compute_s"]
        forward_s, backward_s = passes_s(
            self._network,
            list(self._network.parameters()),
            _REPEATS,
            prepare=lambda: self._x,
            empty_s=empty_backward_s(),
        )
        self._seconds.append(max(0.0, whole_s - forward_s - backward_s))

    def point(self) -> Point:
        """Every rank returns the same."""
        return Point(kind=STEP, direction="forward", seconds=median(self._seconds))


def _contender(network: nn.Module) -> Contender:
    ranks = dist.get_world_size()
    graph = capture(network, torch.randn(_SAMPLES * ranks, _WIDTH, device=next(network.parameters()).device))
    mesh = Mesh.of({"local": ranks})
    net = SlicedModule(network, graph, {layer.name: (Dim.N,) * len(mesh.axes) for layer in graph}, mesh)

    def forward_backward(fed: Batch) -> torch.Tensor:
        loss = class_loss(net(fed.inputs), fed.targets)
        backpropagate(loss)
        return loss.detach()

    return Contender(
        name="slicewise",
        net=net,
        optimizer=OPTIMIZERS["sgd"](net.parameters()),
        forward_backward=forward_backward,
        loss_scale=1 / ranks,
    )
