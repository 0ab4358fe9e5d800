"""Planning by this checkout and by another, in turn: `python -m benchmarks.search.pairs OTHER_CHECKOUT`.

A machine that drifts treats both alike. Of each network: tables + search by the certificate, and every pair's ratio.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.markdown import show

SETTINGS = (  # network, devices, pairs
    ("inception_v3", 32, 4),
    ("resnet101", 32, 4),
    ("vit_l_16", 32, 4),
    ("inception_v3", 1024, 3),
    ("resnet50", 1024, 3),
    ("resnet152", 1024, 3),
)
PER_DEVICE = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of another commit (git worktree add)")
    parser.add_argument("--only", action="append", help="a network (default: all)")
    options = parser.parse_args()
    here = Path(__file__).parents[2]
    rows = []
    for model, devices, pairs in SETTINGS:
        if options.only and model not in options.only:
            continue
        try:
            taken = [
                (_planned_s(options.other, model, devices), _planned_s(here, model, devices)) for _ in range(pairs)
            ]
        except subprocess.CalledProcessError:
            print(f"{model} on {devices} devices is left out: a checkout cannot plan it", file=sys.stderr)
            continue
        ratios = [new / old for old, new in taken]
        old_s, new_s = (median(column) for column in zip(*taken, strict=True))
        spread = f"{median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append((model, str(devices), f"{old_s:.1f} s", f"{new_s:.1f} s", spread))
    show("tables + search", ("network", "devices", "other checkout", "this one", "this one over the other"), rows)


def _planned_s(checkout: Path, model: str, devices: int) -> float:
    command = [sys.executable, "-m", "slicewise", "plan", model, "--cluster", "dgx-a100", "--devices", str(devices)]
    command += ["--batch", str(PER_DEVICE * devices), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    certificate = json.loads(done.stdout)["certificate"]
    return float(certificate["tables_s"] + certificate["search_s"])


if __name__ == "__main__":
    main()
