"""A plan's seconds a second time, written from docs/cost.md alone.

The planner prices thousands of slicings at once, in arrays of bit masks. This prices one plan, layer by layer, in plain
tuples and loops, and shares no code with it: a plan is right where two ways lead to one number.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from math import hypot, prod

from slicewise.cluster.cluster import Cluster, Link, Tier
from slicewise.cluster.kernels import Kernels
from slicewise.cost.training import PLAIN, Training
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.window import Window
from slicewise.partition.layout import Slicing

Axes = tuple[int, ...]  # in mesh order
Given = tuple[float, float, float]  # seconds of forward, backward, update
Layout = tuple[tuple[Axes, ...], frozenset[int]]  # the axes that shard each dim; the axes along which it is Partial

_FREE = {Kind.INPUT, Kind.OUTPUT, Kind.FORK, Kind.FLATTEN, Kind.VIEW, Kind.CROP}
_PRODUCTS = {Kind.CONV, Kind.LINEAR, Kind.MATMUL, Kind.ATTENTION}
_MULTIPLIES = ("lstm", "gru", "rnn_", "bilinear", "_trilinear", "cdist", "_cdist")


def recost(
    graph: LayerGraph,
    cluster: Cluster,
    slicings: Mapping[str, Slicing],
    training: Training = PLAIN,
    given: Mapping[str, Given] | None = None,
) -> float:
    """`additive_s` of a plan for `graph`, which has the plan's batch and way to normalise. `given`: what each
    layer takes on its device, where that was measured and follows from no formula.
    """
    return sum(recost_terms(graph, cluster, slicings, training, given).values())


def recost_terms(
    graph: LayerGraph,
    cluster: Cluster,
    slicings: Mapping[str, Slicing],
    training: Training = PLAIN,
    given: Mapping[str, Given] | None = None,
) -> dict[str, float]:
    """The same by term, under the names of docs/cost.md."""
    page = _Page(graph, cluster, training, given)
    totals = dict.fromkeys(("forward_s", "backward_s", "update_s", "halo_s", "reduce_s", "sync_s", "transfer_s"), 0.0)
    for layer in graph:
        for term, seconds in page.layer_terms(layer, slicings[layer.name]).items():
            totals[term] += seconds
        for slot, source in enumerate(layer.inputs):
            totals["transfer_s"] += page.edge_s(layer, slot, slicings[source], slicings[layer.name])
    return totals


def _link(tier: Tier, collective: str) -> Link | Tier:
    """A collective's own pace, or that of the tier; a bucket is an all-reduce."""
    like = tier.collectives.get("all_reduce") if collective == "bucket" else None
    return tier.collectives.get(collective) or like or tier


