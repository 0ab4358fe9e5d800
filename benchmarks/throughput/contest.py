"""What one rank of the throughput benchmark does: contenders take turns, step by step. Started by run.py."""

import argparse
import copy
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.cost.training import PLAIN
from slicewise.graph.sources import build_model, load_graph
from slicewise.plans.plan import Plan
from slicewise.running.contenders import Contender, ddp_contender, fsdp_contender, plain_contender, sliced_contender
from slicewise.running.measure import alternate, count_step, paired_ratio, peak_memory, slowest, summary, whole_steps
from slicewise.runtime.batches import Batch
from slicewise.runtime.devices import start_rank
from slicewise.runtime.parallel import parallelize

HEATS = 4  # steps in which the faster of DDP and FSDP2 is found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--input", type=lambda text: tuple(int(size) for size in text.split("x")))
    parser.add_argument("--batch", type=int, required=True, help="over all ranks")
    parser.add_argument("--plan", type=Path, action="append", default=[], help="a contender, called as its file")
    parser.add_argument("--against", choices=["ddp and fsdp", "alone", "one"], required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    start_rank()
    result = contest(options)
    if dist.get_rank() == 0:
        options.output.write_text(json.dumps(result, indent=1))
    dist.destroy_process_group()


def contest(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, bytes and memory of each contender, and every contender's speed against every other's."""
    torch.manual_seed(0)
    model, _ = build_model(options.model, options.input)
    model.train()
    graph = load_graph(options.model, options.input)
    whole = Batch.synthetic(graph.with_batch(options.batch), torch.float32, torch.device("cpu"), 0)
    share = whole.fed(options.batch % dist.get_world_size() == 0)
    plans = {path.stem: Plan.load(path) for path in options.plan}
    start_s = time.perf_counter()
    parallelize(copy.deepcopy(model), next(iter(plans.values())), graph=graph)
    parallelize_s = time.perf_counter() - start_s
    contenders = [
        replace(sliced_contender(model, graph, plan, F.cross_entropy), name=name) for name, plan in plans.items()
    ]
    qualifying: dict[str, float] = {}
    if options.against == "one":
        contenders.append(_one(model, whole))
    elif options.against == "alone":
        contenders.append(_alone(model))
    else:  # DDP is what a data plan is compared with; FSDP2 takes part where it is faster
        others = [make(model, PLAIN, F.cross_entropy) for make in (ddp_contender, fsdp_contender)]
        others.append(_alone(model))
        heats = alternate(others, itertools.repeat(share), HEATS, warm_up=1).steps
        qualifying = {name: min(slowest([step.total_s for step in steps])) for name, steps in heats.items()}
        contenders += others[: 2 if qualifying["fsdp"] < qualifying["ddp"] else 1]
        del others
    measured = alternate(contenders, itertools.repeat(share), options.iterations, warm_up=1)
    steps = measured.steps
    return {
        "parallelize_s": parallelize_s,
        "qualifying_s": qualifying,
        "contenders": {
            contender.name: {
                **(
                    summary(contender, steps[contender.name], measured.data_s)
                    if contender.name in plans
                    else whole_steps(contender, steps[contender.name])
                ),
                **count_step(contender, share, lambda _: "link"),
                "peak_memory_bytes": peak_memory(contender, share),
            }
            for contender in contenders
        },
        "speed": {
            one: {other: paired_ratio(steps[other], steps[one]) for other in steps if other != one} for one in steps
        },
    }


def _one(model: nn.Module, whole: Batch) -> Contender:
    """The plain model on rank 0, with the whole batch; the others rest."""
    made = plain_contender("one", copy.deepcopy(model), PLAIN, F.cross_entropy)

    def forward_backward(_: Batch) -> Tensor:
        return made.forward_backward(whole) if dist.get_rank() == 0 else torch.zeros(())

    return replace(made, forward_backward=forward_backward)


def _alone(model: nn.Module) -> Contender:
    """Each rank trains its samples for itself: what data parallelism costs without communication."""
    return plain_contender("alone", copy.deepcopy(model), PLAIN, F.cross_entropy)


if __name__ == "__main__":
    main()
