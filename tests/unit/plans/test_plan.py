import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.errors import PlanError, SlicingError
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.partition.layout import Slicing
from slicewise.partition.spelling import degrees, spelled
from slicewise.planning import plan as make_plan
from slicewise.plans.plan import Plan
from tests.builders import Net, machine, residual_net, small_cnn

CLUSTER = machine(2, 2)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(small_cnn(), CLUSTER)


def edited(plan: Plan, **layers: dict[str, Any]) -> dict[str, Any]:
    """The plan's file with some layers' slicings changed by hand."""
    fields: dict[str, Any] = json.loads(json.dumps(plan.to_dict()))
    for layer in fields["layers"]:
        layer["slicing"] = layers.get(layer["name"], layer["slicing"])
    return fields


def test_a_plan_survives_its_file(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan.save(path)
    loaded = Plan.load(path)
    assert loaded.slicings == plan.slicings
    assert loaded.to_dict() == json.loads(path.read_text())


def test_the_file_is_readable(plan: Plan) -> None:
    fields = plan.to_dict()
    assert fields["schema_version"] == 2
    assert fields["mesh"] == {"tier00": 2, "tier10": 2}
    first = fields["layers"][0]
    assert (first["name"], first["kind"]) == ("input0", "input")
    assert first["slicing"] == {"tier00": "N", "tier10": "N"}
    assert first["degrees"]["N"] == 4
    assert first["cost"]["total_s"] == 0.0


def test_an_edited_slicing_is_taken_at_its_word(plan: Plan) -> None:
    loaded = Plan.from_dict(edited(plan, conv0={"tier10": "H"}), "plan.json")
    assert loaded.slicings["conv0"] == (None, Dim.H)
    loaded.check(small_cnn(), CLUSTER.mesh)


def test_an_unknown_axis_is_refused_with_the_meshs_own(plan: Plan) -> None:
    with pytest.raises(PlanError, match=r"plan.json: conv0: unknown axis 'rows'; the mesh has tier00, tier10"):
        Plan.from_dict(edited(plan, conv0={"rows": "N"}), "plan.json")


@pytest.mark.parametrize("dim", ["X", "n", 3])
def test_an_unknown_dim_is_refused_with_the_known_ones(plan: Plan, dim: object) -> None:
    with pytest.raises(
        PlanError, match=r"plan.json: layers\[1\].slicing.tier00 is .*; must be one of N, F, C, D, H, W"
    ):
        Plan.from_dict(edited(plan, conv0={"tier00": dim}), "plan.json")


def test_layers_that_the_network_does_not_have_are_named(plan: Plan) -> None:
    fields = edited(plan)
    fields["layers"][1]["name"] = "conv7"
    loaded = Plan.from_dict(fields, "plan.json")
    with pytest.raises(PlanError, match=r"no slicing for: conv0; unknown layers: conv7"):
        loaded.check(small_cnn(), CLUSTER.mesh)


def test_a_plan_for_another_network_names_a_few_layers(plan: Plan) -> None:
    with pytest.raises(PlanError, match="the plan is not for this network"):
        plan.check(residual_net(), CLUSTER.mesh)


def test_a_plan_for_another_mesh_is_refused(plan: Plan) -> None:
    with pytest.raises(
        PlanError, match=r"the plan's mesh is \(2, 2\), the cluster's \(2,\); plan again with other `devices`"
    ):
        plan.check(small_cnn(), machine(2).mesh)


def test_an_edited_slicing_that_is_not_legal_is_refused_by_layer(plan: Plan) -> None:
    loaded = Plan.from_dict(edited(plan, flatten0={"tier00": "H"}), "plan.json")
    with pytest.raises(SlicingError, match="flatten0: a flatten layer like this cannot be sliced along H"):
        loaded.check(small_cnn(), CLUSTER.mesh)


def test_a_plan_for_a_smaller_batch_may_no_longer_be_legal(plan: Plan) -> None:
    with pytest.raises(SlicingError, match="input0: cannot slice N=2 into 4: a part would be empty"):
        plan.check(small_cnn(batch=2), CLUSTER.mesh)


@pytest.mark.parametrize("fields", [[], {}, {"layers": []}, "plan", None])
def test_what_is_not_a_plan_is_refused(fields: object) -> None:
    with pytest.raises(PlanError, match=r"other.json: not a plan; `slicewise plan MODEL -o FILE` makes one"):
        Plan.from_dict(fields, "other.json")


@pytest.mark.parametrize("field", ["model", "cluster", "devices", "batch", "dtype"])
def test_a_missing_field_is_named(plan: Plan, field: str) -> None:
    fields = edited(plan)
    del fields[field]
    with pytest.raises(PlanError, match=f"plan.json: {field} is missing; must be "):
        Plan.from_dict(fields, "plan.json")


def test_a_plan_of_another_release_is_refused(plan: Plan) -> None:
    with pytest.raises(PlanError, match=r"plan.json: schema_version is 9; this release reads 1 and 2"):
        Plan.from_dict({**edited(plan), "schema_version": 9}, "plan.json")


def with_field(plan: Plan, path: str, value: Any) -> dict[str, Any]:
    """The plan's file with one value changed: `layers.1.kind`."""
    fields = edited(plan)
    *steps, last = path.split(".")
    place: Any = fields
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[last] = value
    return fields


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("recompute", "no", "recompute is 'no'; must be true or false"),
        ("batch", 16.7, "batch is 16.7; must be a whole number of at least 1"),
        ("batch", "16", "batch is '16'; must be a whole number of at least 1"),
        ("batch", 0, "batch is 0; must be a whole number of at least 1"),
        ("batch", 10**20, "batch is 100000000000000000000; must be a whole number of at most 1,000,000,000,000,000"),
        ("devices", 8, "devices is 8, but the mesh has 4: 2 x 2; plan again with `devices=8`"),
        ("mesh", {"tier00": 2, "tier10": 4}, "devices is 4, but the mesh has 8: 2 x 4"),
        ("mesh", {"tier00": 2, "tier10": -2}, "mesh.tier10 is -2; must be a whole number of at least 1"),
        ("mesh", {"tier00": 2, "tier10": 2, "x y": 1.5}, "mesh['x y'] is 1.5; must be a whole number of at least 1"),
        ("mesh", {"tier00": 2, "tier10": 2, "a\nb": 1}, "mesh: the name 'a\\nb' must be text on one line"),
        ("graph", {}, "graph: no schema_version; this release reads 1"),
        ("mesh", [2, 2], "mesh is a list of 2; must be a table"),
        ("model", "", "model is ''; must be text that is not empty"),
        ("model", "a\nb", "model is 'a\\nb'; must be text on one line"),
        ("model", "other", "model is 'other', but the file carries 'small_cnn'; plan again for 'other'"),
        ("software", "tuned", "software is 'tuned', but the file carries 'plain'; plan again for 'tuned'"),
        ("input", [3, 9, 9], "input is (3, 9, 9), but the file carries (3, 8, 8); plan again for (3, 9, 9)"),
        ("dtype", "fp12", "unknown dtype 'fp12'; choose from bf16, fp16, fp32, tf32"),
        ("colour", "red", "unknown field 'colour'; choose from schema_version, model"),
        ("layers.1.slcing", {}, "layers[1]: unknown field 'slcing' (did you mean slicing?); choose from name, slicing"),
        ("layers.1.slicing", "N", "layers[1].slicing is 'N'; must be a table"),
        ("layers.1.name", "input0", "layers: 'input0' stands twice; leave one of them"),
        ("layers.1.cost.total_s", float("nan"), "layers[1].cost.total_s is nan; must be a finite number, text"),
        ("predicted.iteration_s", float("inf"), "predicted.iteration_s is inf; must be a finite number"),
        (
            "certificate.memory_limit_bytes",
            "8GiB",
            "certificate: memory_limit_bytes is '8GiB'; must be a number above 0 or null",
        ),
        ("certificate.constraints", "fix", "certificate: constraints is 'fix'; must be a list"),
        ("machine.tiers", [], "machine: tiers is a list of 0; must be a list of at least 1"),
        (
            "graph.layers.1.shape",
            [4, -4, 8, 8],
            "graph: layers[1].shape[1] is -4; must be a whole number of at least 1",
        ),
    ],
)
def test_a_wrong_edit_is_refused_with_field_value_and_what_would_work(
    plan: Plan, path: str, value: Any, complaint: str
) -> None:
    with pytest.raises(PlanError) as refused:
        Plan.from_dict(with_field(plan, path, value), "plan.json")
    assert f"plan.json: {complaint}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_are_missing_or_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such plan"):
        Plan.load(tmp_path / "nowhere.json")
    path = tmp_path / "plan.json"
    path.write_text("{")
    with pytest.raises(PlanError, match="not JSON"):
        Plan.load(path)


