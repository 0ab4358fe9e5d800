"""A network as a pipeline: each rank holds one stage, torch.distributed.pipelining carries what goes between them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from slicewise.cost.training import PLAIN, Training
from slicewise.errors import PlanError
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan, Stages
from slicewise.runtime.blueprint import with_trained
from slicewise.runtime.compiling import uncompiled
from slicewise.runtime.initial import Initialize
from slicewise.runtime.parallel import agreed, loaded
from slicewise.runtime.stage import Stage
from slicewise.runtime.watchdog import watch
from slicewise.runtime.whereabouts import OUTSIDE, mark

Loss = Callable[[Any, Tensor], Tensor]
_SCHEDULES: Mapping[str, type[PipelineScheduleSingle]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def pipeline(
    model: nn.Module,
    plan: Plan | str | Path,
    *,
    loss: Loss,
    graph: LayerGraph | None = None,
    seed: int = 0,
    initialize: Initialize | None = None,
    stall_timeout: float = 60.0,
) -> "Pipeline":
    """`model` under a pipeline plan, on the initialised process group; `loss(output, target)` is a mean over samples.

    Inside torchrun:

        net = sw.pipeline(model, "plan.json", loss=F.cross_entropy)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.step(x, target); optimizer.step(); optimizer.zero_grad()
    """
    chosen = loaded(plan, pipeline=True)
    model = uncompiled(model)
    own = agreed(model, chosen, graph, seed, {"initialize": "given" if initialize else "not given"})
    if own.all_training and model.training:
        raise PlanError(
            "parts of the model are in eval mode, where its layers are not the plan's; plan for these modes"
        )
    watch(stall_timeout)
    assert own.plan.pipeline is not None
    return Pipeline(
        model,
        chosen.sized(own.graph),
        own.plan.pipeline,
        loss,
        training=own.plan.training,
        seed=seed,
        initialize=initialize,
    )


class Pipeline:
    """One rank's view of the whole: `step` trains, `evaluate` runs forward only; weights are those of this stage.

    Every rank calls the same methods. Only the first needs inputs, only the last targets.
    """

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        stages: Stages,
        loss: Loss,
        *,
        training: Training = PLAIN,
        seed: int = 0,
        initialize: Initialize | None = None,
    ) -> None:
        """`graph`: of the whole batch."""
        graph = with_trained(graph, {name: p.requires_grad for name, p in model.named_parameters()})
        positions = stages.check(graph, dist.get_world_size())
        self.rank, self.stages = dist.get_rank(), len(stages.stages)
        self.micro_batches, self._batch = stages.micro_batches, graph.batch
        self.module = Stage(
            model,
            graph,
            positions,
            dtype=training.dtype,
            recompute=training.recompute,
            seed=seed,
            initialize=initialize,
        )
        self._inputs, self._loss = graph.inputs, loss
        self._schedule = _SCHEDULES[stages.schedule]
        self._trainers: dict[int, PipelineScheduleSingle] = {}  # by samples of a micro-batch
        self._evaluators: dict[tuple[int, int], PipelineScheduleSingle] = {}

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def last(self) -> bool:
        return self.rank == self.stages - 1

    def step(self, x: Any = None, target: Tensor | None = None, *, batch: int | None = None) -> Tensor:
        """Forward and backward of one batch; the mean loss, on every rank. Gradients add up until they are cleared.

        `batch`: its samples, where they are not the plan's and this rank passes neither inputs nor targets.
        """
        inputs = self._given(x)
        samples = self._samples(inputs, target, batch)
        if samples % self.micro_batches:
            raise PlanError(
                f"{samples} samples do not divide into the plan's {self.micro_batches} micro-batches; "
                "leave out a smaller last batch (drop_last=True)"
            )
        if self.last and target is None:
            raise PlanError("the last rank needs the targets: step(x, target)")
        size = samples // self.micro_batches
        if size not in self._trainers:
            self._trainers[size] = self._schedule(
                self._stage(inputs, size), self.micro_batches, loss_fn=self._share_of_loss, scale_grads=False
            )
        losses: list[Tensor] = []
        self._trainers[size].step(
            *(inputs if self.first else ()),
            target=target if self.last else None,
            losses=losses if self.last else None,
            return_outputs=False,
        )
        total = torch.zeros((), dtype=torch.float64, device=self.module.device)
        for loss in losses:
            total += loss.detach()
        mark("transfer", "the loss")
        dist.broadcast(total, src=self.stages - 1)
        mark(OUTSIDE)
        return total

    def evaluate(self, x: Any = None, *, batch: int | None = None) -> Any:
        """The output of the whole batch on the last rank, None on the others; nothing is kept for backward."""
        inputs = self._given(x)
        samples = self._samples(inputs, None, batch)
        count = self.micro_batches if samples % self.micro_batches == 0 else 1
        key = (count, samples // count)
        if key not in self._evaluators:
            self._evaluators[key] = ScheduleGPipe(self._stage(inputs, samples // count), count, scale_grads=False)
        with torch.no_grad():
            return self._evaluators[key].step(*(inputs if self.first else ()))

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.module.named_parameters()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return self.module.named_buffers()

    def state_dict(self) -> dict[str, Any]:
        """This stage's, under the model's own names; all ranks' together are the model's."""
        return self.module.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From this stage's state or the whole model's: other stages' entries are left alone."""
        own = self.module.state_dict()
        missing = [name for name in own if name not in state]
        if missing:
            raise PlanError(f"stage {self.rank} misses {missing[0]} in the given state ({len(missing)} in all)")
        self.module.load_state_dict({name: state[name] for name in own})

    def train(self, mode: bool = True) -> "Pipeline":
        self.module.train(mode)
        return self

    def eval(self) -> "Pipeline":
        return self.train(False)

    def _share_of_loss(self, output: Any, target: Tensor) -> Tensor:
        """Shares add up to the mean over micro-batches; gradients need no scaling then, and may add up over steps."""
        return self._loss(output, target) / self.micro_batches

    def _given(self, x: Any) -> tuple[Tensor, ...]:
        """The first rank's inputs; what others pass is not needed."""
        if x is None and self.first:
            raise PlanError("rank 0 needs the inputs: step(x, target)")
        given = () if x is None else x if isinstance(x, tuple) else (x,)
        if given and len(given) != len(self._inputs):
            raise PlanError(f"the network has {len(self._inputs)} inputs (got {len(given)})")
        for layer, tensor in zip(self._inputs, given, strict=bool(given)):
            _check_shape(layer, tensor)
        return given

    def _samples(self, inputs: Sequence[Tensor], target: Tensor | None, batch: int | None) -> int:
        known = {len(tensor) for tensor in (*inputs, *([] if target is None else [target]))}
        known |= set() if batch is None else {batch}
        if len(known) > 1:
            raise PlanError(f"inputs and targets of different numbers of samples ({sorted(known)})")
        return known.pop() if known else self._batch

    def _stage(self, inputs: Sequence[Tensor], size: int) -> PipelineStage:
        """Shapes are told beforehand: torch would find them by running the first micro-batch once more."""
        module, rank = self.module, self.rank
        given = tuple(x[:size].detach() for x in inputs) if self.first else (module.boundary(rank - 1, size),)
        made = module.outputs(size) if self.last else (module.boundary(rank, size),)
        return PipelineStage(module, rank, self.stages, module.device, input_args=given, output_args=made)


def _check_shape(layer: Layer, tensor: Tensor) -> None:
    if tuple(tensor.shape[1:]) != layer.shape[1:]:
        raise PlanError(
            f"the plan is for samples of shape {layer.shape[1:]}, {layer.name} has {tuple(tensor.shape[1:])}; "
            "plan again with another `input`"
        )
    if tensor.requires_grad:
        raise PlanError(f"{layer.name}: gradients of the input are not computed; pass it detached")
