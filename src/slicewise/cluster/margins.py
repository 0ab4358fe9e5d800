"""How far off a predicted step may be, by where the machine's figures come from."""

from slicewise.cluster.cluster import Cluster

# As a factor 1 + margin each way: docs/cost.md says which comparisons with measurements these are from.
MARGINS = {"preset": 1.0, "fitted": 0.6}


def margin_of(cluster: Cluster) -> tuple[float, str]:
    """The margin, and its origin in words; a fit to measured runs brings its own (`Tuning.margin`)."""
    own = cluster.tuning.margin
    margin = MARGINS.get(cluster.origin, MARGINS["preset"]) if own is None else own
    width = f"{margin:.0%} each way" if margin < 1 else f"a factor of {1 + margin:g} each way"
    return margin, f"{cluster.origin} figures, {width}{'' if own is None else ': what the fit left'}"


def range_of(cluster: Cluster, iteration_s: float) -> dict[str, float]:
    """Under the names of the JSON."""
    margin, _ = margin_of(cluster)
    return {"low_s": iteration_s / (1 + margin), "high_s": iteration_s * (1 + margin)}
