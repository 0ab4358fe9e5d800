"""Hugging Face Accelerate: one changed import.

    from slicewise.accelerate import Accelerator          # was: from accelerate import Accelerator

    accelerator = Accelerator()
    net = slicewise.parallelize(model, "plan.json")
    net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), loader)

`accumulate`, `clip_grad_norm_`, `autocast` and `gather` are Accelerate's own. `save_state` keeps a sliced network and
its optimizer as `slicewise.save_checkpoint` does, so `load_state` goes on under any plan and any number of ranks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any

from torch import nn

from slicewise.checkpoints.load import load_checkpoint
from slicewise.checkpoints.save import save_checkpoint
from slicewise.errors import CheckpointError, MissingAccelerate, PlanError
from slicewise.runtime.sliced_module import SlicedModule

try:
    import accelerate
    from accelerate.utils import convert_outputs_to_fp32
except ImportError as error:
    raise MissingAccelerate("this needs Accelerate, which is not installed: `pip install accelerate`") from error

FOLDER = "slicewise"  # beside Accelerate's own files


class Accelerator(accelerate.Accelerator):  # type: ignore[misc]
    """Takes sliced networks as they are; everything else goes to Accelerate."""

    _models: list[Any]
    _optimizers: list[Any]

    def prepare_model(self, model: nn.Module, *args: Any, **named: Any) -> nn.Module:
        if not isinstance(model, SlicedModule):
            prepared: nn.Module = super().prepare_model(model, *args, **named)
            return prepared
        if not any(model is other for other in self._models):
            self._models.append(model)
            if self.native_amp:  # mixed precision inside, float32 outside
                vars(model)["forward"] = MethodType(
                    convert_outputs_to_fp32(self.autocast()(type(model).forward)), model
                )
        return model

    def prepare_data_loader(self, *args: Any, **named: Any) -> Any:
        if any(not net.local_samples for net in self._sliced()):
            raise PlanError(
                "this plan takes the same whole batch on every rank; use slicewise.data_loader and leave the loader "
                "out of prepare()"
            )
        return super().prepare_data_loader(*args, **named)

    def save_state(self, output_dir: Any = None, *args: Any, **named: Any) -> Any:
        with self._without_sliced():
            place = super().save_state(output_dir, *args, **named)
        for number, (net, optimizer) in enumerate(self._trained()):
            save_checkpoint(Path(place) / f"{FOLDER}_{number}", net, optimizer, step=self.step, keep=1)
        return place

    def load_state(self, input_dir: Any = None, *args: Any, **named: Any) -> None:
        with self._without_sliced():
            super().load_state(input_dir, *args, **named)
        for number, (net, optimizer) in enumerate(self._trained()):
            folder = self._folder(input_dir) / f"{FOLDER}_{number}"
            if load_checkpoint(folder, net, optimizer) is None:
                raise CheckpointError(f"{folder}: holds no sliced network; save_state of this Accelerator writes one")

    def _folder(self, given: Any) -> Path:
        if given is not None:
            return Path(given).expanduser()
        named = Path(self.project_dir, "checkpoints").iterdir()
        return max(named, key=lambda path: int(path.name.rpartition("_")[2]))

    def _sliced(self) -> list[SlicedModule]:
        return [model for model in self._models if isinstance(model, SlicedModule)]

    def _trained(self) -> list[tuple[SlicedModule, Any]]:
        """Sliced networks, each with the optimizer of its weights, if there is one."""
        found = []
        for net in self._sliced():
            own = {id(parameter) for parameter in net.parameters()}
            optimizers = [one.optimizer for one in self._optimizers if _holds(one, own)]
            if len(optimizers) > 1:
                raise CheckpointError(f"{len(optimizers)} optimizers train one sliced network; make it one")
            found.append((net, optimizers[0] if optimizers else None))
        return found

    @contextmanager
    def _without_sliced(self) -> Iterator[None]:
        """Accelerate keeps what is left: other models, schedulers, loaders, random numbers."""
        models, optimizers = self._models, self._optimizers
        own = {id(parameter) for net in self._sliced() for parameter in net.parameters()}
        self._models = [model for model in models if not isinstance(model, SlicedModule)]
        self._optimizers = [one for one in optimizers if not _holds(one, own)]
        try:
            yield
        finally:
            self._models, self._optimizers = models, optimizers


def _holds(optimizer: Any, parameters: set[int]) -> bool:
    return any(id(parameter) in parameters for group in optimizer.param_groups for parameter in group["params"])
