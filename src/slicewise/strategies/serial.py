"""Serial: everything on one device.

    compute   D S(FW + BW) + (D/B) S(WU)
    memory    M(B, w)
    limit     p = 1

Per iteration: D = B. FW and BW are those of the batch that the device computes at once.
"""

from collections.abc import Iterator

from slicewise.errors import InfeasibleError
from slicewise.strategies.setting import Setting, Terms


def project(at: Setting) -> Iterator[Terms]:
    if at.devices > 1:
        raise InfeasibleError("devices: serial is one device")
    seconds = at.seconds(at.batch)
    update_s = float(at.update_s.sum())
    yield Terms(
        compute_s=float(seconds.both.sum()) + update_s,
        update_s=update_s,
        backward_s=float(seconds.backward.sum()),
        memory_bytes=at.memory_bytes(at.batch, 1.0),
    )
