"""From an exported program to layers: one walk in execution order."""

import operator as python_operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.export.graph_signature import OutputKind

from slicewise import units
from slicewise.errors import GraphError
from slicewise.graph.aliases import Aliases
from slicewise.graph.bundles import Item, item
from slicewise.graph.dims import BATCH, WHOLE, Dim
from slicewise.graph.held import Held
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer, Weight
from slicewise.graph.masks import Mask, find_masks
from slicewise.graph.meanings import input_letters
from slicewise.graph.nodes import batch_references, functional_name, module_path, operator_name, read_dtype
from slicewise.graph.operators import SAME, Call, Meaning, Operand, Source
from slicewise.graph.rules import RULES
from slicewise.graph.rules.views import VIEWS
from slicewise.graph.writes import memory

_COUNTER = "num_batches_tracked"  # a norm's own affair: the runtime counts
_TAKE_NUMBERS = ("add", "sub", "mul", "div", "rsub")
_MOST_CONSTANTS = 2**16  # items that a graph spells out
_PASS_NUMBERS = ("lift_fresh_copy", "detach", "clone", "to")
_NEVER_IN_PLACE = ("dropout", "feature_dropout", "drop_path")  # the runtime keeps the mask instead
_FILLED = {"new_zeros": "zeros", "new_ones": "ones", "new_full": "full"}
_SHAPED_LIKE = {"reshape_as": "reshape", "view_as": "view", "expand_as": "expand", "broadcast_to": "expand"}


class BatchMixed(GraphError):
    """A dim that holds the batch among other things, or a size that only looks like it."""


Value = str | Held | float  # a layer's output, something held, or a constant of one item
Operands = dict[str, tuple[Operand, Value]]


