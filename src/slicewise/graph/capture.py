"""nn.Module -> LayerGraph, by torch.export."""

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import fx, nn

from slicewise import units
from slicewise.errors import GraphError
from slicewise.graph.dims import BATCH, WHOLE, Dim, space_letters
from slicewise.graph.layer import Kind, Layer, Weight
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.operators import RULES, Call, Meaning

Sample = torch.Tensor | tuple[torch.Tensor, ...]


# Captured with this many samples: a prime that no layer is wide, so that its multiples are the batch's doing.
PROBE_BATCH = 211


class OpaqueLayerWarning(UserWarning):
    """A layer that slicewise cannot slice: it is replicated, which is correct but saves nothing."""


def capture(model: nn.Module, sample: Sample, *, name: str = "model") -> LayerGraph:
    """The layers of `model` as run in training mode on `sample`; weights are not read.

    >>> graph = capture(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), torch.zeros(2, 3, 16, 16))
    >>> [layer.name for layer in graph]
    ['input', '0', '1', 'output']
    """
    samples = sample if isinstance(sample, tuple) else (sample,)
    batch = samples[0].shape[0]
    modes = {module: module.training for module in model.modules()}
    if not model.training:
        model.train()  # a model in training mode keeps the modes of its parts: a frozen norm stays frozen
    probes = tuple(x.new_zeros(PROBE_BATCH, *x.shape[1:]) if x.shape[:1] == (batch,) else x for x in samples)
    try:
        program = torch.export.export(model, probes)
    except Exception as error:
        first_line = str(error).strip().split("\n")[0]
        raise GraphError(
            f"{name}: torch.export cannot capture this model ({type(error).__name__}: {first_line}); "
            "make forward() free of branches on tensor values, or pass the part of the model that is"
        ) from error
    finally:
        for module, mode in modes.items():
            module.training = mode
    trained = {weight for weight, parameter in model.named_parameters() if parameter.requires_grad}
    layers = tuple(_with_forks(_Tracer(program, trained).layers()))
    return LayerGraph(name=name, layers=layers).with_batch(batch)


