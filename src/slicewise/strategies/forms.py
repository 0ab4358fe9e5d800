"""The closed forms as a table: each formula as its module's docstring has it, and with a setting's numbers in it."""

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from slicewise.graph.dims import Dim
from slicewise.partition.steps import Op
from slicewise.strategies.engines import Engine
from slicewise.strategies.projecting import Oracle
from slicewise.strategies.registry import CLOSED_FORMS
from slicewise.strategies.sequence import least_tokens
from slicewise.strategies.setting import Setting, parts
from slicewise.strategy import STRATEGIES, Form
from slicewise.units import amount, seconds

WHAT = ("compute", "communication", "memory", "limit")
_SYMBOLS = re.compile(
    r"S\(FW \+ BW\)|S\(WU\)|S\(w\)|\bS\b(?!\()"
    r"|\b(?:alpha|beta|delta|min F|min C|min tokens|[BDG]|p[12]?)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One formula of one strategy."""

    strategy: str
    devices: int
    what: str  # one of WHAT
    formula: str
    numbers: str  # the formula with numbers in place of symbols
    value: str  # what it comes to, or why it is not possible

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_forms(engine: Engine) -> None:
    """Refuses an engine without closed forms before anything is priced."""
    engine.setting(1, 1)


def forms(oracle: Oracle, devices: int) -> list[Formula]:
    """Of every strategy, at one device count."""
    at = oracle.engine.setting(devices, oracle.batch_at(devices), oracle.split)
    found = []
    for strategy in STRATEGIES:
        row = oracle.project(strategy, devices)
        values = dict.fromkeys(WHAT, "-") | {"limit": row.reason or "kept"}
        if row.terms:
            values |= {
                "compute": seconds(row.terms.compute_s),
                "communication": seconds(row.terms.communication_s),
                "memory": amount(row.terms.memory_bytes, "B"),
            }
        chosen = _chosen(row.terms.split if row.terms else "")
        known = {name: told for name, (_, told) in symbols(at, strategy, int(chosen.get("p1", "1"))).items()} | chosen
        for what, formula in formulas(strategy).items():
            numbers = "\n".join(_filled(line, known, what) for line in formula.splitlines()) + _sums(at, formula)
            if what == "compute":
                numbers += _fitted(at, strategy, int(chosen.get("p2", str(devices))))
            found.append(
                Formula(
                    strategy=strategy, devices=devices, what=what, formula=formula, numbers=numbers, value=values[what]
                )
            )
    return found


def _fitted(at: Setting, strategy: str, count: int) -> str:
    """Where measured runs have shown that thin shards compute slower than their share."""
    facts = STRATEGIES[strategy]
    share = at.tuning.shard_share(strategy.removeprefix("data+"), count) if facts.thinned else 1 / count
    return "" if share <= 1.001 / count else f"\nfitted: {share:.2g} of the whole on each of {count} devices"


def _filled(line: str, known: Mapping[str, str], what: str) -> str:
    """Numbers in place of symbols, a dot between factors; the remark behind a formula stays as it is."""
    formula, gap, remark = line.partition("    ")
    known = {name: told for name, told in known.items() if (name, what) != ("D", "limit")}  # depth, there
    filled = _SYMBOLS.sub(lambda match: known.get(match[0], match[0]).replace(" ", "\u00a0"), formula)
    dotted = re.sub(r"(?<=[\d\])xyg]) +(?=[\[\d(SxyW]|max|min|alpha|beta)", " · ", filled)
    return f"{dotted}{gap}{remark}"


def _chosen(split: str) -> dict[str, str]:
    """What a strategy chose by itself: `16x4`, or `4 stages, 32 segments`."""
    groups, segments = re.match(r"(\d+)x(\d+)", split), re.search(r"(\d+) segments", split)
    return ({"p1": groups[1], "p2": groups[2]} if groups else {}) | ({"S": segments[1]} if segments else {})


def _sums(at: Setting, formula: str) -> str:
    """What the letters of single layers add up to, on a line of its own."""
    profile = at.profile
    told = []
    if "(x + y)" in formula:
        kept = float((profile.x + profile.y)[profile.kept].sum())
        told.append(f"S(x + y) = {amount(kept, '')} items of one sample")
    elif re.search(r"\by\b", formula):
        told.append(f"S(y) of products = {amount(float(profile.y[profile.products].sum()), '')} items of one sample")
    return f"\n{', '.join(told)}" if told else ""


@cache
def formulas(strategy: str) -> Mapping[str, str]:
    """What the docstring of the strategy's module says: `compute   ...` and the lines that go on below it."""
    text = sys.modules[CLOSED_FORMS[strategy].__module__].__doc__ or ""
    found: dict[str, list[str]] = {}
    now: list[str] | None = None
    for line in text.splitlines():
        head = re.match(r"    (\w+)\s+(.*)", line)
        if head and head[1] in WHAT:
            now = found.setdefault(head[1], [])
            now.append(head[2])
        elif now is not None and line.startswith("        "):
            now.append(line)
        else:
            now = None
    lines = {what: [re.sub(r"\s{4,}", "    ", part.strip()) for part in said] for what, said in found.items()}
    return {what: "\n".join(said) for what, said in lines.items()}


def symbols(at: Setting, strategy: str, groups: int = 1) -> dict[str, tuple[float, str]]:
    """The values of a formula's symbols, in words too. Per iteration D is B. `groups`: p1, of hybrids.

    FW and BW are those of one sample, when as many are computed at once as the strategy gives a device.
    alpha and beta are of one ring through all devices: what it takes over all tiers, as if it crossed one.
    """
    p, batch, profile = at.devices, at.batch, at.profile
    facts = STRATEGIES[strategy]
    samples = parts(batch, groups if facts.hybrid else 1 if facts.thinned else p)
    per_sample = float(at.seconds(samples).both.sum()) / samples
    line = at.links.ring(Op.ALL_GATHER if facts.thinned else "gradient", p) if p > 1 else None
    alpha = line.latency_s / (p - 1) if line else 0.0
    beta = line.s_per_byte * p / (p - 1) if line else 0.0
    delta, weights, update = at.item_bytes, at.all_weights, float(at.update_s.sum())
    stages = profile.cuts.most_stages if facts.form is Form.STAGES else int(profile.products.sum())
    found: dict[str, tuple[float, str]] = {
        "S(FW + BW)": (per_sample, f"[{seconds(per_sample)}]"),
        "S(WU)": (update, f"[{seconds(update)}]"),
        "S(w)": (weights, f"[{amount(weights, '')}]".replace(" ]", "]")),
        "B": (batch, f"{batch:,}"),
        "D": (batch, f"{batch:,}"),
        "p": (p, f"{p:,}"),
        "delta": (delta, f"[{delta} B]"),
        "G": (stages, f"{stages}"),
    }
    if not facts.hybrid:  # groups have links of their own
        found |= {"alpha": (alpha, f"[{seconds(alpha)}]"), "beta": (beta, f"[{1e9 * beta:.3g} ns/B]")}
    order = np.arange(len(profile.layers))
    filters = order >= (profile.first_linear or 0) if facts.cuts == "NF" and not facts.hybrid else profile.products
    behind_first = order != profile.first_product  # the samples' own channels do not count
    for dim, among in ((Dim.F, filters), (Dim.C, behind_first)):
        heads = profile.least_heads(among) if dim is Dim.F else None
        found |= _least(f"min {dim}", profile.least(dim, among), heads)
    found |= _least("min tokens", least_tokens(profile))
    return found


def _least(symbol: str, *found: tuple[int, str] | None) -> dict[str, tuple[float, str]]:
    least = min((pair for pair in found if pair), default=None)
    return {} if least is None else {symbol: (least[0], f"{least[0]:,} ({least[1]})")}