class Tracer:
    """`layers()` walks the program once; `warnings` then has what the user should hear."""

    def __init__(
        self, program: torch.export.ExportedProgram, *, batch: int, trained: set[str], names: Mapping[str, str]
    ) -> None:
        self.program, self.graph, self.signature = program, program.graph, program.graph_signature
        self.batch, self.trained, self.own_names = batch, trained, names
        self.values: dict[fx.Node, Value] = {}
        self.aliases = Aliases(self.graph)
        self.masks, self.mask_parts = find_masks(self.graph)
        self.letters: dict[str, str] = {}  # layer -> what its output's dims mean
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.derived: set[str] = set()
        self.names: Counter[str] = Counter()
        self.warnings: dict[str, str] = {}  # by layer
        self.returned: list[int | Mapping[str, Any]] = []  # per item that forward() returns
        self.spelled_out: list[Layer] = []  # constants of one item that an operator wants as a tensor

    def layers(self) -> Iterator[Layer]:
        for node in self.graph.nodes:
            if node.op == "placeholder":
                yield from self._placeholder(node)
            elif node.op == "call_function" and node not in self.mask_parts:
                yield from self._call(node)
            elif node.op == "output":
                yield from self._outputs(node)

    def _placeholder(self, node: fx.Node) -> Iterator[Layer]:
        held = {**self.signature.inputs_to_parameters, **self.signature.inputs_to_buffers}
        if node.name in held:
            shape = tuple(node.meta["val"].shape)
            parameter = node.name in self.signature.inputs_to_parameters
            source = Source.WEIGHT if parameter else Source.BUFFER
            self.values[node] = Held(self.own_names.get(held[node.name], held[node.name]), source, shape, shape)
        elif node.name in self.signature.inputs_to_lifted_tensor_constants:
            constant = self.program.constants[self.signature.inputs_to_lifted_tensor_constants[node.name]]
            if isinstance(constant, FakeTensor) and node.users:
                raise GraphError(
                    f"{module_path(next(iter(node.users)))}: forward() goes through the .data of a tensor, which a "
                    "captured network cannot follow; use the tensor itself, or detach()"
                )
            if isinstance(constant, torch.Tensor) and constant.numel() == 1:
                self.values[node] = constant.item()
            elif isinstance(constant, torch.Tensor) and 1 < constant.numel() <= _MOST_CONSTANTS:
                yield self._constant(node.name, constant)
                self.values[node] = node.name
        elif isinstance(node.meta.get("val"), torch.Tensor):
            yield self._input(node)

    def _constant(self, name: str, constant: torch.Tensor) -> Layer:
        """Numbers that forward() spells out."""
        meaning = Meaning(kind=Kind.DERIVED, operands={}, dims=WHOLE * constant.dim())
        arguments = {"values": constant.tolist(), "dtype": str(constant.dtype)}
        options = {"op": "slicewise.constant", "arguments": arguments, "differentiable": False}
        return self._add(None, self._unique(name), meaning, {}, tuple(constant.shape), options)

    def _input(self, node: fx.Node) -> Layer:
        shape = tuple(node.meta["val"].shape)
        same_for_all = shape[:1] != (self.batch,)
        letters = WHOLE * len(shape) if same_for_all else input_letters(node, shape)
        meaning = Meaning(kind=Kind.INPUT, operands={}, dims=letters)
        return self._add(node, self._unique(node.name), meaning, {}, shape, {"dtype": str(node.meta["val"].dtype)})

    def _outputs(self, node: fx.Node) -> Iterator[Layer]:
        for spec, value in zip(self.signature.output_specs, node.args[0], strict=True):  # type: ignore[arg-type]
            if spec.kind is OutputKind.BUFFER_MUTATION and not str(spec.target).endswith(_COUNTER):
                raise GraphError(f"forward() changes {spec.target}; slicewise keeps running statistics of norms only")
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue
            source = self.values.get(value) if isinstance(value, fx.Node) else None
            if not isinstance(source, str):
                self.returned.append(_not_computed(value, source))
                continue
            self.returned.append(sum(isinstance(item, int) for item in self.returned))
            # a loss wants all channels of a position, and each rank the outputs of its own samples
            letters = self.letters[source].replace("F", WHOLE).replace(BATCH, Dim.N)
            letters = letters if Dim.N in letters else WHOLE * len(letters)
            meaning = Meaning(kind=Kind.OUTPUT, operands={"value": letters}, dims=letters)
            operands: Operands = {"value": (self._operand(source), source)}
            yield self._add(None, self._unique("output"), meaning, operands, self.shapes[source])

    def _call(self, node: fx.Node) -> Iterator[Layer]:
        is_item = node.target is python_operator.getitem
        called = node.args[0] if is_item else node
        assert isinstance(called, fx.Node)
        if not isinstance(called.target, torch._ops.OpOverload):
            raise GraphError(
                f"{node.name}: slicewise cannot follow {called.target}: a part of forward() that switches autocast on, "
                "or branches; move it out of the model"
            )
        if given := [argument.name for argument in called.target._schema.arguments if argument.is_out]:
            written = self.values.get(called.kwargs[given[0]])  # type: ignore[arg-type]
            into = written.name if isinstance(written, Held) else "a tensor"
            raise GraphError(
                f"{module_path(called)}: forward() writes into {into} by `out=`, as spectral norms do; slicewise keeps "
                "running statistics of norms only"
            )
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and not all(isinstance(size, int) for size in value.shape):
            raise GraphError(
                f"{module_path(node)}: {called.target} gives as many items as the values of a tensor ask for; keep the "
                "shape (torch.where, masked_fill), or do so in the loss, outside of the model"
            )
        operator, in_place = operator_name(called)
        if called.target._schema.is_mutable and operator not in RULES and not (in_place and value is not None):
            raise GraphError(
                f"{module_path(node)}: {called.target} writes into tensors that it is given, which slicewise cannot "
                "follow; use an operator that returns new ones"
            )
        if isinstance(value, torch.Tensor) and (node.users or not is_item):
            yield from self._layers(node, called)

    def _layers(self, node: fx.Node, called: fx.Node) -> Iterator[Layer]:
        """The layers of the operator that `called` calls; `node` is where its result, or one of them, goes."""
        in_place = operator_name(called)[1]
        shape = tuple(node.meta["val"].shape)
        this, operands = self._item(node, called)
        yield from self.spelled_out
        self.spelled_out.clear()
        if in_place and self._changes_held(called):
            self.values[node] = next(iter(operands.values()))[1]
            return
        call = Call(
            operator=this.operator,
            arguments={**this.arguments, "casts": node.meta["val"].dtype != read_dtype(called)},
            operands={name: operand for name, (operand, _) in operands.items()},
            shape=shape,
        )
        if self._stays_held(node, call, operands):
            return
        found = self._found(call, operands)
        if found == SAME:
            self.values[node] = next(iter(operands.values()))[1]
            self.aliases.join(node, called, identical=True)
            return
        name = self._unique(module_path(node))
        arguments = {key: batch_references(value, self.batch) for key, value in this.arguments.items()}
        options: dict[str, Any] = {"op": this.op, "arguments": arguments}
        if this.output is not None:
            options["output"] = this.output
        dtype = node.meta["val"].dtype
        if this.operator == "detach" or not (dtype.is_floating_point or dtype.is_complex):
            options["differentiable"] = False
        if not dtype.is_floating_point:
            options["dtype"] = str(dtype)
        *before, last = found or (self._opaque(name, called, call),)
        for number, meaning in enumerate(before, start=1):
            layer = self._add(None, f"{name}.part{number}", meaning, operands, meaning.shape or shape, options)
            yield layer
            operands = {"input": (self._operand(layer.name), layer.name)}
            kept = {key: value for key, value in options.items() if key in ("differentiable", "dtype")}
            options = {"arguments": {"input": {"input": 0}}, **kept}
        if in_place and last.kind is Kind.ELEMENTWISE and this.operator not in _NEVER_IN_PLACE:
            options["in_place"] = True
        layer = self._add(node, name, last, operands, shape, options)
        yield layer
        if in_place:
            self.values.update(dict.fromkeys(self.aliases.written(node), layer.name))
        else:
            self.aliases.join(node, called, identical=False)

    def _item(self, node: fx.Node, called: fx.Node) -> tuple[Item, Operands]:
        """The call that gives `node`, in the operators that rules know."""
        if node in self.masks:
            return self._masked(self.masks[node])
        arguments, operands = self._arguments(called)
        operator, op = operator_name(called)[0], functional_name(called)
        this = Item(operator=operator, op=op, arguments=arguments, operands=tuple(operands))
        if called is not node:
            assert isinstance(node.args[1], int)
            this = item(called, this, node.args[1])
        elif operator in _FILLED:  # the other's dtype is known
            plain = _FILLED[operator]
            filled = {**arguments, "dtype": arguments["dtype"] or str(node.meta["val"].dtype)}
            del filled["self"]
            this = Item(operator=plain, op=f"aten.{plain}.default", arguments=filled, operands=())
        elif operator in _SHAPED_LIKE:  # only the other's shape matters
            like = _SHAPED_LIKE[operator]
            sized = {"self": arguments["self"], "size": list(node.meta["val"].shape)}
            this = Item(operator=like, op=f"aten.{like}.default", arguments=sized, operands=("self",))
        elif operator == "type_as":  # only the other's dtype matters
            cast = {"self": arguments["self"], "dtype": str(node.meta["val"].dtype)}
            this = Item(operator="to", op="aten.to.dtype", arguments=cast, operands=("self",))
        return this, {name: operands[name] for name in this.operands}

    def _found(self, call: Call, operands: Operands) -> tuple[Meaning, ...] | None:
        """What the rules say; what no sample passes through is derived, whatever the operator."""
        if all(not isinstance(value, str) or value in self.derived for _, value in operands.values()):
            return (self._derived(call),)
        found = RULES[call.operator](call) if call.operator in RULES else None
        return (found,) if isinstance(found, Meaning) else found

    def _derived(self, call: Call) -> Meaning:
        dims = "".join(BATCH if size and size % self.batch == 0 else WHOLE for size in call.shape)
        operands = {
            name: "".join(BATCH if letter == Dim.N else WHOLE for letter in operand.letters)
            for name, operand in call.operands.items()
        }
        return Meaning(kind=Kind.DERIVED, operands=operands, dims=dims)

    def _opaque(self, name: str, node: fx.Node, call: Call) -> Meaning:
        items = 1
        for size in call.shape:
            items *= size
        per_sample = items % self.batch == 0
        held = units.amount(4 * (items // self.batch if per_sample else items), "B") + " per sample" * per_sample
        self.warnings[name] = (
            f"{name}: slicewise does not know how to slice {node.target}; the layer is replicated and each device "
            f"holds all of its output, {held}"
        )
        return replace(self._derived(call), kind=Kind.OPAQUE)

    def _stays_held(self, node: fx.Node, call: Call, operands: Operands) -> bool:
        """A parameter, buffer or number under another shape is still itself."""
        if not operands and call.operator in _PASS_NUMBERS:
            self.values[node] = self.values[node.all_input_nodes[0]]
            return True
        if len(operands) != 1:
            return False
        ((operand, value),) = operands.values()
        if not isinstance(value, Held) or call.operator not in RULES:
            return False
        kept = [size for size in call.shape if size != 1] == [size for size in operand.shape if size != 1]
        if RULES[call.operator](call) == SAME or (call.operator in VIEWS and kept):
            self.values[node] = replace(value, shape=call.shape)
            return True
        return False

    def _changes_held(self, node: fx.Node) -> bool:
        """num_batches_tracked += 1. Other changes of what a model holds, or of a part of it, would be lost."""
        written = node.args[0]
        value = self.values.get(memory(written)) if isinstance(written, fx.Node) else None
        if not isinstance(value, Held):
            return False
        if not value.name.endswith(_COUNTER):
            raise GraphError(
                f"{node.name}: forward() changes {value.name}; slicewise keeps running statistics of norms only"
            )
        return True

    def _masked(self, mask: Mask) -> tuple[Item, Operands]:
        arguments = {"p": 1 - mask.keep, "scale": mask.scale, "shape": list(mask.shape)}
        this = Item(operator="drop_path", op="slicewise.drop_path", arguments=arguments, operands=("input",))
        return this, {"input": (self._operand(self.values[mask.x]), self.values[mask.x])}

    def _arguments(self, node: fx.Node) -> tuple[dict[str, Any], Operands]:
        """The call's arguments by name, tensors replaced by where they come from."""
        operands: Operands = {}
        inputs = 0
        takes_numbers = operator_name(node)[0] in (*_TAKE_NUMBERS, *_PASS_NUMBERS)

        def reference(name: str, value: Any) -> Any:
            nonlocal inputs
            if isinstance(value, fx.Node):
                source = self.values.get(value)
                if isinstance(source, (int, float)) and takes_numbers:
                    return source
                if isinstance(source, (int, float)):
                    like = value.meta["val"]
                    made = self._constant(value.name, torch.full(like.shape, source, dtype=like.dtype))
                    self.spelled_out.append(made)
                    source = self.values[value] = made.name
                if source is None and value.op == "call_function":
                    raise GraphError(
                        f"{module_path(node)}: forward() takes a number out of a tensor ({value.target}); keep it a "
                        "tensor"
                    )
                if source is None:
                    raise GraphError(f"{node.name} reads a large constant; make it a buffer (register_buffer)")
                operands[name] = (self._operand(source), source)
                if isinstance(source, Held):
                    return source.reference
                inputs += 1
                return {"input": inputs - 1}
            if isinstance(value, (list, tuple)):
                return [reference(f"{name}.{number}", item) for number, item in enumerate(value)]
            if value is None or isinstance(value, (bool, int, float, str)):
                return value
            return str(value)

        assert isinstance(node.target, torch._ops.OpOverload)
        arguments = {}
        for position, argument in enumerate(node.target._schema.arguments):
            if position < len(node.args):
                arguments[argument.name] = reference(argument.name, node.args[position])
            else:
                given = node.kwargs.get(argument.name, argument.default_value)
                arguments[argument.name] = reference(argument.name, given)
        return arguments, operands

    def _operand(self, value: Value) -> Operand:
        if isinstance(value, Held):
            return Operand(value.shape, WHOLE * len(value.shape), value.source)
        assert isinstance(value, str)
        return Operand(self.shapes[value], self.letters[value].replace(BATCH, Dim.N))

    def _add(
        self,
        node: fx.Node | None,
        name: str,
        meaning: Meaning,
        operands: Operands,
        shape: tuple[int, ...],
        options: Mapping[str, Any] | None = None,
    ) -> Layer:
        inputs = {key: value for key, (_, value) in operands.items() if isinstance(value, str)}
        chosen = {**(options or {}), **meaning.options}
        if meaning.statistics:
            chosen["statistics"] = meaning.statistics
        layer = Layer(
            name=name,
            kind=meaning.kind,
            inputs=tuple(inputs.values()),
            input_shapes=tuple(self.shapes[value] for value in inputs.values()),
            input_dims=tuple(meaning.operands[key] for key in inputs),
            shape=shape,
            dims=meaning.dims,
            weights=self._held(Source.WEIGHT, meaning, operands),
            buffers=self._held(Source.BUFFER, meaning, operands),
            windows=dict(meaning.windows),
            options=chosen,
            groups=meaning.groups,
        )
        self._check_batch(layer)
        self.letters[name] = meaning.letters if meaning.letters is not None else meaning.dims
        self.shapes[name] = shape
        if meaning.kind is Kind.DERIVED:
            self.derived.add(name)
        if node is not None:
            self.values[node] = name
        return layer

    def _held(self, source: Source, meaning: Meaning, operands: Operands) -> tuple[Weight, ...]:
        """Parameters, or constants: not a norm's running statistics, which it also writes."""
        found = {
            value.name: Weight(
                name=value.name,
                shape=value.own_shape,
                dims=value.own_dims(meaning.operands[key]),
                trained=value.name in self.trained,
            )
            for key, (_, value) in operands.items()
            if isinstance(value, Held) and value.source is source and not key.startswith("running_")
        }
        return tuple(found.values())

    def _check_batch(self, layer: Layer) -> None:
        """Every size that grows with the batch must be a batch dim, or another batch would be computed wrongly."""
        if sum(letter in (Dim.N, BATCH) for letter in layer.dims) > 1:
            raise BatchMixed(
                f"{layer.name} ({layer.options.get('op', layer.kind)}) compares samples with each other: several of "
                "its dims are the batch, which slicewise cannot follow; do so in the loss, outside of the model"
            )
        for letter, size in zip(layer.dims, layer.shape, strict=True):
            scales = size > 0 and size % self.batch == 0
            if scales != (letter in (Dim.N, BATCH)):
                said = f"a dim of {size // self.batch} x the batch" if scales else f"a dim of {size}"
                raise BatchMixed(
                    f"{layer.name} ({layer.options.get('op', layer.kind)}): {said} mixes the batch with other dims, "
                    "which slicewise cannot follow; keep the batch in a dim of its own, or the first of those merged"
                )
            if layer.kind is Kind.OUTPUT and letter == Dim.N and size != self.batch:
                raise BatchMixed(
                    f"{layer.inputs[0]}: forward() returns a dim of {size // self.batch} x the batch; "
                    "return a dim for the batch alone"
                )

    def _unique(self, name: str) -> str:
        self.names[name] += 1
        return name if self.names[name] == 1 else f"{name}#{self.names[name]}"


def _not_computed(value: Any, source: Value | None) -> dict[str, Any]:
    """What forward() returns beside what it computes of its inputs."""
    if isinstance(source, Held):
        return {"held": source.name}
    return {"held": "a constant"} if isinstance(value, fx.Node) else {"value": value}
