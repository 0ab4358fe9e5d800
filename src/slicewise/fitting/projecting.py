"""What the closed forms say of measured runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError, RequestError
from slicewise.fitting.runs import Run
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.partition.choices import Floats
from slicewise.strategies.engines import ParadlEngine
from slicewise.strategies.profile import Profile
from slicewise.strategies.setting import Terms


class Projector:
    """Iteration times of runs on one cluster after another; layers are profiled anew only where the device changes.

    Batch norms have local statistics, as frameworks have them.
    """

    def __init__(self, graphs: Mapping[str, LayerGraph] | None = None) -> None:
        self._graphs: dict[object, LayerGraph] = {(name, None): graph for name, graph in (graphs or {}).items()}
        self._profiles: dict[object, Profile] = {}

    def seconds(self, runs: Sequence[Run], cluster: Cluster) -> Floats:
        """Iteration times, one per run."""
        return np.array([terms.iteration_s for terms in self.terms(runs, cluster)])

    def terms(self, runs: Sequence[Run], cluster: Cluster) -> list[Terms]:
        """All forms and splits that a run leaves open are tried, as the oracle does."""
        device = (repr(cluster.device), cluster.cores)
        return [self._terms(run, cluster, device) for run in runs]

    def graph(self, run: Run) -> LayerGraph:
        key = (run.model, run.input)
        if key not in self._graphs:
            self._graphs[key] = load_graph(run.model, run.input)
        return self._graphs[key]

    def _terms(self, run: Run, cluster: Cluster, device: tuple[object, ...]) -> Terms:
        graph, training = self.graph(run), Training(dtype=run.dtype, batchnorm="local")
        key = (run.model, run.input, run.dtype, device)
        if key not in self._profiles:
            self._profiles[key] = Profile(graph, cluster, training)
        engine = ParadlEngine(graph=graph, cluster=cluster, training=training, profiled=self._profiles[key])
        try:
            return engine.terms(run.strategy, run.devices, run.batch, run.split)
        except InfeasibleError as error:
            what = f"{run.model}, {run.strategy} on {run.devices} devices, batch {run.batch}"
            raise RequestError(f"{what}: no such run is possible ({error}); correct or remove it") from error
