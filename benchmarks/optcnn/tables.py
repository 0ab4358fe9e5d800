"""The tables of figures 7 and 8, and of what lies behind their differences."""

from collections.abc import Sequence

from benchmarks.markdown import show
from benchmarks.optcnn.comparing import Row, compare, error_alone, lead, least_gather, mean_error, misordered
from benchmarks.optcnn.paper import COST_ERRORS, GIB, GPUS, NETWORKS, STRATEGIES, bars
from benchmarks.optcnn.predicting import OURS, PAPERS, model_of, prediction, predictions, scale_for, within_bytes
from benchmarks.optcnn.readings import READINGS
from slicewise.graph.kind import Kind


def beside(title: str, rows: Sequence[Row]) -> None:
    """Bytes and throughput of every strategy and count."""
    head = ["network", "strategy", "GPUs", "GiB, paper", "ours", "difference", "images/s, paper", "ours", "difference"]
    show(title, head, [cells(row) for row in rows])


def cells(row: Row) -> list[str]:
    return [
        NETWORKS[row.network],
        row.strategy,
        str(row.gpus),
        f"{row.paper.gib:.2f}",
        f"{row.ours.gib:.2f}" if row.ours.gib >= 1 else f"{row.ours.gib:.3f}",
        f"{row.bytes_error:+.1%}",
        f"{row.paper.images_per_s:.0f}",
        f"{row.ours.images_per_s:.0f}",
        f"{row.speed_error:+.1%}",
    ]


def cost_errors(papers: Sequence[Row], ours: Sequence[Row]) -> None:
    """Table 4: how far each cost model is off for the step of its own layer-wise plan."""
    lines = []
    for network, stated in COST_ERRORS.items():
        lines.append([NETWORKS[network], "the paper, its own runs", "", *(f"{error:+.0%}" for error in stated)])
        for name, side, rows in (("--cost optcnn", PAPERS, papers), ("--cost analytic", OURS, ours)):
            off = [row.step_error for row in rows if (row.network, row.strategy) == (network, "layerwise")]
            alone = error_alone(side, network)
            lines.append([NETWORKS[network], name, f"{alone:+.0%}", "scaled", *(f"{error:+.0%}" for error in off)])
    show(
        "Table 4: (estimated - measured) / measured step of the layer-wise plan; measured by the paper",
        ["network", "cost model", "1 GPU, not scaled", "1 GPU", *(f"{count} GPUs" for count in GPUS)],
        lines,
    )


def errors(rows: Sequence[Row]) -> list[str]:
    """Mean throughput error of each strategy and of all, order, and leads: one row of a table."""
    wrong, pairs = misordered(rows)
    return [
        *(f"{mean_error([row for row in rows if row.strategy == name]):.1%}" for name in STRATEGIES),
        f"{mean_error(rows):.1%}",
        f"{pairs - len(wrong)} of {pairs}",
        *(f"{(one := lead(rows, network)).ours:.2f} ({one.error:+.0%})" for network in NETWORKS),
    ]


def readings() -> None:
    """What else was tried: the chosen one is not the only one."""
    whole = compare(PAPERS)
    lines = [["the paper's bars", *[""] * 9, *(f"{lead(whole, network).paper:.2f}" for network in NETWORKS)]]
    for one in READINGS:
        lines.append([one.transfer, one.sync, one.links, one.scaled, *errors(compare(one.side))])
    lines.append(["our own model", "", "11 / 35", "convolutions", *errors(compare(OURS))])
    show(
        "Readings: mean throughput error, pairs in order, layer-wise over the best other at 16 GPUs",
        [
            "t_X",
            "t_S",
            "links, GB/s",
            "scaled",
            *STRATEGIES,
            "all",
            "order",
            *(f"lead, {n}" for n in NETWORKS.values()),
        ],
        lines,
    )


def filters() -> None:
    rows = []
    for network in NETWORKS:
        for gpus in (8, 16):
            least = least_gather(PAPERS, network, gpus)
            share = f"{least.link_s / least.paper_step_s:.1f}"
            into = f"{least.node_bytes / 1e9:.2f} GB"
            rows.append(
                [NETWORKS[network], str(gpus), into, f"{least.link_s:.3f} s", f"{least.paper_step_s:.3f} s", share]
            )
    show(
        "Every layer by output channel: what must enter each node, whatever the schedule",
        ["network", "GPUs", "into a node", "at 12.5 GB/s", "the paper's whole step", "times that"],
        rows,
    )


def fewer_bytes(rows: Sequence[Row]) -> None:
    lines = []
    for row in (row for row in rows if row.strategy == "layerwise"):
        assert row.paper.gib is not None
        scale = scale_for(PAPERS, row.network, bars()[row.network, "data", 1].images_per_s)
        model = model_of(PAPERS, row.network, row.gpus, scale)
        convolutions = [layer for layer in model.graph if layer.kind is Kind.CONV]
        synced = sum(model.layer_cost(layer, row.ours.slicings[layer.name]).sync_bytes for layer in convolutions)
        held = within_bytes(PAPERS, row.network, row.gpus, scale, row.paper.gib)
        lines.append(
            [
                NETWORKS[row.network],
                str(row.gpus),
                f"{row.paper.gib:.2f}",
                f"{synced / GIB:.3f}",
                f"{row.ours.gib:.3f}",
                f"{row.ours.images_per_s:.0f}",
                f"{held.gib:.3f}" if held else "none",
                f"{held.images_per_s:.0f}" if held else "",
                f"{row.paper.images_per_s:.0f}",
            ]
        )
    show(
        "Layer-wise with no more bytes than the paper's (GiB), and what that costs",
        [
            "network",
            "GPUs",
            "paper",
            "ours, convolutions' sync alone",
            "ours",
            "images/s",
            "held to the paper's bytes",
            "images/s",
            "paper",
        ],
        lines,
    )


def inception() -> None:
    """Compute is not scaled: there is no bar to scale it to."""
    rows = []
    for gpus in GPUS:
        papers, ours = (predictions(side, "inception_v3", gpus) for side in (PAPERS, OURS))
        for name in STRATEGIES:
            rows.append(
                [
                    name,
                    str(gpus),
                    f"{papers[name].gib:.2f}",
                    f"{papers[name].images_per_s:.0f}",
                    f"{ours[name].gib:.2f}",
                    f"{ours[name].images_per_s:.0f}",
                ]
            )
    show(
        "Inception-v3, ours alone",
        ["strategy", "GPUs", "GiB, optcnn", "images/s", "GiB, our own model", "images/s"],
        rows,
    )


def assumptions(papers: Sequence[Row], ours: Sequence[Row]) -> None:
    """The plan that the paper's model chooses, in ours."""
    rows = []
    for chosen, best in zip(papers, ours, strict=True):
        if chosen.strategy != "layerwise":
            continue
        scale = scale_for(OURS, best.network, bars()[best.network, "data", 1].images_per_s)
        priced = prediction(model_of(OURS, best.network, best.gpus, scale), chosen.ours.slicings)
        gain = best.ours.images_per_s / priced.images_per_s - 1
        rows.append(
            [
                NETWORKS[best.network],
                str(best.gpus),
                f"{chosen.ours.images_per_s:.0f}",
                f"{priced.images_per_s:.0f}",
                f"{best.ours.images_per_s:.0f}",
                f"{gain:+.1%}",
            ]
        )
    show(
        "The plan of the paper's model, as that model sees it and as ours does; and our own plan (images/s)",
        ["network", "GPUs", "optcnn plan, optcnn cost", "optcnn plan, our cost", "our plan, our cost", "gain"],
        rows,
    )
