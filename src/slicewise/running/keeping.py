"""Checkpoints of `slicewise run`: when to save, and where to go on."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slicewise.checkpoints.load import load_checkpoint
from slicewise.checkpoints.save import save_checkpoint
from slicewise.errors import RequestError
from slicewise.running.contenders import Contender
from slicewise.runtime.whereabouts import mark


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Saves every `every` steps, and after the last."""

    folder: Path
    every: int | None
    iterations: int
    contender: Contender
    seconds: list[float] = field(default_factory=list)
    last: Path | None = None

    def resumed(self) -> int:
        """How many steps the last checkpoint has behind it; 0 where there is none yet."""
        mark("load")
        restored = load_checkpoint(self.folder, self.contender.net, self.contender.optimizer)
        if restored is None:
            return 0
        if restored.step >= self.iterations:
            raise RequestError(
                f"{restored.folder}: is at step {restored.step}, `iterations` is {self.iterations}; ask for more"
            )
        return restored.step

    def after(self, steps: int) -> None:
        if steps == self.iterations or (self.every and steps % self.every == 0):
            mark("save")
            start_s = time.perf_counter()
            saving = save_checkpoint(self.folder, self.contender.net, self.contender.optimizer, step=steps)
            self.last = saving.wait()
            self.seconds.append(time.perf_counter() - start_s)

    def to_dict(self) -> dict[str, Any]:
        return {"last": str(self.last), "saves_s": self.seconds}