class _Page:
    """The page's formulas for one network on one machine."""

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, training: Training, given: Mapping[str, Given] | None = None
    ) -> None:
        self.graph, self.device, self.training, self.given = graph, cluster.device, training, given
        self.fused = cluster.software == "tuned" and training.dtype in ("bf16", "fp16")
        self.item_bytes = 2 if training.dtype in ("bf16", "fp16") else 4
        self.sizes = [axis.size for axis in cluster.mesh.axes]
        self.tier_of = [axis.tier for axis in cluster.mesh.axes]
        self.tiers = range(len(cluster.tiers))
        devices = prod(tier.size for tier in cluster.tiers)
        self.slowdown = max(1.0, devices / cluster.cores) if cluster.cores else 1.0
        self.overlap = cluster.overlap
        self.pace = cluster.measured.factor if cluster.measured else 1.0
        self.alpha: dict[tuple[str, int], float] = {}
        self.beta: dict[tuple[str, int], float] = {}
        for number, tier in enumerate(cluster.tiers):
            below = prod(inner.size for inner in cluster.tiers[number + 1 :])
            for collective in ("all_gather", "all_reduce", "all_to_all", "bucket"):
                link = _link(tier, collective)
                self.alpha[collective, number] = link.latency_s
                self.beta[collective, number] = link.bytes_per_s * min(1.0, tier.ports / below)
        self.racks, self.below = cluster.tiers[0].racks, prod(inner.size for inner in cluster.tiers[1:])
        self.all_to_all_s_per_byte = [1 / self.beta["all_to_all", tier] for tier in self.tiers]
        if self.racks is not None:
            self.all_to_all_s_per_byte[0] = 1 / self.uplink("all_to_all", self.racks.size)
        # layers and edges repeat: each of these is worked out once per argument
        self.change_s = cache(self._change_s)
        self.slowest_part = cache(self._slowest_part)
        self.latency_s = cache(self._latency_s)
        self.standing = cache(self._standing)

    # Parts and layouts

    def devices_along(self, axes: Iterable[int]) -> int:
        return prod(self.sizes[axis] for axis in axes)

    def part(self, extent: int, axes: Axes) -> int:
        return -(-extent // self.devices_along(axes))

    def items(self, dims: str, shape: tuple[int, ...], slicing: Slicing) -> int:
        return prod(self.part(extent, axes) for extent, axes in zip(shape, sharding(dims, slicing), strict=True))

    def returns_gradient(self, layer: Layer, slot: int) -> bool:
        return layer.name in self.graph.gradients and layer.inputs[slot] in self.graph.gradients

    # Terms of one layer

    def layer_terms(self, layer: Layer, slicing: Slicing) -> dict[str, float]:
        gets_gradient = layer.name in self.graph.gradients
        halo_s = self.halo_s(layer, slicing) if layer.windows else 0.0
        own = self.own_terms(layer, slicing, gets_gradient)
        if halo_s and self.returns_gradient(layer, 0):
            halo_s *= 2
        return own | {
            "halo_s": halo_s + self.round_s(layer, slicing, own["forward_s"] + own["backward_s"]),
            "reduce_s": self.reduce_s(layer, slicing, gets_gradient),
            "sync_s": self.sync_s(layer, slicing),
        }

    def own_terms(self, layer: Layer, slicing: Slicing, gets_gradient: bool) -> dict[str, float]:
        """What a device does by itself. Nothing is computed where there is nothing to compute, whatever is given."""
        if self.given is not None:
            forward_s, backward_s, update_s = self.given[layer.name]
            works = layer.kind not in _FREE or layer.kind is Kind.INPUT  # which stands for what a step costs by itself
            updates = self.updated_items(layer, slicing) > 0
            return {
                "forward_s": forward_s if works else 0.0,
                "backward_s": backward_s if works and gets_gradient else 0.0,
                "update_s": update_s if updates else 0.0,
            }
        return {
            "forward_s": self.pass_s(layer, slicing, "forward"),
            "backward_s": self.backward_s(layer, slicing) if gets_gradient else 0.0,
            "update_s": self.update_s(layer, slicing),
        }

    def pass_s(self, layer: Layer, slicing: Slicing, direction: str) -> float:
        if layer.kind in _FREE:
            return 0.0
        kernels = self.device.kernels
        if kernels is not None:
            return self.fitted_s(kernels, layer, slicing, direction) * self.pace * self.slowdown
        activations, weights = self.touched(layer, slicing)
        seconds = (activations * self.item_bytes + weights * 4) / self.device.memory_bytes_per_s
        if layer.kind in _PRODUCTS:
            seconds = max(seconds, self.product_s(layer, slicing, direction))
        if layer.kind is Kind.OPAQUE:
            share = self.device.efficiency["linear" if direction == "forward" else "linear_backward"]
            peak = {"fp32": self.device.peak_flops_per_s, **self.device.reduced_flops_per_s}[self.training.dtype]
            seconds = max(seconds, self.unknown_flops(layer, direction) / (peak * share))
        return (seconds + self.device.kernel_s) * self.pace * self.slowdown

    def touched(self, layer: Layer, slicing: Slicing) -> tuple[int, int]:
        """Items of inputs and output, and of weights."""
        tensors = [*zip(layer.input_dims, layer.input_shapes, strict=True), (layer.dims, layer.shape)]
        activations = sum(self.items(dims, shape, slicing) for dims, shape in tensors)
        return activations, sum(self.items(weight.dims, weight.shape, slicing) for weight in layer.weights)

    # Compute: fitted kernels

    def fitted_s(self, kernels: Kernels, layer: Layer, slicing: Slicing, direction: str) -> float:
        """The quickest of the ways to run it."""
        if layer.kind not in _PRODUCTS:
            name = {Kind.NORM: "norm", Kind.POOL: "pool"}.get(layer.kind, "elementwise")
            passes = self.traffic(layer, direction, False)
            memory_s = self.memory_s(layer, slicing, passes, kernels.memory[name])
            busy_s = hypot(memory_s, self.unknown_s(kernels, layer, direction))
            return busy_s + kernels.call_s[name] if passes else busy_s
        units = [False] if self.training.dtype == "fp32" or kernels.tensor is None else [True, False]
        ways = [(units[0], False), *((narrow, layer.groups > 1) for narrow in units)]
        return min(self.way_s(kernels, layer, slicing, direction, *way) for way in ways)

    def unknown_flops(self, layer: Layer, direction: str) -> float:
        """Of an operator that nobody taught us: every position of its output meets every matrix."""
        if layer.kind is not Kind.OPAQUE:
            return 0.0
        name = str(layer.options.get("op", ""))
        if name.startswith("aten.") and not any(name.startswith(f"aten.{known}") for known in _MULTIPLIES):
            return 0.0
        once = 0.0
        for weight in [*layer.weights, *layer.buffers]:
            if len(weight.shape) >= 2:
                shared = [extent for extent in layer.shape if extent in weight.shape]
                channels = shared[-1] if shared else layer.shape[-1] if layer.shape else 1
                once += 2.0 * weight.size * prod(layer.shape) / channels
        return once if direction == "forward" else 2 * once

    def unknown_s(self, kernels: Kernels, layer: Layer, direction: str) -> float:
        peaks = {"fp32": self.device.peak_flops_per_s, **self.device.reduced_flops_per_s}
        own = self.training.dtype
        plain = peaks[own if kernels.tensor is None else "fp32"] * kernels.simt.efficiency["linear"]
        matrix = peaks[own] * kernels.tensor.efficiency["linear"] if kernels.tensor and own != "fp32" else 0.0
        return self.unknown_flops(layer, direction) / max(plain, matrix)

    def memory_s(self, layer: Layer, slicing: Slicing, passes: float, share: float) -> float:
        activations, weights = self.touched(layer, slicing)
        return (passes * activations * self.item_bytes + weights * 4) / (self.device.memory_bytes_per_s * share)

    def way_s(
        self, kernels: Kernels, layer: Layer, slicing: Slicing, direction: str, narrow: bool, as_one: bool
    ) -> float:
        """`narrow`: on the tensor unit. `as_one`: groups filled up with zeros."""
        memory_s = self.memory_s(layer, slicing, self.traffic(layer, direction, narrow), kernels.memory["product"])
        unit = kernels.tensor if narrow and kernels.tensor is not None else kernels.simt
        kind = self.family(layer, narrow, 1 if as_one else layer.groups)
        rows, columns, reduction, groups = self.matrix(layer, slicing, direction)
        whole = self.whole_reduction(layer)
        taps = prod(window.kernel for window in layer.windows.values())
        if as_one:
            columns, reduction, whole, groups = columns * groups, reduction * layer.groups, whole * layer.groups, 1
        if kind == "winograd":
            rows = (rows + self.tiled_rows(layer, slicing)) / 2
        if narrow and kind == "grouped":
            dims, shape = layer.factor
            groups = -(-groups // max(1, 8 // max(shape[dims.index("F")] // layer.groups, whole // taps)))
        if narrow:
            columns, reduction = -(-columns // 8) * 8, -(-(reduction // taps) // 8) * 8 * taps
        linear = layer.kind is not Kind.CONV
        half_r, half_c, half_k, fill = unit.half_size["linear" if linear else direction]
        if kind in ("grouped", "depthwise"):
            half_r = half_c = half_k = 0.0
        r, c, k = rows + half_r, columns + half_c, reduction + half_k
        summed = {"forward": k, "backward_input": c, "backward_weight": r}[direction]
        share = unit.efficiency[kind]
        if direction == "backward_input":
            share *= unit.backward_input * (unit.strided_input if kind == "strided" else 1.0)
        elif direction == "backward_weight":
            share *= unit.backward_weight
        peaks = {"fp32": self.device.peak_flops_per_s, **self.device.reduced_flops_per_s}
        peak = peaks[self.training.dtype if narrow or kernels.tensor is None else "fp32"]
        steps = (groups * r * c * k + fill * summed) * (1 + whole / unit.long_reduction)
        arithmetic_s = 2 * steps / (peak * share)
        return kernels.call_s[kind if linear else direction] + hypot(arithmetic_s, memory_s)

    def family(self, layer: Layer, narrow: bool, groups: int) -> str:
        windows = list(layer.windows.values())
        if layer.kind is Kind.MATMUL or layer.kind is Kind.ATTENTION:
            return "product"
        if layer.kind is Kind.LINEAR:
            held = [*layer.weights, *layer.buffers]
            return "linear" if any(len(weight.shape) > 1 for weight in held) else "product"
        if groups > 1:
            dims, shape = layer.factor
            return "depthwise" if shape[dims.index("F")] == groups else "grouped"
        if len(windows) == 3:
            return "volume"
        if max((window.stride for window in windows), default=1) > 1:
            return "strided"
        if {window.kernel for window in windows} <= {1}:
            return "pointwise"
        plain = [window for window in windows if window.kernel == 3 and window.dilation == 1]
        return "winograd" if len(plain) == len(windows) == 2 and not narrow else "window"

    def traffic(self, layer: Layer, direction: str, narrow: bool) -> float:
        forward, alone, half = direction == "forward", len(layer.inputs) == 1, self.item_bytes == 2
        if layer.kind is Kind.CONV and narrow:
            return 1.0 if self.fused else 3.0
        if layer.kind is Kind.NORM:
            once = 1.0 if forward else 5 / 3
            return 2 * once if half and not self.fused else once
        if layer.kind is Kind.ELEMENTWISE and self.fused:
            return 0.0 if alone or not forward else 1 / 3
        if layer.kind is Kind.ELEMENTWISE and alone and not forward:
            return 1.5
        return 1.0

    def tiled_rows(self, layer: Layer, slicing: Slicing) -> int:
        dims, shape = self.positions(layer)
        parts = zip(dims, shape, sharding(dims, slicing), strict=True)
        return prod(
            -(-self.part(extent, axes) // 4) * 4 if letter in "DHW" else self.part(extent, axes)
            for letter, extent, axes in parts
            if letter not in "FC"
        )

    def positions(self, layer: Layer) -> tuple[str, tuple[int, ...]]:
        transposed = any(window.transposed for window in layer.windows.values())
        return (layer.input_dims[0], layer.input_shapes[0]) if transposed else (layer.dims, layer.shape)

    def whole_reduction(self, layer: Layer) -> int:
        if layer.kind is Kind.ATTENTION:
            return layer.input_shapes[0][-1] + layer.input_shapes[2][-1]
        if layer.kind is Kind.MATMUL:
            return next(
                shape[dims.index("C")]
                for dims, shape in zip(layer.input_dims, layer.input_shapes, strict=True)
                if "C" in dims
            )
        dims, shape = layer.factor
        return prod(shape) // shape[dims.index("F")]

    def matrix(self, layer: Layer, slicing: Slicing, direction: str) -> tuple[float, int, int, int]:
        """Rows, columns, reduction, groups."""
        if layer.kind is Kind.ATTENTION:
            embedding = layer.input_shapes[0][-1]
            *matrices, queries, _ = (
                self.part(extent, axes) for extent, axes in zip(layer.shape, sharding(layer.dims, slicing), strict=True)
            )
            twice = embedding if direction == "backward_input" else 0
            keys = self.items("K" if "K" in layer.input_dims[1] else ".", layer.input_shapes[1][-2:-1], slicing)
            return queries, keys, embedding + layer.input_shapes[2][-1] + twice, prod(matrices)
        if layer.kind is Kind.MATMUL:
            return self.two_computed(layer, slicing)
        dims, shape = self.positions(layer)
        rows = prod(
            self.part(extent, axes)
            for letter, extent, axes in zip(dims, shape, sharding(dims, slicing), strict=True)
            if letter not in "FC"
        )
        dims, shape = layer.factor
        all_filters = shape[dims.index("F")]
        filters = self.items("F", (all_filters,), slicing)
        groups = max(1, layer.groups * filters // all_filters)
        return rows, max(1, filters // groups), self.items(dims, shape, slicing) // filters, groups

    def two_computed(self, layer: Layer, slicing: Slicing) -> tuple[float, int, int, int]:
        held = [(weight.dims, weight.shape) for weight in (*layer.weights, *layer.buffers)]
        tensors = [*zip(layer.input_dims, layer.input_shapes, strict=True), *held]
        (one, shape), (other, _) = ((dims, shape) for dims, shape in tensors if "C" in dims)
        parts = [self.part(e, a) for e, a in zip(layer.shape, sharding(layer.dims, slicing), strict=True)]
        columns = groups = 1
        for letter, part in zip(layer.dims, parts, strict=True):
            columns *= part if letter == "K" else 1
            groups *= part if letter != "." and letter in one and letter in other else 1
        reduction = self.items("C", (shape[one.index("C")],), slicing)
        return prod(parts) // columns // groups, columns, reduction, groups

    def product_s(self, layer: Layer, slicing: Slicing, direction: str) -> float:
        rows, columns, reduction, groups = self.matrix(layer, slicing, direction)
        name = "conv" if layer.kind is Kind.CONV else "linear"
        if len(layer.windows) == 3 and "conv3d" in self.device.efficiency:
            name = "conv3d"
        peak = {"fp32": self.device.peak_flops_per_s, **self.device.reduced_flops_per_s}[self.training.dtype]
        rate = peak * self.device.efficiency[name if direction == "forward" else f"{name}_backward"]
        for size, half in zip((rows, columns, reduction), self.device.half_size, strict=True):
            rate *= size / (size + half)
        return 2 * rows * columns * reduction * groups / rate

    def backward_s(self, layer: Layer, slicing: Slicing) -> float:
        if layer.kind in _PRODUCTS:
            wanted = [self.returns_gradient(layer, slot) for slot in range(len(layer.inputs))]
            of_the_factor = any(wanted[1:]) or any(weight.trained for weight in layer.weights)
            of_the_input_s = self.pass_s(layer, slicing, "backward_input") if wanted[0] else 0.0
            return of_the_input_s + (self.pass_s(layer, slicing, "backward_weight") if of_the_factor else 0.0)
        again = self.pass_s(layer, slicing, "forward") if self.training.recompute else 0.0
        return self.pass_s(layer, slicing, "backward_input") + again

    def update_s(self, layer: Layer, slicing: Slicing) -> float:
        items = self.updated_items(layer, slicing)
        state = {"sgd": 0, "momentum": 1, "adam": 2}[self.training.optimizer]
        seconds = (3 + 2 * state) * 4 * items / self.device.memory_bytes_per_s + self.device.kernel_s
        return seconds * self.slowdown if items else 0.0

    def updated_items(self, layer: Layer, slicing: Slicing) -> int:
        """Trained weights, each at the first layer that reads it."""
        return sum(
            self.items(weight.dims, weight.shape, slicing)
            for weight in layer.weights
            if weight.trained and not weight.again
        )

    def sync_s(self, layer: Layer, slicing: Slicing) -> float:
        letters = {letter for weight in layer.weights for letter in weight.dims}
        axes = tuple(axis for axis, dim in enumerate(slicing) if dim is not None and dim not in letters)
        items = self.updated_items(layer, slicing)
        return 2 * self.all_gather_s(axes, 4 * items, "bucket") if items else 0.0

    def reduce_s(self, layer: Layer, slicing: Slicing, gets_gradient: bool) -> float:
        if layer.kind is Kind.ATTENTION:  # one number for every query of this rank
            axes = tuple(axis for axis, dim in enumerate(slicing) if dim == "K")
            queries = self.items(layer.dims[:-1], layer.shape[:-1], slicing)
            seconds = self.all_gather_s(axes, self.devices_along(axes) * queries * 4)
            return seconds + self.all_reduce_s(axes, queries * 4) if gets_gradient else seconds
        at_rest = layer.options.get("arguments", {}).get("training") is False
        spanned = "" if at_rest else layer.options.get("statistics", "")
        axes = tuple(axis for axis, dim in enumerate(slicing) if dim is not None and dim in spanned)
        if not axes:
            return 0.0
        values = 1
        for letter, extent, sharded in zip(layer.dims, layer.shape, sharding(layer.dims, slicing), strict=True):
            if letter in spanned:
                continue
            if letter == "N" and "ranks" in layer.options:
                extent = -(-extent // -(-extent // layer.options["ranks"]))  # chunks of ceil(batch / ranks) samples
            values *= self.part(layer.groups if letter == "F" and layer.groups > 1 else extent, sharded)
        seconds = self.all_gather_s(axes, self.devices_along(axes) * 2 * values * 4)
        return seconds + self.all_reduce_s(axes, 2 * values * 4) if gets_gradient else seconds

    # Links

    def members(self, axes: Iterable[int]) -> list[int]:
        """s_t for every tier."""
        counts = [1 for _ in self.tiers]
        for axis in axes:
            counts[self.tier_of[axis]] *= self.sizes[axis]
        return counts

    def all_gather_s(self, axes: Iterable[int], message_bytes: float, collective: str = "all_gather") -> float:
        s, seconds = self.members(axes), 0.0
        r, q, leaving, _ = self.standing(frozenset(axes))
        if r > 1:
            assert self.racks is not None
            s[0] = q
            seconds = (r - 1) * _link(self.racks, collective).latency_s
            seconds += (r - 1) / (r * prod(s)) * message_bytes / self.uplink(collective, leaving)
        return seconds + sum(
            (s[t] - 1) * self.alpha[collective, t] + (s[t] - 1) / prod(s[t:]) * message_bytes / self.beta[collective, t]
            for t in self.tiers
        )

    def all_reduce_s(self, axes: Iterable[int], message_bytes: float) -> float:
        return 2 * self.all_gather_s(axes, message_bytes, "all_reduce")

    def _latency_s(self, axes: frozenset[int]) -> float:
        s = self.members(axes)
        *_, outside = self.standing(axes)
        far = outside * prod(s[1:])
        seconds = sum((s[t] - 1) * prod(s[t + 1 :]) * self.alpha["all_to_all", t] for t in self.tiers)
        if self.racks is None or not far:
            return seconds
        return seconds + far * (_link(self.racks, "all_to_all").latency_s - self.alpha["all_to_all", 0])

    def uplink(self, collective: str, leaving: int) -> float:
        assert self.racks is not None
        rate = _link(self.racks, collective).bytes_per_s
        return min(rate * min(1.0, self.racks.ports / (leaving * self.below)), self.beta[collective, 0])

    def _standing(self, axes: frozenset[int]) -> tuple[int, int, int, int]:
        """Of groups that leave a rack: racks of one, members in one, senders out of one, peers elsewhere."""
        outer = [axis for axis, tier in enumerate(self.tier_of) if tier == 0]
        if self.racks is None or not axes.intersection(outer):
            return 1, 1, 0, 0
        groups: dict[Axes, list[int]] = {}  # by place along the other axes, the rack of every member
        for member, place in enumerate(product(*(range(self.sizes[axis]) for axis in outer))):
            apart = tuple(at for axis, at in zip(outer, place, strict=True) if axis not in axes)
            groups.setdefault(apart, []).append(member // self.racks.size)
        leaving: dict[int, int] = {}
        r = q = outside = 0
        for members in groups.values():
            counts = [members.count(rack) for rack in set(members)]
            if len(counts) > 1:
                r, q = max(r, len(counts)), max(q, *counts)
                outside = max(outside, len(members) - min(counts))
                for rack in members:
                    leaving[rack] = leaving.get(rack, 0) + 1
        return r, q, max(leaving.values(), default=0), outside

    def received_s(self, held: Sequence[int]) -> float:
        """held[0] is needed; held[1 + t] is what the ranks sharing tiers 0..t have of it. Of one byte per item."""
        seconds = 0.0
        for tier, (outside, inside) in enumerate(pairwise(held)):
            seconds += (outside - inside) * self.all_to_all_s_per_byte[tier]
        return seconds

    def all_to_all_s(self, axes: Iterable[int], held: Sequence[int], item_bytes: int) -> float:
        return self.latency_s(frozenset(axes)) + self.received_s(held) * item_bytes

    def sent_bytes(self, layer: Layer) -> int:
        """Of an item: whole numbers, truths and complex numbers have the size that their dtype's name says."""
        name = str(layer.options.get("dtype", "")).removeprefix("torch.")
        if name == "bool":
            return 1
        bits = name.removeprefix("u").removeprefix("int").removeprefix("complex")
        return int(bits) // 8 if bits.isdigit() else self.item_bytes

    # Layout changes

    def edge_s(self, layer: Layer, slot: int, before: Slicing, after: Slicing) -> float:
        producer = self.graph[layer.inputs[slot]]
        shape, dims, wanted_dims = producer.shape, producer.dims, layer.input_dims[slot]
        fork = producer.kind is Kind.FORK
        given, wanted = layout(dims, before, partial=not fork), layout(wanted_dims, after, partial=False)
        seconds = self.change_s(shape, given, wanted, self.sent_bytes(producer))
        if self.returns_gradient(layer, slot):
            returned, awaited = layout(wanted_dims, after, partial=True), layout(dims, before, partial=fork)
            seconds += self.change_s(shape, returned, awaited, self.sent_bytes(producer))
        return seconds

    def _change_s(self, shape: tuple[int, ...], source: Layout, target: Layout, item_bytes: int) -> float:
        (before, partial), (after, still_partial) = source, target
        sharded = {axis for axes in after for axis in axes}
        summed, reduced = partial & sharded, partial - sharded - still_partial
        needed = prod(self.part(extent, axes) for extent, axes in zip(shape, after, strict=True))
        changed = [dim for dim in range(len(shape)) if before[dim] != after[dim]]
        holds = not summed and all(starts(before[dim], after[dim]) for dim in changed)
        seconds = 0.0
        if reduced:
            held = prod(self.part(extent, axes) for extent, axes in zip(shape, before, strict=True))
            seconds += self.all_reduce_s(reduced, (needed if holds else held) * item_bytes)
        if holds:
            return seconds
        if not summed and len(changed) == 1 and self.gathers(shape[changed[0]], before[changed[0]], after[changed[0]]):
            gathered = set(before[changed[0]]) - sharded
            return seconds + self.all_gather_s(gathered, needed * item_bytes)
        held_inside = [needed * self.devices_along(summed)]
        for tier in self.tiers:
            inside = self.devices_along(axis for axis in summed if self.tier_of[axis] > tier)
            for extent, axes, wanted in zip(shape, before, after, strict=True):
                inside *= self.common(extent, tuple(axis for axis in axes if self.tier_of[axis] <= tier), wanted)
            held_inside.append(inside)
        crossed = summed | {axis for dim in changed for axis in beyond(before[dim], after[dim])}
        return seconds + self.all_to_all_s(crossed, held_inside, item_bytes)

    def gathers(self, extent: int, before: Axes, after: Axes) -> bool:
        return starts(after, before) and extent % self.devices_along(before) == 0

    def common(self, extent: int, one: Axes, other: Axes) -> int:
        if not starts(one, other) and not starts(other, one):
            return 0
        return min(self.part(extent, one), self.part(extent, other))

    # Keys and values that are passed round

    def round_s(self, layer: Layer, slicing: Slicing, compute_s: float) -> float:
        if layer.kind is not Kind.ATTENTION or layer.input_dims[1][-2] != "Q":
            return 0.0
        axes = tuple(axis for axis, dim in enumerate(slicing) if dim == "Q")
        if not axes:
            return 0.0
        parts = self.devices_along(axes)
        items = sum(self.items(layer.input_dims[slot], layer.input_shapes[slot], slicing) for slot in (1, 2))
        widest = min(self.tier_of[axis] for axis in axes)
        hop_s = self.latency_s(frozenset(axes)) + items * self.item_bytes * self.all_to_all_s_per_byte[widest]
        rounds = 1
        if layer.name in self.graph.gradients:
            rounds += 1 + (self.returns_gradient(layer, 1) or self.returns_gradient(layer, 2))
        return (parts - 1) * max(0.0, rounds * hop_s - self.overlap * compute_s / parts)

    # Halos

    def halo_s(self, layer: Layer, slicing: Slicing) -> float:
        """One exchange."""
        dims, shape = layer.input_dims[0], layer.input_shapes[0]
        held = [1] * (len(self.tiers) + 1)
        crossed: set[int] = set()
        for letter, extent, axes in zip(dims, shape, sharding(dims, slicing), strict=True):
            lengths = (self.part(extent, axes),) * len(held)
            window = next((window for dim, window in layer.windows.items() if dim == letter), None)
            if window is not None and axes:
                output_extent = layer.shape[layer.dims.index(letter)]
                lengths, lacking = self.slowest_part(window, extent, output_extent, axes)
                crossed.update(axes if lacking else ())
            held = [items * length for items, length in zip(held, lengths, strict=True)]
        return self.all_to_all_s(crossed, held, self.sent_bytes(layer)) if crossed else 0.0

    def _slowest_part(
        self, window: Window, extent: int, output_extent: int, axes: Axes
    ) -> tuple[tuple[int, ...], bool]:
        """The lengths of the part that stands for a dim, and whether any part reads what it does not own."""
        candidates: list[tuple[float, int, int, tuple[int, ...]]] = []
        lacking = False
        for place in product(*(range(self.sizes[axis]) for axis in axes)):
            low, high = reads(window, *self.chunk(output_extent, axes, place))
            if not window.wraps:
                low, high = min(max(low, 0), extent), min(max(high, 0), extent)
            lengths = [high - low]
            for tier in self.tiers:
                outer = tuple(axis for axis in axes if self.tier_of[axis] <= tier)
                start, stop = self.chunk(extent, outer, place)
                turns = (-extent, 0, extent) if window.wraps else (0,)
                lengths.append(sum(max(min(high, stop + turn) - max(low, start + turn), 0) for turn in turns))
            candidates.append((self.received_s(lengths), lengths[0], len(candidates), tuple(lengths)))
            lacking |= lengths[0] > lengths[-1]
        return max(candidates)[-1], lacking

    def chunk(self, extent: int, axes: Axes, place: tuple[int, ...]) -> tuple[int, int]:
        """Chunks of chunks, along the first axes of a place."""
        start, stop = 0, extent
        for axis, position in zip(axes, place, strict=False):
            length = -(-(stop - start) // self.sizes[axis])
            start = min(start + position * length, stop)
            stop = min(start + length, stop)
        return start, stop


def sharding(dims: str, slicing: Slicing) -> tuple[Axes, ...]:
    """Per tensor dim, the axes that slice it."""
    return tuple(tuple(axis for axis, dim in enumerate(slicing) if dim == letter) for letter in dims)


def layout(dims: str, slicing: Slicing, *, partial: bool) -> Layout:
    absent = [axis for axis, dim in enumerate(slicing) if dim is not None and dim not in dims]
    return sharding(dims, slicing), frozenset(absent if partial else ())


def starts(one: Axes, other: Axes) -> bool:
    return other[: len(one)] == one


def beyond(one: Axes, other: Axes) -> Axes:
    """Without the axes that both begin with."""
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    return one


def reads(window: Window, start: int, stop: int) -> tuple[int, int]:
    """The input positions that outputs [start, stop) read, borders apart."""
    reach = window.dilation * (window.kernel - 1) + 1
    if window.transposed:
        first = -((reach - 1 - window.padding - start) // window.stride)
        return first, (stop - 1 + window.padding) // window.stride + 1
    return start * window.stride - window.padding, (stop - 1) * window.stride - window.padding + reach
