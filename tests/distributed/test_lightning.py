"""Lightning's own Trainer on a sliced network: what it trains, saves and says is what one device does."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.utils.data import DataLoader, DistributedSampler

import slicewise as sw
from tests.builders import machine
from tests.distributed.comparing import whole
from tests.distributed.conftest import world_of
from tests.distributed.run_models import classified, same_residual
from tests.distributed.world import World

BATCH, SAMPLES = 4, 24
pytestmark = pytest.mark.long  # importing Lightning takes longer than most tests


def _trainer(folder: str, **options: Any) -> Any:
    """Under torchrun, as far as Lightning sees."""
    os.environ.update(LOCAL_RANK=str(dist.get_rank()), GROUP_RANK="0", LOCAL_WORLD_SIZE=str(dist.get_world_size()))
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="1", TORCHELASTIC_RUN_ID="test")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lightning.pytorch as pl
        from lightning.pytorch.plugins.environments import TorchElasticEnvironment

        from slicewise.lightning import SlicewiseStrategy

    return pl.Trainer(
        accelerator="cpu",
        devices=dist.get_world_size(),
        strategy=SlicewiseStrategy(),
        plugins=[TorchElasticEnvironment()],
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


def _module(dtype: torch.dtype = torch.float64) -> Any:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net: Any = None
            self.seen: list[float] = []

        def configure_model(self) -> None:
            if self.net is None:
                plan = sw.plan(
                    same_residual(),
                    machine(dist.get_world_size()),
                    sample=torch.zeros(2, 4, 8, 8).double(),
                    batch=BATCH,
                )
                self.net = sw.parallelize(same_residual().to(dtype), plan)

        def training_step(self, batch: Any, _: int) -> Tensor:
            loss = F.cross_entropy(self.net(batch[0].to(dtype)), batch[1])
            self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
            return loss

        def on_train_epoch_end(self) -> None:
            self.seen.append(float(self.trainer.callback_metrics["loss"]))

        def _share(self, batch: Any) -> None:
            self.log("value", F.cross_entropy(self.net(batch[0].to(dtype)), batch[1]), sync_dist=True)

        def validation_step(self, batch: Any, _: int) -> None:
            self._share(batch)

        def test_step(self, batch: Any, number: int) -> None:
            self._share(batch)

        def predict_step(self, batch: Any, _: int) -> Tensor:
            found: Tensor = self.net(batch[0].to(dtype))
            return found

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    return Module()


def _loader() -> DataLoader[Any]:
    data = classified(SAMPLES)
    return DataLoader(data, BATCH // dist.get_world_size(), sampler=DistributedSampler(data, shuffle=False))


def _quietly(work: Any) -> Any:
    """Lightning's remarks on workers and the like are not errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


def _truth(epochs: int) -> nn.Module:
    """The same training on one device: two batches are added up, gradients clipped."""
    model = same_residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for number, (x, t) in enumerate(DataLoader(classified(SAMPLES), BATCH)):
            (F.cross_entropy(model(x), t) / 2).backward()
            if number % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
    return model


def _off(net: nn.Module, model: nn.Module) -> float:
    ours, theirs = net.state_dict(), model.state_dict()
    return max(float((whole(ours[name]) - theirs[name]).abs().max()) for name in theirs)


def test_lightning_trains_validates_predicts_and_goes_on_from_its_checkpoint_on_another_number_of_ranks(
    pair: World, worlds: dict[int, World]
) -> None:
    folder = tempfile.mkdtemp()
    assert pair.run(_fitted, folder) == pytest.approx((0.0, 0.0, 0.0, 0.0), abs=1e-9)
    assert world_of(worlds, 1).run(_resumed, folder) < 1e-9


FIT = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5}


def _fitted(folder: str) -> tuple[float, ...]:
    trainer = _trainer(folder, max_epochs=2, enable_checkpointing=False, **FIT)
    module = _module()
    _quietly(lambda: trainer.fit(module, _loader()))
    _quietly(lambda: trainer.save_checkpoint(Path(folder) / "after.ckpt"))
    truth = _truth(2)
    trained = _off(module.net, truth)
    truth.eval()
    batches = list(DataLoader(classified(SAMPLES), BATCH))
    with torch.no_grad():
        wanted = sum(float(F.cross_entropy(truth(x), t)) for x, t in batches) / len(batches)
        outputs = torch.cat([truth(x) for x, _ in batches])
    (validated,) = _quietly(lambda: trainer.validate(module, _loader(), verbose=False))
    (tested,) = _quietly(lambda: trainer.test(module, _loader(), verbose=False))
    mine = torch.cat(_quietly(lambda: trainer.predict(module, _loader())))
    predicted = float((mine - outputs[dist.get_rank() :: dist.get_world_size()]).abs().max())
    return trained, abs(validated["value"] - wanted), abs(tested["value"] - wanted), predicted