def test_degrees_multiply_over_axes() -> None:
    assert degrees((Dim.N, Dim.N, Dim.F), (2, 3, 2)) == {"N": 6, "F": 2, "C": 1, "D": 1, "H": 1, "W": 1}
    assert set(degrees((None, None), (2, 2)).values()) == {1}


@pytest.mark.parametrize(
    ("slicing", "text"),
    [
        ((Dim.N, Dim.N, Dim.N), "N8"),
        ((Dim.N, Dim.F, Dim.F), "N2@inter F4@intra"),
        ((Dim.N, Dim.H, Dim.F), "N2@inter H2@intra F2@intra"),
        ((None, None, Dim.F), "F2@intra"),
        ((None, None, None), "whole"),
    ],
)
def test_a_slicing_is_spelled_with_the_tiers_it_crosses(slicing: tuple[Dim | None, ...], text: str) -> None:
    assert spelled(slicing, {"inter0": 2, "intra0": 2, "intra1": 2}) == text


def test_a_single_tier_needs_no_name() -> None:
    assert spelled((Dim.N, Dim.F), {"all0": 2, "all1": 2}) == "N2 F2"


def test_a_volume_may_come_out_cut_along_both_tiers_whatever_the_order() -> None:
    """The canonical order restricts the search, not what may run: `parallelize` knows no tiers."""
    net = Net()
    net.output(net.conv(net.input(1, 3, 8, 8), 4))
    flat = Mesh((Axis("inter0", 2, 0), Axis("intra0", 2, 0)))
    cut: Slicing = (Dim.W, Dim.H)
    slicings = {layer.name: (None, None) if layer.kind is Kind.INPUT else cut for layer in net.graph}
    plan = Plan(
        model="net",
        cluster="any",
        devices=4,
        batch=1,
        axes={"inter0": 2, "intra0": 2},
        slicings=slicings,
    )
    plan.check(net.graph, flat)
    other = replace(plan, slicings={**slicings, net.graph.inputs[0].name: cut})
    with pytest.raises(PlanError, match="with batch 1 on 4 devices this must be whole"):
        other.check(net.graph, flat)


def test_a_plan_that_tears_layers_of_one_weight_apart_is_refused() -> None:
    net = Net()
    first = net.conv(net.input(4, 8, 8, 8), 8)
    second = net.conv(first, 8)
    net.share(first, second)
    net.output(second)
    made = make_plan(net.graph, CLUSTER)
    made.check(net.graph, CLUSTER.mesh)
    torn = replace(made, slicings={**made.slicings, first: (Dim.N, None), second: (Dim.H, None)})
    with pytest.raises(SlicingError, match="conv1 shares weights with conv0 and must be sliced like it"):
        torn.check(net.graph, CLUSTER.mesh)
