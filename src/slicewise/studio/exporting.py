"""What leaves the page: a plan's file, its cluster's file, and the commands that do the same in a terminal."""

import shlex
from collections.abc import Callable
from typing import Any

from slicewise.cluster.writing import to_toml
from slicewise.cost.training import PLAIN
from slicewise.planning.describing import describe
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.report.documents import Given
from slicewise.report.html import html_page
from slicewise.report.reporting import sections_of
from slicewise.report.traces import Trace
from slicewise.strategy import LAYERWISE, STRATEGIES, Form
from slicewise.studio.benches import Bench
from slicewise.studio.setting import Setting

CLUSTER_FILE = "cluster.toml"
PLAN_FILE = "plan.json"


def plan_of(bench: Bench, slicings: Any, request: Request, known: Plan | None) -> Plan:
    """The plan as it was found, with its proof, if nothing was changed; or as it is now."""
    if known is not None and dict(known.slicings) == dict(slicings) and known.training == bench.model.training:
        return known
    return describe(bench.model, slicings, request=request)


def report_file(plan: Plan, traces: list[tuple[str, Trace]], progress: Callable[[str], None]) -> dict[str, str]:
    """The page that `slicewise report plan.json` writes."""
    sections = sections_of(Given(plans=[(PLAN_FILE, plan)], traces=traces), progress)
    text = html_page(sections[0].title, "Made by slicewise studio.", sections)
    return {"name": "report.html", "kind": "text/html", "text": text}


def cluster_file(setting: Setting) -> str:
    """Trimmed to the chosen devices, with the values as they were edited."""
    return to_toml(setting.machine, ["As edited in slicewise studio."])


def commands(setting: Setting, strategy: str, fix: tuple[str, ...], *, edited: bool) -> list[dict[str, str]]:
    """What to type for the same, each with what it does."""
    model = setting.key[0]
    named = model.partition("/")[2] if model.startswith("upload:") else model
    uploaded = str(setting.key[1]).startswith("upload:")
    cluster = CLUSTER_FILE if setting.changed or uploaded else setting.cluster.name
    options = [
        "--cluster", cluster, "--devices", str(setting.devices), "--batch", str(setting.batch),
        "--software", setting.cluster.software,
    ]  # fmt: skip
    options += [word for name, value in _training(setting).items() for word in (f"--{name}", value) if word]
    rows = []
    if setting.changed or uploaded:
        rows.append({"told": f"Save the edited cluster as {CLUSTER_FILE} first (Export, Cluster).", "command": ""})
    if edited:
        rows.append({"told": f"Save this plan as {PLAN_FILE} first (Export, Plan): it was edited here.", "command": ""})
    else:
        asked = setting.bucket_bytes
        size = [] if asked is None else ["--bucket", f"{asked / 2**20:g}MiB"]
        searched = size if strategy == LAYERWISE else ["--strategy", strategy]
        fixed = [word for pin in fix for word in ("--fix", pin)]
        rows.append(_row("Make this plan.", "plan", named, *options, *searched, *fixed, "-o", PLAN_FILE))
    staged = strategy != LAYERWISE and STRATEGIES[strategy].form is Form.STAGES
    if not staged:
        rows.append(_row("Say why each layer is sliced so.", "explain", PLAN_FILE))
    local = min(setting.devices, setting.machine.tiers[-1].size)
    nodes = max(1, setting.devices // local)
    where = f" on each of {nodes} machines" if nodes > 1 else ""
    spread = f" --nnodes {nodes} --rdzv-backend c10d --rdzv-endpoint HOST:29500" if nodes > 1 else ""
    rows.append(
        {
            "told": f"Run it, measured beside predicted{where}.",
            "command": f"torchrun{spread} --nproc-per-node {local} -m slicewise run {PLAN_FILE} --check",
        }
    )
    rows.append(
        {
            "told": "Or in your training script, where DistributedDataParallel(model) stood.",
            "command": (
                f'step = slicewise.pipeline(model, "{PLAN_FILE}", loss=loss)'
                if staged
                else f'net = slicewise.parallelize(model, "{PLAN_FILE}")'
            ),
        }
    )
    return rows


def _training(setting: Setting) -> dict[str, str]:
    """Options that are not the default."""
    asked, plain = setting.training, PLAIN
    found = {
        name: str(getattr(asked, name))
        for name in ("dtype", "optimizer", "batchnorm")
        if getattr(asked, name) != getattr(plain, name)
    }
    return found | ({"recompute": ""} if asked.recompute else {})


def _row(told: str, *words: str) -> dict[str, str]:
    return {"told": told, "command": f"slicewise {shlex.join(words)}"}
