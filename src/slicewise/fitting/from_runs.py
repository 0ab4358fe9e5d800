"""Learn a machine from runs that somebody measured on it, as one call."""

from pathlib import Path

from slicewise.cluster.cluster import Cluster, machine_of
from slicewise.fitting import BASE
from slicewise.fitting.fit import Fit, fit
from slicewise.fitting.runs import read_runs


def calibrate_from(runs: str | Path, cluster: str | Path | Cluster = BASE) -> Fit:
    """The cluster that explains measured `runs` best, beginning with what `cluster` says; a CSV file, one run per line.

    >>> rows = ["model,strategy,devices,batch,iteration_s", "alexnet,serial,1,64,0.05", "alexnet,data,4,256,0.06"]
    >>> _ = pathlib.Path("runs.csv").write_text("\\n".join(rows))
    >>> sw.calibrate_from("runs.csv", "abci-v100").cluster.origin
    'fitted'
    """
    return fit(read_runs(Path(runs)), machine_of(cluster))
