"""The cost model of machines that are described, not measured: compute by what the description says of the device."""

from dataclasses import dataclass
from typing import ClassVar, final

from slicewise.cost.own import OwnModel


@final
@dataclass(frozen=True, eq=False)
class AnalyticModel(OwnModel):
    """Layers take what AnalyticCompute says: fitted kernels, or a roofline."""

    name: ClassVar[str] = "analytic"
    coarsens: ClassVar[bool] = True
    recosted: ClassVar[bool] = True
