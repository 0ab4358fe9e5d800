"""PyTorch Lightning: `Trainer(strategy=SlicewiseStrategy())` trains a module whose network is sliced.

The network is sliced in `configure_model`, where ranks have met:

    def configure_model(self):
        if self.net is None:
            self.net = slicewise.parallelize(network(), "plan.json")

Everything else is as under "ddp": launching, logging with `sync_dist`, validate, test, predict. Checkpoints are
folders of torch.distributed.checkpoint; they go on under any plan and any number of devices.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from slicewise.errors import PlanError
from slicewise.extras import lightning_package
from slicewise.runtime.sliced_module import SlicedModule

_PACKAGE = lightning_package(sys.modules)
_strategies = import_module(f"{_PACKAGE}.strategies")
_states = import_module(f"{_PACKAGE}.trainer.states")
_RANDOMNESS = "slicewise_randomness"


class SlicewiseStrategy(_strategies.ModelParallelStrategy):  # type: ignore[misc, name-defined]
    """Each rank feeds its own samples, or all the same whole batch, as the plan has it."""

    model: Any
    optimizers: Any

    def __init__(self, **options: Any) -> None:
        """`options`: `process_group_backend` and `timeout`, as other strategies take them."""
        super().__init__(save_distributed_checkpoint=True, **options)

    @property
    def networks(self) -> list[SlicedModule]:
        """The sliced networks of the module."""
        return [part for part in self.lightning_module.modules() if isinstance(part, SlicedModule)]

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        if all(net.local_samples for net in self.networks):
            return {"num_replicas": self.world_size, "rank": self.global_rank}
        return {"num_replicas": 1, "rank": 0}  # every rank reads the whole batch

    def setup_environment(self) -> None:
        """Ranks meet; the plan's own mesh takes the place of Lightning's."""
        self._setup_distributed()

    def setup(self, trainer: Any) -> None:
        self.accelerator.setup(trainer)
        self._check()
        self.model = self.precision_plugin.convert_module(self.model)
        self.model_to_device()
        self.barrier()
        if trainer.state.fn == _states.TrainerFn.FITTING:
            self.setup_optimizers(trainer)
        self.setup_precision_plugin()

    def _check(self) -> None:
        module = self.lightning_module
        if not self.networks:
            raise PlanError(
                f"{type(module).__name__} has no sliced network; make it in configure_model: "
                "`self.net = slicewise.parallelize(model, plan)`"
            )
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and not isinstance(parameter, DTensor):
                raise PlanError(
                    f"{name} is trained outside of the sliced network; make it a part of the model that is passed to "
                    "parallelize"
                )

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """While gradients of several batches are added up."""
        with ExitStack() as stack:
            for net in self.networks:
                stack.enter_context(net.no_sync())
            yield

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        checkpoint[_RANDOMNESS] = [tuple(net.randomness) for net in self.networks]
        super().save_checkpoint(checkpoint, filepath, storage_options)
        self.barrier()  # whoever goes on from it finds it whole

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        with self._optimizers_that_fit():
            loaded: dict[str, Any] = super().load_checkpoint(checkpoint_path, weights_only)
        for net, randomness in zip(self.networks, loaded.get(_RANDOMNESS, []), strict=False):
            net.randomness = tuple(randomness)
        return loaded

    @contextmanager
    def _optimizers_that_fit(self) -> Iterator[None]:
        """None outside of fit: those of an earlier fit may be another module's."""
        kept = self.optimizers
        if self.lightning_module.trainer.state.fn != _states.TrainerFn.FITTING:
            self.optimizers = []
        try:
            yield
        finally:
            self.optimizers = kept

    def model_to_device(self) -> None:
        """Metrics and the like; a sliced network is where it should be, or says so."""
        self.model.to(self.root_device)

    @contextmanager
    def tensor_init_context(self, empty_init: bool | None = None) -> Iterator[None]:
        """Models are made on this rank's device, where they will be sliced."""
        with torch.device("meta" if empty_init else self.root_device), self.precision_plugin.tensor_init_context():
            yield
