"""What all tables for people share."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# columns of words; the others are numbers
_WORDS = {"layers", "kind", "slicing", "strategy", "why", "per step", "cluster", "device", "tier", "operation"}
_WORDS |= {"split", "limit", "price", "of one device", "value", "next best", "flips at", "plan"}


def console() -> Console:
    """Standard output; wide enough for the tables when it is not a terminal."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=132)


def table_of(*columns: str) -> Table:
    """An empty table: words to the left, numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in _WORDS else "right", overflow="fold")
    return table
