"""Options that several commands share."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from slicewise.dtype import PLAIN, REDUCED
from slicewise.graph.checks import MOST_ITEMS
from slicewise.units import parse_amount, parse_count, parse_duration, parse_seconds

_MOST_DIMS = 8

if TYPE_CHECKING:
    from slicewise.cost.training import Training


def positive(text: str, most: int | None = None) -> int:
    try:
        value = parse_count(text)
    except ValueError:
        digits = " of at most 15 digits" if text.isdecimal() and len(text) > 15 else ""
        raise argparse.ArgumentTypeError(f"must be a positive whole number{digits} (got {text!r})") from None
    if most is not None and value > most:
        raise argparse.ArgumentTypeError(f"must be at most {most:,} (got {text!r})")
    return value


def seed(text: str) -> int:
    try:
        return parse_count(text) if text != "0" else 0
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be 0 or a positive whole number (got {text!r})") from None


def shape(text: str) -> tuple[int, ...]:
    """`3x224x224`."""
    try:
        sizes = tuple(parse_count(part) for part in text.lower().split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must look like 3x224x224 (got {text!r})") from None
    if len(sizes) > _MOST_DIMS or prod(sizes) > MOST_ITEMS:
        raise argparse.ArgumentTypeError(
            f"must have at most {_MOST_DIMS} dims and {MOST_ITEMS:.0e} items (got {text!r})"
        )
    return sizes


CLUSTER = "a preset, 'local' (this machine, as `slicewise calibrate` measured it), or a TOML file"


def add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", default="local", help=f"{CLUSTER} (default: local)")
    add_software(parser)


def add_software(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--software",
        help="plain: a framework as it comes; tuned: fused kernels, channels last (default: the cluster's)",
    )


def measured(text: str) -> tuple[int, float]:
    """`64=0.1996s`: samples, and the seconds of their step."""
    samples, equals, step = text.partition("=")
    try:
        found = parse_count(samples), parse_seconds(step if step[-1:] == "s" else f"{step}s")
    except ValueError:
        found = 0, 0.0
    if not equals or not 0 < found[1] < float("inf"):
        raise argparse.ArgumentTypeError(f"must look like 64=0.1996s: samples = seconds of their step (got {text!r})")
    return found


def add_measured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measured",
        type=measured,
        metavar="B=TIME",
        help="this network's step of B samples on one device, as 64=0.1996s: scales compute, narrows the range",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        help="a zoo name (resnet50, unet3d, ...), torchvision:NAME, timm:NAME, path/file.py:factory, "
        "a saved graph (.json), or an exported program (.pt2, with --trust)",
    )
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="load an exported program (.pt2): its file can run code of its maker's; for nothing else",
    )


def size(text: str) -> float:
    """`8GiB`, `16GB`, `500MB`, or bytes."""
    try:
        return parse_amount(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must look like 8GiB, 16GB or a number of bytes (got {text!r})") from None


def share(text: str) -> float:
    """`0.01`, or `1%`."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a share such as 0.01 or 1% (got {text!r})")
    return value


def duration(text: str) -> float:
    """`90`, `90s`, `5min`, `2h`, in seconds."""
    try:
        return parse_duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must look like 90s, 5min or 2h (got {text!r})") from None


def timeout(text: str) -> float:
    """A duration, or 0 for never."""
    return 0.0 if text.strip() == "0" else duration(text)


def add_training(parser: argparse.ArgumentParser, batchnorm: str = "exact") -> None:
    group = parser.add_argument_group("training")
    group.add_argument(
        "--dtype", default=PLAIN, help=f"{PLAIN} (default), or {', '.join(REDUCED)} where the device has it"
    )
    group.add_argument("--optimizer", default="sgd", help="sgd (default), momentum or adam: what it keeps per weight")
    group.add_argument(
        "--recompute", action="store_true", help="compute cheap layers again in backward and keep less memory"
    )
    group.add_argument(
        "--batchnorm",
        default=batchnorm,
        help=f"exact: statistics of the whole batch; local: of batch / ranks samples, as DDP (default: {batchnorm})",
    )


def training_of(options: argparse.Namespace) -> "Training":
    from slicewise.cost.training import Training

    return Training(
        dtype=options.dtype, optimizer=options.optimizer, recompute=options.recompute, batchnorm=options.batchnorm
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Other forms of the answer than what fits the terminal."""
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="one JSON document on standard output, nothing else")
    forms.add_argument("--wide", action="store_true", help="tables with all their columns, wider than the terminal")


def print_json(document: Any) -> None:
    """JSON has no word for NaN and infinity: they are null."""
    json.dump(_finite(document), sys.stdout, indent=1, allow_nan=False)
    print()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def progress(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def patient(told: Callable[[str], None], after_s: float = 2.0) -> Callable[[str], None]:
    """Says nothing while work is quick."""
    started = time.monotonic()
    return lambda message: told(message) if time.monotonic() - started > after_s else None