def _resumed(folder: str) -> float:
    trainer = _trainer(folder, max_epochs=3, enable_checkpointing=False, **FIT)
    module = _module()
    _quietly(lambda: trainer.fit(module, _loader(), ckpt_path=str(Path(folder) / "after.ckpt")))
    assert trainer.current_epoch == 3
    return _off(module.net, _truth(3))


def test_a_fresh_module_is_tested_from_a_checkpoint_by_the_trainer_that_made_it(pair: World) -> None:
    for (wanted, found), kept in pair.run_each(_tested_anew, tempfile.mkdtemp()):
        assert found == pytest.approx(wanted, abs=1e-9)
        assert kept == 1  # the optimizer of the fit is still there to be saved


def _tested_anew(folder: str) -> tuple[tuple[float, float], int]:
    trainer = _trainer(folder, max_epochs=1, enable_checkpointing=False)
    module = _module()
    _quietly(lambda: trainer.fit(module, _loader()))
    path = Path(folder) / "after.ckpt"
    _quietly(lambda: trainer.save_checkpoint(path))
    (before,) = _quietly(lambda: trainer.test(module, _loader(), verbose=False))
    (after,) = _quietly(lambda: trainer.test(_module(), _loader(), ckpt_path=str(path), verbose=False))
    return (before["value"], after["value"]), len(trainer.strategy.optimizers)


def test_a_checkpoint_of_lightning_becomes_a_plain_file_for_the_plain_network(pair: World) -> None:
    folder = tempfile.mkdtemp()
    assert pair.run(_saved, folder) is None
    dcp_to_torch_save(Path(folder) / "after.ckpt", Path(folder) / "after.pt")
    weights = torch.load(Path(folder) / "after.pt")["state_dict"]
    plain = same_residual()
    plain.load_state_dict({name.removeprefix("net."): weight for name, weight in weights.items()})
    torch.testing.assert_close(plain.state_dict(), _truth(1).state_dict(), rtol=0, atol=1e-9)


def _saved(folder: str) -> None:
    trainer = _trainer(folder, max_epochs=1, enable_checkpointing=False, **FIT)
    _quietly(lambda: trainer.fit(_module(), _loader()))
    _quietly(lambda: trainer.save_checkpoint(Path(folder) / "after.ckpt"))


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_lightning_trains_in_bf16(pair: World, precision: str) -> None:
    first, last, dtype = pair.run(_narrow, precision)
    assert last < first
    assert dtype == (torch.bfloat16 if precision == "bf16-true" else torch.float32)


def _narrow(precision: str) -> tuple[float, float, torch.dtype]:
    dtype = torch.bfloat16 if precision == "bf16-true" else torch.float32
    trainer = _trainer(tempfile.mkdtemp(), max_epochs=4, precision=precision, enable_checkpointing=False)
    module = _module(dtype)
    _quietly(lambda: trainer.fit(module, _loader()))
    return module.seen[0], module.seen[-1], next(module.parameters()).dtype


def test_what_lightning_cannot_train_is_told_in_one_line(pair: World) -> None:
    unsliced, beside = pair.run(_refused)
    assert "slicewise.parallelize(model, plan)" in unsliced
    assert unsliced.startswith("Module has no sliced network")
    assert beside.startswith("head.weight is trained outside of the sliced network")


def _refused() -> tuple[str, ...]:
    told = []
    for spoil in ("unsliced", "beside"):
        module = _module()
        if spoil == "unsliced":
            module.configure_model = lambda: None
        else:
            module.head = nn.Linear(2, 2)
        trainer = _trainer(tempfile.mkdtemp(), max_epochs=1, enable_checkpointing=False)
        try:
            _quietly(lambda trainer=trainer, module=module: trainer.fit(module, _loader()))
            told.append("")
        except sw.SlicewiseError as error:
            told.append(str(error))
    return tuple(told)