class _Tracer:
    """Walks the exported graph once, in execution order."""

    def __init__(self, program: torch.export.ExportedProgram, trained: set[str]) -> None:
        self.trained = trained
        self.graph = program.graph
        signature = program.graph_signature
        self.weights = dict(signature.inputs_to_parameters)
        self.buffers = dict(signature.inputs_to_buffers)
        self.user_inputs = set(signature.user_inputs)
        self.source: dict[str, str] = {}  # fx node -> the layer that now holds its value (in-place ops move it)
        self.letters: dict[str, str] = {}  # layer -> what its output's dims mean
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.names: Counter[str] = Counter()

    def layers(self) -> Iterable[Layer]:
        for node in self.graph.nodes:
            if node.op == "placeholder":
                if node.name in self.user_inputs:
                    yield self._input(node)
            elif node.op == "call_function":
                if not self._updates_buffer(node):
                    yield self._layer(node)
            elif node.op == "output":
                for value in node.args[0]:
                    if isinstance(value, fx.Node) and value.name in self.source:
                        yield self._output(self.source[value.name])

    def _updates_buffer(self, node: fx.Node) -> bool:
        """num_batches_tracked += 1: the norm's own affair."""
        target = node.args[0] if node.args else None
        return _operator_name(node)[1] and isinstance(target, fx.Node) and target.name in self.buffers

    def _input(self, node: fx.Node) -> Layer:
        shape = tuple(node.meta["val"].shape)
        space = len(shape) - 2
        letters = "NF" + space_letters(space) if 0 <= space <= 3 else Dim.N + WHOLE * (len(shape) - 1)
        layer = Layer(
            name=self._unique(node.name),
            kind=Kind.INPUT,
            inputs=(),
            input_shapes=(),
            input_dims=(),
            shape=shape,
            dims=letters,
        )
        self._record(node, layer, letters)
        return layer

    def _output(self, source: str) -> Layer:
        # a loss wants all channels of a position, and each rank the outputs of its own samples
        letters = self.letters[source].replace("F", WHOLE).replace(BATCH, Dim.N)
        return Layer(
            name=self._unique("output"),
            kind=Kind.OUTPUT,
            inputs=(source,),
            input_shapes=(self.shapes[source],),
            input_dims=(letters,),
            shape=self.shapes[source],
            dims=letters,
        )

    def _layer(self, node: fx.Node) -> Layer:
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise GraphError(
                f"{node.name}: slicewise cannot follow {node.target}, which does not return exactly one tensor"
            )
        operator, in_place = _operator_name(node)
        arguments, inputs, weights = self._arguments(node)
        call = Call(
            operator=operator,
            arguments=arguments,
            input_shapes=tuple(self.shapes[source] for source in inputs),
            input_letters=tuple(self.letters[source] for source in inputs),
            weight_shapes=tuple(shape for _, shape in weights),
            shape=tuple(node.meta["val"].shape),
        )
        meaning = RULES[operator](call) if operator in RULES and inputs else None
        name = self._unique(_module_path(node))
        if meaning is None:
            meaning = self._opaque(name, node, call)
        if meaning.kind is Kind.OPAQUE:
            arguments = {key: _batch_references(value) for key, value in arguments.items()}
        options: dict[str, Any] = {"op": _functional_name(node), "arguments": arguments}
        if in_place:
            options["in_place"] = True
        if meaning.statistics:
            options["statistics"] = meaning.statistics
        layer = Layer(
            name=name,
            kind=meaning.kind,
            inputs=inputs,
            input_shapes=call.input_shapes,
            input_dims=meaning.input_dims,
            shape=call.shape,
            dims=meaning.dims,
            weights=tuple(
                Weight(name=weight, shape=shape, dims=dims, trained=weight in self.trained)
                for (weight, shape), dims in zip(weights, meaning.weight_dims, strict=True)
            ),
            windows=meaning.windows or {},
            options=options,
            groups=meaning.groups,
        )
        _check_batch(layer)
        self._record(node, layer, meaning.letters)
        if in_place and isinstance(node.args[0], fx.Node):
            self.source[node.args[0].name] = name
        return layer

    def _opaque(self, name: str, node: fx.Node, call: Call) -> Meaning:
        items = node.meta["val"].numel()
        per_sample = items % PROBE_BATCH == 0
        held = units.amount(4 * (items // PROBE_BATCH if per_sample else items), "B") + " per sample" * per_sample
        warnings.warn(
            f"{name}: slicewise does not know how to slice {node.target}; the layer is replicated and each device "
            f"holds all of its output, {held}",
            OpaqueLayerWarning,
            stacklevel=5,
        )
        first = [BATCH if letters[:1] in ("N", BATCH) else WHOLE for letters in call.input_letters]
        dims = tuple(letter + WHOLE * (len(shape) - 1) for letter, shape in zip(first, call.input_shapes, strict=True))
        batched = BATCH in first and bool(call.shape) and call.shape[0] == call.input_shapes[first.index(BATCH)][0]
        out = (BATCH if batched else WHOLE * bool(call.shape)) + WHOLE * (len(call.shape) - 1)
        return Meaning(
            kind=Kind.OPAQUE,
            input_dims=dims,
            dims=out,
            letters=out,
            weight_dims=tuple(WHOLE * len(shape) for shape in call.weight_shapes),
        )

    def _arguments(self, node: fx.Node) -> tuple[dict[str, Any], tuple[str, ...], list[tuple[str, tuple[int, ...]]]]:
        """The call's arguments by name, tensors replaced by where they come from."""
        inputs: list[str] = []
        weights: list[tuple[str, tuple[int, ...]]] = []

        def reference(value: Any) -> Any:
            if isinstance(value, fx.Node):
                if value.name in self.weights:
                    weights.append((self.weights[value.name], tuple(value.meta["val"].shape)))
                    return {"weight": self.weights[value.name]}
                if value.name in self.buffers:
                    return {"buffer": self.buffers[value.name]}
                if value.name not in self.source:
                    raise GraphError(f"{node.name} reads a constant tensor; make it a buffer (register_buffer)")
                inputs.append(self.source[value.name])
                return {"input": len(inputs) - 1}
            if isinstance(value, (list, tuple)):
                return [reference(item) for item in value]
            if value is None or isinstance(value, (bool, int, float, str)):
                return value
            return str(value)

        assert isinstance(node.target, torch._ops.OpOverload)
        given = dict(node.kwargs)
        arguments = {}
        for position, argument in enumerate(node.target._schema.arguments):
            if position < len(node.args):
                arguments[argument.name] = reference(node.args[position])
            elif argument.name in given:
                arguments[argument.name] = reference(given[argument.name])
            else:
                arguments[argument.name] = reference(argument.default_value)
        return arguments, tuple(inputs), weights

    def _record(self, node: fx.Node, layer: Layer, letters: str) -> None:
        self.source[node.name] = layer.name
        self.letters[layer.name] = letters
        self.shapes[layer.name] = layer.shape

    def _unique(self, name: str) -> str:
        self.names[name] += 1
        return name if self.names[name] == 1 else f"{name}#{self.names[name]}"


def _check_batch(layer: Layer) -> None:
    """Every size that grows with the batch must be a batch dim, or another batch would be computed wrongly."""
    for letter, size in zip(layer.dims, layer.shape, strict=True):
        if size % PROBE_BATCH == 0 and letter not in (Dim.N, BATCH):
            raise GraphError(
                f"{layer.name}: a dim of size {size} mixes the batch with other dims, which slicewise cannot follow; "
                "keep the batch in a dim of its own"
            )


def _batch_references(value: Any) -> Any:
    """Numbers that are the batch's doing, in an operator nobody taught us, by reference: they change with the batch."""
    if isinstance(value, list):
        return [_batch_references(item) for item in value]
    if type(value) is int and value and value % PROBE_BATCH == 0:
        return {"batch": value // PROBE_BATCH}
    return value


def _operator_name(node: fx.Node) -> tuple[str, bool]:
    """('relu', True) for aten.relu_.default."""
    packet = str(node.target).split(".")[1]
    in_place = packet.endswith("_") and not packet.endswith("__")
    return packet.rstrip("_") if in_place else packet, in_place


def _functional_name(node: fx.Node) -> str:
    namespace, _, overload = str(node.target).split(".")
    return f"{namespace}.{_operator_name(node)[0]}.{overload}"


def _module_path(node: fx.Node) -> str:
    """The module's own name where one torch module is one layer; the operator's under the module otherwise."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, module_type = stack[-1] if stack else ("", "")
    if path and str(module_type).startswith("torch.nn.modules."):
        return str(path)
    return f"{path}.{node.name}" if path else node.name


def _with_forks(layers: Iterable[Layer]) -> list[Layer]:
    """Every tensor with several consumers goes through a fork, right after its producer."""
    ordered = list(layers)
    uses = Counter(source for layer in ordered for source in layer.inputs)
    letters = {layer.name: layer.dims for layer in ordered}
    for layer in ordered:  # what a consumer can slice, the fork can pass on
        for source, dims in zip(layer.inputs, layer.input_dims, strict=True):
            letters[source] = "".join(_known(pair) for pair in zip(letters[source], dims, strict=True))
    result = []
    for layer in ordered:
        inputs = tuple(f"{source}.fork" if uses[source] > 1 else source for source in layer.inputs)
        in_place = layer.options.get("in_place") and uses[layer.inputs[0]] == 1
        options = {key: value for key, value in layer.options.items() if key != "in_place" or in_place}
        result.append(replace(layer, inputs=inputs, options=options))
        if uses[layer.name] > 1:
            dims = letters[layer.name]
            result.append(
                Layer(
                    name=f"{layer.name}.fork",
                    kind=Kind.FORK,
                    inputs=(layer.name,),
                    input_shapes=(layer.shape,),
                    input_dims=(dims,),
                    shape=layer.shape,
                    dims=dims,
                )
            )
    return result


def _known(pair: tuple[str, str]) -> str:
    mine, theirs = pair
    theirs = "F" if theirs == "C" else theirs
    return mine if mine != WHOLE else theirs
