"""Which device holds which layers of a pipeline."""

from typing import TYPE_CHECKING

from slicewise.figures.chart import heading
from slicewise.figures.colours import BLUE, ink
from slicewise.figures.runs import UNSHOWN, counted
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import seconds

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan, Stages

_ROW, _PAD = 24, 16


def draw_stages(drawing: Drawing, plan: "Plan", pipeline: "Stages", top: float, width: float) -> float:
    """A row per device, its layers from the first to the last; returns the height."""
    title = f"{plan.model} on {plan.cluster}: {plan.devices} devices, batch {plan.batch}"
    note = (
        f"A pipeline: each device holds a stage. {pipeline.schedule}, {pipeline.micro_batches} micro-batches of "
        f"{plan.batch // max(pipeline.micro_batches, 1)} samples."
    )
    y = heading(drawing, _PAD, top + 24, title, note, width - 2 * _PAD) + 4
    left = _PAD + text_width(f"device {plan.devices}", 11) + 10
    scale = Scale(low=0.0, high=float(len(plan.kinds)), start=left, stop=width - _PAD)
    names, start = list(plan.kinds), 0
    for rank, stage in enumerate(pipeline.stages):
        stop = names.index(stage["last"]) + 1 if stage["last"] in names else len(names)
        own = [name for name in names[start:stop] if plan.kinds[name] not in UNSHOWN]
        drawing.text(left - 8, y + 15, f"device {rank}", anchor="end", class_="m")
        told = counted(own) if own else "nothing"
        timed = ", ".join(
            f"{what} {seconds(stage[f'{what}_s'])}" for what in ("forward", "backward") if f"{what}_s" in stage
        )
        wide = scale(stop) - scale(start) - 1.5
        drawing.rect(scale(start), y, wide, _ROW - 3, fill=BLUE, rx=2, title=f"device {rank}: {told}; {timed}")
        if text_width(told, 10) < wide - 6:
            drawing.text(scale(start) + 6, y + 14.5, told, size=10, class_=None, fill=ink(BLUE))
        else:  # beside its bar, on the side that has room
            free_left = scale(start) - left > scale.stop - scale(stop)
            at, room = (
                (scale(start) - 6, scale(start) - left) if free_left else (scale(stop) + 6, scale.stop - scale(stop))
            )
            drawing.text(at, y + 14.5, told, size=10, anchor="end" if free_left else "start", within=room - 8)
        start = stop
        y += _ROW
    return y + 14 - top
