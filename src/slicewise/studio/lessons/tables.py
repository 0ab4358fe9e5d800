"""All numbers of Learn, as two documents: what closed forms give at once, and what takes a search."""

from collections.abc import Callable
from typing import Any

from slicewise.cost.training import PLAIN
from slicewise.studio.lessons import searched
from slicewise.studio.lessons.attention import attention_part
from slicewise.studio.lessons.closed import closed_tables, network_facts
from slicewise.studio.lessons.machine import BATCHES, DEVICE, DEVICES, GIGABYTES_PER_S, LATENCY_S, NETWORK

Progress = Callable[[str], None]


def closed_part(progress: Progress) -> dict[str, Any]:
    progress("projecting every strategy")
    return {
        "network": NETWORK,
        "device": DEVICE,
        "devices": DEVICES,
        "batches": BATCHES,
        "rates": GIGABYTES_PER_S,
        "latency_s": LATENCY_S,
        "item_bytes": PLAIN.item_bytes,
        "facts": network_facts(),
        "tables": closed_tables(),
        "attention": attention_part(),
    }


def searched_part(progress: Progress) -> dict[str, Any]:
    return {
        "devices": searched.COUNTS,
        "batches": searched.SAMPLES,
        "rate": searched.GIGABYTES_PER_S,
        "plans": searched.searched_tables(progress),
    }


PARTS: dict[str, Callable[[Progress], dict[str, Any]]] = {"closed": closed_part, "searched": searched_part}
