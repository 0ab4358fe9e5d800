"""What `slicewise doctor` found, for people and as a document."""

from typing import Any

from slicewise.running.checkup import Checkup
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import amount, seconds
from slicewise.version import VERSION


def show_checkup(checkup: Checkup) -> None:
    page = Page()
    facts = Table("here", "what", words=("here", "what"))
    for name, value in _facts(checkup).items():
        facts.add_row(name, value)
    page.show(facts)
    if checkup.network is not None:
        page.show(_exchanges(checkup))
    for finding in checkup.findings:
        page.show(Prose(f"{finding.level}: {finding.said}", style="bold" if finding.level == "wrong" else ""))
        page.show(Prose(f"    fix: {finding.fix}", hanging=4))
    if checkup.well:
        page.say("ready" if not checkup.findings else "ready; what is missing is optional")


def _facts(checkup: Checkup) -> dict[str, str]:
    gpus = f"; {len(checkup.gpus)} x {checkup.gpus[0]}" if checkup.gpus else "; no GPU"
    facts = {
        "slicewise": VERSION,
        "python": f"{checkup.python} on {checkup.system}",
        "machine": f"{checkup.cores} cores, {amount(checkup.memory_bytes, 'B')}{gpus}",
    }
    for package in checkup.packages:
        extra = f" (extra {package.extra})" if package.extra else ""
        facts[package.name] = f"{package.version or 'not installed'}{extra}"
    facts["cache"] = f"{checkup.cache} ({checkup.cache_from})"
    cluster = checkup.cluster
    tiers = " x ".join(f"{tier.size} {tier.name}" for tier in cluster.tiers) if cluster else ""
    said = f"{cluster.devices} x {cluster.device.name} ({tiers}); figures: {cluster.origin}" if cluster else "none"
    facts["profile"] = f"{checkup.profile}: {said}"
    if checkup.network is None:
        facts["network"] = "not looked at; `slicewise doctor --network` does"
    return facts


def _exchanges(checkup: Checkup) -> Table:
    assert checkup.network is not None
    table = Table(f"all-reduce, {checkup.network.ranks} ranks", "measured", "profile", "ratio")
    for exchange in checkup.network.exchanges:
        table.add_row(
            amount(exchange.message_bytes, "B"),
            seconds(exchange.measured_s),
            seconds(exchange.calibrated_s) if exchange.calibrated_s else "-",
            f"{exchange.ratio:.2f}x" if exchange.ratio else "-",
        )
    return table


def checkup_document(checkup: Checkup) -> dict[str, Any]:
    cluster, network = checkup.cluster, checkup.network
    return {
        "schema_version": 1,
        "ready": checkup.well,
        "slicewise": VERSION,
        "python": checkup.python,
        "system": checkup.system,
        "machine": {"cores": checkup.cores, "memory_bytes": checkup.memory_bytes, "gpus": list(checkup.gpus)},
        "packages": [
            {
                "name": package.name,
                "wanted": package.wanted,
                "extra": package.extra or None,
                "version": package.version,
                "fits": package.fits,
            }
            for package in checkup.packages
        ],
        "cache": {"folder": str(checkup.cache), "from": checkup.cache_from},
        "profile": {
            "name": checkup.profile,
            "found": cluster is not None,
            "device": cluster.device.name if cluster else None,
            "devices": cluster.devices if cluster else None,
            "origin": cluster.origin if cluster else None,
        },
        "network": None
        if network is None
        else {
            "ranks": network.ranks,
            "ratio": network.ratio,
            "all_reduce": [
                {
                    "message_bytes": exchange.message_bytes,
                    "measured_s": exchange.measured_s,
                    "calibrated_s": exchange.calibrated_s,
                }
                for exchange in network.exchanges
            ],
        },
        "findings": [
            {"level": finding.level, "said": finding.said, "fix": finding.fix} for finding in checkup.findings
        ],
    }
