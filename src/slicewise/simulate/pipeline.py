"""The predicted step of a pipeline: its schedule played turn by turn."""

from collections.abc import Sequence

from slicewise.cost.pipeline import LOSS_BYTES, PipelineModel
from slicewise.cost.prediction import Prediction
from slicewise.cost.stage import in_flight
from slicewise.simulate.schedules import simulate_schedule
from slicewise.terms import LAYER_TERMS, MOVING


def predicted_pipeline(pipeline: PipelineModel, positions: Sequence[int], schedule: str) -> Prediction:
    """`additive_s` is (micro-batches + stages - 1) turns of the slowest stage.

    `compute_s` and `transfer_s` are that stage's own, `bubble_s` what it waits.
    """
    model, micro_batches = pipeline.model, pipeline.micro_batches
    stages = pipeline.stage_costs(positions)
    slowest = max(stages, key=lambda stage: stage.seconds)
    update_s = max(stage.update_s for stage in stages)
    finished = simulate_schedule(stages, schedule, micro_batches).finished_s
    iteration_s = pipeline.step_s + max(done + stage.update_s for done, stage in zip(finished, stages, strict=True))
    compute_s = pipeline.step_s + micro_batches * (slowest.forward_s + slowest.backward_s)
    transfer_s = micro_batches * (slowest.seconds - slowest.forward_s - slowest.backward_s)
    none = dict.fromkeys([*(term.name for term in LAYER_TERMS), "exposed_sync"], 0.0)  # nothing is sliced
    sent = micro_batches * sum(stage.sent_bytes + stage.returned_bytes for stage in stages)
    sent += LOSS_BYTES * (len(stages) - 1)
    return Prediction(
        iteration_s=iteration_s,
        **model.doubt.range_of(iteration_s - transfer_s, transfer_s),
        additive_s=pipeline.step_s + (micro_batches + len(stages) - 1) * slowest.seconds + update_s,
        simulated_s=iteration_s,
        seconds=none
        | {
            "compute": compute_s,
            "transfer": transfer_s,
            "bubble": max(0.0, iteration_s - compute_s - transfer_s - slowest.update_s),
            "update": update_s,
        },
        sent_bytes=dict.fromkeys(MOVING, 0) | {"transfer": sent},
        samples_per_s=model.graph.batch / iteration_s,
        bytes_moved=sent,
        peak_memory_bytes=max(
            stage.memory_bytes(micro_batches, in_flight(schedule, micro_batches, len(stages), number))
            for number, stage in enumerate(stages)
        ),
        origin=model.cluster.origin,
    )
