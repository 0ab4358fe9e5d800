"""The plan: a slicing per layer, what it was made for, and what it is predicted to cost. A readable JSON file.

A pipeline plan slices no layer: its devices hold one stage of the network each.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from math import inf, isfinite, prod
from pathlib import Path
from typing import Any

from msgspec import UNSET

from slicewise.cluster.cluster import Cluster, cluster_of, load_cluster
from slicewise.cluster.mesh import Axis, Mesh
from slicewise.cluster.writing import to_fields
from slicewise.cost.prediction import Prediction
from slicewise.cost.stage import SCHEDULES
from slicewise.cost.training import PLAIN, Training
from slicewise.errors import PlanError, RequestError, UnknownName
from slicewise.formats.checking import check_version, checked
from slicewise.formats.files import parse_json, read_text
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import stored_graph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import check_legal, check_ties, contract
from slicewise.partition.spelling import degrees, spelled
from slicewise.partition.stages import Cuts
from slicewise.plans.plan_file import PinFields, PlanV1Fields, PlanV2Fields
from slicewise.plans.request import Request, remembered
from slicewise.saving import write_file
from slicewise.units import amount, counted, seconds

SCHEMA_VERSION = 2
READABLE = (1, 2)  # 1 named its network and its cluster, and did not carry them


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """One stage per device, rank 0's first; the batch follows through them in micro-batches.

    Of each stage only `last` is read back, the layer it ends with: a person may move a cut by naming another.
    """

    schedule: str
    micro_batches: int
    stages: tuple[Mapping[str, Any], ...]

    @property
    def ends(self) -> tuple[str, ...]:
        """The layers behind which the network is cut."""
        return tuple(str(stage["last"]) for stage in self.stages[:-1])

    def to_dict(self) -> dict[str, Any]:
        return {
            "schedule": self.schedule,
            "micro_batches": self.micro_batches,
            "stages": [dict(stage) for stage in self.stages],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Stages":
        if fields["schedule"] not in SCHEDULES:
            raise UnknownName("schedule", str(fields["schedule"]), SCHEDULES)
        return cls(schedule=fields["schedule"], micro_batches=fields["micro_batches"], stages=tuple(fields["stages"]))

    def check(self, graph: LayerGraph, devices: int) -> tuple[int, ...]:
        """The positions of the cuts in `graph`, whose batch is the plan's."""
        if len(self.stages) != devices:
            raise PlanError(f"the plan has {len(self.stages)} stages for {devices} devices; each device holds one")
        if self.micro_batches < 1 or graph.batch % self.micro_batches:
            raise PlanError(f"{graph.batch} samples do not divide into {self.micro_batches} micro-batches")
        if self.schedule == "1f1b" and self.micro_batches < devices:
            raise PlanError(
                f"1f1b needs a micro-batch per stage, {devices} or more (got {self.micro_batches}); use gpipe"
            )
        end, last = str(self.stages[-1]["last"]), graph.layers[-1].name
        if end != last:
            raise PlanError(f"the last stage ends with {last}, not with {end}")
        return Cuts(graph).positions(self.ends)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What `slicewise plan` returns and `slicewise run` executes.

    A person may edit the slicings; `predicted` and the layers' costs then speak of the plan as it was, and
    `slicewise explain` costs it as it is.
    """

    model: str
    cluster: str
    devices: int
    batch: int
    training: Training = PLAIN
    cost_model: str = "analytic"
    input_shape: tuple[int, ...] | None = None  # of one sample
    slicings: Mapping[str, Slicing]
    kinds: Mapping[str, str] = field(default_factory=dict)
    predicted: Prediction = Prediction()  # noqa: RUF009 (frozen)
    baselines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    references: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # no slicings: one device, DDP ...
    certificate: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    axes: Mapping[str, int] = field(default_factory=dict)
    pipeline: Stages | None = None
    request: Request | None = None  # what was asked
    graph: LayerGraph | None = None  # the network it is for
    machine: Cluster | None = None  # the devices it is for, with the figures it was priced by

    def network(self) -> LayerGraph:
        """The network it is for. No code of the model runs: a file of version 1 must name a shipped or saved graph."""
        return self.graph or stored_graph(self.model, self.input_shape)

    def hardware(self) -> Cluster:
        """The cluster it is for, as described when the plan was made."""
        return self.machine or load_cluster(self.cluster).with_devices(self.devices)

    @property
    def asked(self) -> Request:
        """The request, as far as the file tells it, for the training and the cost model that the plan has now."""
        told = self.request or remembered(self.certificate, self.training, self.cost_model)
        return replace(told, training=self.training, cost=self.cost_model)

    def to_dict(self) -> dict[str, Any]:
        names = list(self.axes)
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "cluster": self.cluster,
            "devices": self.devices,
            "batch": self.batch,
            **({"software": self.machine.software} if self.machine else {}),
            **self.training.to_dict(),
            "cost_model": self.cost_model,
            "input": list(self.input_shape) if self.input_shape else None,
            "mesh": dict(self.axes),
            "predicted": self.predicted.to_dict(),
            "baselines": {name: dict(fields) for name, fields in self.baselines.items()},
            **({"references": {name: dict(told) for name, told in self.references.items()}} if self.references else {}),
            "certificate": dict(self.certificate),
            **({"request": self.request.to_dict()} if self.request else {}),
            **({"pipeline": self.pipeline.to_dict()} if self.pipeline else {}),
            "layers": [
                {
                    "name": name,
                    "kind": self.kinds.get(name, ""),
                    "slicing": {axis: dim.value for axis, dim in zip(names, slicing, strict=True) if dim is not None},
                    "degrees": degrees(slicing, tuple(self.axes.values())),
                    "cost": dict(self.costs.get(name, {})),
                }
                for name, slicing in self.slicings.items()
            ],
            **({"machine": to_fields(self.machine)} if self.machine else {}),
            **({"graph": self.graph.to_dict()} if self.graph else {}),
        }

    def to_json(self) -> str:
        """The graph comes last, a line for each layer: what a person may edit stands before it."""
        fields = self.to_dict()
        fields.pop("graph", None)
        text = json.dumps(fields, indent=1)
        return f'{text[:-2]},\n "graph": {self.graph.to_json()}}}\n' if self.graph else f"{text}\n"

    def save(self, path: str | Path) -> None:
        write_file(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        path = Path(path)
        if not path.exists():
            raise PlanError(f"{path}: no such plan; `slicewise plan MODEL -o {path}` makes one")
        return cls.from_dict(parse_json(read_text(path, PlanError, "a plan"), str(path), PlanError), str(path))

    @classmethod
    def from_dict(cls, document: Any, origin: str) -> "Plan":
        if not isinstance(document, dict) or "layers" not in document or "mesh" not in document:
            raise PlanError(f"{origin}: not a plan; `slicewise plan MODEL -o FILE` makes one")
        version = check_version(document, origin, READABLE, PlanError)
        fields = checked(PlanV1Fields if version == 1 else PlanV2Fields, document, origin, PlanError)
        checked(PinFields, fields.certificate, f"{origin}: certificate", PlanError)
        carried = fields if isinstance(fields, PlanV2Fields) else None
        try:
            plan = cls(
                model=fields.model,
                cluster=fields.cluster,
                devices=fields.devices,
                batch=fields.batch,
                training=Training(**{item.name: getattr(fields, item.name) for item in dataclass_fields(Training)}),
                cost_model=fields.cost_model,
                input_shape=fields.input,
                axes=fields.mesh,
                slicings={layer.name: _slicing(layer.slicing, fields.mesh, layer.name) for layer in fields.layers},
                kinds={layer.name: layer.kind for layer in fields.layers},
                costs={layer.name: layer.cost for layer in fields.layers},
                predicted=Prediction.from_dict(fields.predicted),
                baselines=fields.baselines,
                references=carried.references if carried else {},
                certificate=document.get("certificate", {}),
                pipeline=Stages.from_dict(document["pipeline"]) if fields.pipeline else None,
                request=Request.from_dict(carried.request, "request")
                if carried and carried.request is not UNSET
                else None,
                graph=LayerGraph.from_dict(carried.graph, "graph") if carried and carried.graph is not UNSET else None,
                machine=cluster_of(carried.machine, "machine") if carried and carried.machine is not UNSET else None,
            )
            plan._check_counts([layer.name for layer in fields.layers])
            plan._check_carried(carried.software if carried and carried.software is not UNSET else None)
        except RequestError as error:
            raise PlanError(f"{origin}: {error}") from error
        return plan

    def _check_counts(self, names: Sequence[str]) -> None:
        """Each layer once, and as many devices as the mesh has."""
        if len(self.slicings) < len(names):
            raise PlanError(f"layers: {Counter(names).most_common(1)[0][0]!r} stands twice; leave one of them")
        if self.devices != prod(self.axes.values()):
            raise PlanError(
                f"devices is {self.devices}, but the mesh has {prod(self.axes.values())}: "
                f"{' x '.join(map(str, self.axes.values())) or 1}; plan again with `devices={self.devices}`"
            )

    def _check_carried(self, software: str | None) -> None:
        """What it names is what it carries: an edited name alone would change nothing."""
        graph, machine = self.graph, self.machine
        pairs: list[tuple[str, Any, Any]] = []
        if graph is not None:
            shape = graph.inputs[0].shape[1:]
            pairs += [("model", self.model, graph.name), ("input", self.input_shape or shape, shape)]
        if machine is not None:
            pairs += [("cluster", self.cluster, machine.name), ("devices", self.devices, machine.devices)]
            pairs += [("software", software or machine.software, machine.software)]
        for name, own, carried in pairs:
            if own != carried:
                raise PlanError(f"{name} is {own!r}, but the file carries {carried!r}; plan again for {own!r}")

    def __repr__(self) -> str:
        """`<Plan alexnet on p100-4x4: 16 devices, batch 512, fp32, layerwise; a step takes 20.0 ms>`"""
        return f"<Plan {self._title}{f'; {self._step}' if self._step else ''}>"

    def __str__(self) -> str:
        """What it is for, what it is predicted to take, and where there is more."""
        row = self.predicted
        figures = [self._step] if self._step else []
        figures += [f"devices send {amount(row.bytes_moved, 'B')}"] if isfinite(row.bytes_moved) else []
        figures += [f"one holds {amount(row.peak_memory_bytes, 'B')}"] if isfinite(row.peak_memory_bytes) else []
        told = f"Predicted: {'; '.join(figures)}.\n" if figures else ""
        more = "More: .slicings by layer, .predicted by term, .baselines, .certificate; sw.explain(plan) says why."
        return f"{self._title}\n{told}{more}"

    @property
    def _title(self) -> str:
        strategy = self.request.strategy if self.request else "pipeline" if self.pipeline else ""
        told = f"{self.model} on {self.cluster}: {counted(self.devices)}, batch {self.batch}, {self.training.dtype}"
        return f"{told}, {strategy}" if strategy else told

    @property
    def _step(self) -> str:
        """Nothing where the file does not say."""
        row = self.predicted
        rate = f" ({row.samples_per_s:,.0f} samples/s)" if 10 <= row.samples_per_s < inf else ""
        return f"a step takes {seconds(row.iteration_s)}{rate}" if isfinite(row.iteration_s) else ""

    def _repr_html_(self) -> str:
        """For a notebook: how each layer is sliced, and where each strategy's time goes."""
        from slicewise.figures.slicings import plan_figure  # planning itself draws nothing

        return plan_figure(self)

    @property
    def mesh(self) -> Mesh:
        """Its axes; which links they cross is the cluster's to say."""
        return Mesh(tuple(Axis(name, size, 0) for name, size in self.axes.items()))

    def sized(self, graph: LayerGraph) -> LayerGraph:
        """`graph` as this plan trains it: its batch, and its way to normalise."""
        sized = graph.with_batch(self.batch)
        # a stage sees one micro-batch after the other: those are what its batch norms normalise
        return sized if self.pipeline else self.training.normalised(sized, self.devices)

    def check(self, graph: LayerGraph, mesh: Mesh) -> None:
        """Refuse, before any work, a plan that is not for this network and mesh."""
        wanted, given = [layer.name for layer in graph], list(self.slicings)
        if set(wanted) != set(given):
            missing, extra = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
            details = "; ".join(
                f"{what}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
                for what, names in (("no slicing for", missing), ("unknown layers", extra))
                if names
            )
            raise PlanError(f"the plan is not for this network ({details}); plan again, or rename the layers")
        sizes = tuple(self.axes.values())
        if sizes != mesh.sizes:
            raise PlanError(f"the plan's mesh is {sizes}, the cluster's {mesh.sizes}; plan again with other `devices`")
        if self.pipeline is not None:
            sliced = [name for name, slicing in self.slicings.items() if any(slicing)]
            if sliced:
                raise PlanError(f"{sliced[0]}: a pipeline plan slices no layer; remove its slicing, or the pipeline")
            self.pipeline.check(graph, self.devices)
            return
        for name in self.training.rings:
            if name not in graph.index or not graph[name].passes_keys:
                raise PlanError(f"rings: the keys of {name} cannot be passed round; remove it from the list")
        check_ties(graph, self.slicings)
        for layer in graph:
            check_legal(layer, self.slicings[layer.name], mesh)
            fixed = contract(layer, mesh)
            if fixed not in (None, self.slicings[layer.name]):
                raise PlanError(
                    f"{layer.name}: with batch {self.batch} on {self.devices} devices this must be "
                    f"{spelled(fixed, self.axes)}: what ranks feed and get follows from the batch"
                )


def loaded(plan: Plan | str | Path) -> Plan:
    """The plan itself, or that of a file."""
    return plan if isinstance(plan, Plan) else Plan.load(plan)


def _slicing(given: Mapping[str, Dim], axes: Mapping[str, int], layer: str) -> Slicing:
    for axis in given:
        if axis not in axes:
            raise PlanError(f"{layer}: unknown axis {axis!r}; the mesh has {', '.join(axes) or 'none'}")
    return tuple(given.get(axis) for axis in axes)
