"""Options that several commands share."""

import argparse
import json
import sys
from typing import Any


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a positive whole number (got {text!r})")
    return value


def shape(text: str) -> tuple[int, ...]:
    """`3x224x224`."""
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        sizes = ()
    if not sizes or any(size < 1 for size in sizes):
        raise argparse.ArgumentTypeError(f"must look like 3x224x224 (got {text!r})")
    return sizes


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        help="a zoo name (resnet50, unet3d, ...), torchvision:NAME, timm:NAME, path/file.py:factory, "
        "a saved graph (.json), or an exported program (.pt2)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output, nothing else")


def print_json(document: Any) -> None:
    json.dump(document, sys.stdout, indent=1)
    print()


def progress(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
