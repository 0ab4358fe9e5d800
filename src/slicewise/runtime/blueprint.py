"""The network as the model is now: captured again for samples of other shapes, and when modules change.

A sliced network shows the model's own modules. Their modes (`bn.eval()`), their numbers (`dropout.p = 0.1`) and
`requires_grad` of their weights may change at any time, as in any script; what is executed follows. What cannot be
followed, such as another module, function or buffer in place of one, is refused by name.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from operator import eq, is_
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from slicewise.errors import GraphError, PlanError
from slicewise.graph.alignment import renamed
from slicewise.graph.capture import Sample, capture_as_is
from slicewise.graph.layer_graph import LayerGraph
from slicewise.runtime.devices import rank_device
from slicewise.runtime.kernels.operators import constant
from slicewise.runtime.skeleton import skeleton

Shapes = tuple[tuple[int, ...], ...]
_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
)
_NOT_ITS_OWN = {*vars(nn.Module()), *_HOOKS}  # modes, weights and the like are followed or refused by themselves


@dataclass(frozen=True, slots=True)
class State:
    """What may change about modules without the network becoming another."""

    modes: tuple[bool, ...]
    constants: tuple[Any, ...]
    trained: tuple[bool, ...]

    def since(self, first: "State") -> tuple[Any, ...]:
        """What ranks compare: modes, and numbers that have changed. At first, ranks may have others of no effect."""
        pairs = (
            [] if self.constants == first.constants else enumerate(zip(self.constants, first.constants, strict=True))
        )
        return self.modes, self.trained, [(place, now) for place, (now, before) in pairs if now != before]


class Modules:
    """The visible modules of a sliced network, and whether they still are what is executed."""

    def __init__(self, root: nn.Module, model: nn.Module, of_root: Mapping[str, Any]) -> None:
        """`root`: the network, with the parts of `model`; `of_root`: which of the model's attributes it takes."""
        parts = {name: module for name, module in model.named_modules(remove_duplicate=False) if name}
        self._model, self._of_root = model, tuple(of_root)
        self._modules: dict[str, nn.Module] = {"": root, **parts}
        self._every = list(self._modules.values())
        self._kinds = list(map(type, self._every))
        for name, module in parts.items():
            _refuse_calls(name, module)
        vars(root).update(of_root)
        own = [(vars(root), name, value, name) for name, value in of_root.items()]
        for place, module in parts.items():
            values = vars(module)
            own += [(values, name, values[name], f"{place}.{name}") for name in values if name not in _NOT_ITS_OWN]
        self._constants = [(values, name) for values, name, value, _ in own if _is_plain(value)]
        # lists of numbers may change inside; whatever else there is stays the same object
        self._fixed = [
            (values, name, *((eq, deepcopy(value)) if _is_list(value) else (is_, value)), place)
            for values, name, value, place in own
            if not _is_plain(value)
        ]
        self._names = [name for name, module in self._modules.items() for _ in module._parameters]
        self._children = [(module._modules, tuple(module._modules.values())) for module in self._every]
        self._weights = [
            (module._parameters, [id(parameter) for parameter in module._parameters.values()])
            for module in self._every
            if module._parameters
        ]
        self._buffers = [
            (module._buffers, {buffer: id(tensor) for buffer, tensor in module._buffers.items()}, name)
            for name, module in self._modules.items()
            if module._buffers
        ]

    @property
    def training(self) -> bool:
        """Whether any module is in training mode."""
        return any(module.training for module in self._every)

    def train(self, mode: bool = True) -> None:
        """As the model's own class does it: some keep norms at rest."""
        ours, theirs = vars(self._modules[""]), vars(self._model)
        names = ("training", *self._of_root)
        theirs.update({name: ours[name] for name in names if name in ours})
        self._model.train(mode)
        ours.update({name: theirs[name] for name in names if name in theirs})

    def state(self) -> State:
        """As it is now; a few microseconds for a hundred modules."""
        for now, before in self._children:
            if tuple(now.values()) != before:
                self._refuse_replaced()
        trained: list[bool] = []
        for parameters, ids in self._weights:
            held = parameters.values()
            if [id(parameter) for parameter in held] != ids:
                self._refuse_replaced()
            trained += [parameter.requires_grad for parameter in held if parameter is not None]
        for values, attribute, same, before, place in self._fixed:
            if not same(values.get(attribute), before):
                self._refuse(place)
        for buffers, known, place in self._buffers:
            for name, tensor in buffers.items():
                if known.get(name) != id(tensor):
                    self._refuse(f"{place}.{name}".removeprefix("."))
        if list(map(type, self._every)) != self._kinds:
            kinds = zip(self._modules.items(), self._kinds, strict=True)
            self._refuse(f"the class of {next(name for (name, module), kind in kinds if type(module) is not kind)}")
        return State(
            tuple([module.training for module in self._every]),
            tuple([values.get(attribute) for values, attribute in self._constants]),
            tuple(trained),
        )

    def __getitem__(self, name: str) -> nn.Module:
        return self._modules[name]

    def apply(self, state: State, bare: nn.Module) -> None:
        """Put `bare`, which has the same modules, into a state."""
        others = dict(bare.named_modules(remove_duplicate=False))
        for name, mode in zip(self._modules, state.modes, strict=True):
            others[name].training = mode
        places = {id(vars(module)): name for name, module in self._modules.items()}
        for (values, attribute), value in zip(self._constants, state.constants, strict=True):
            others[places[id(values)]].__dict__[attribute] = value

    def _refuse_replaced(self) -> NoReturn:
        for (now, before), name in zip(self._children, self._modules, strict=True):
            for child, module in zip(now, before, strict=False):
                if now[child] is not module:
                    self._refuse(f"{name}.{child}" if name else child)
            if len(now) != len(before):
                self._refuse(name or "the network")
        weights = [name for name, module in self._modules.items() if module._parameters]
        for (parameters, ids), name in zip(self._weights, weights, strict=True):
            if [id(parameter) for parameter in parameters.values()] != ids:
                self._refuse(f"a weight of {name or 'the network'}")
        raise AssertionError("nothing was replaced")

    def _refuse(self, what: str) -> NoReturn:
        raise PlanError(f"{what} was replaced after parallelize, which would not run; change the model before")


def _is_plain(value: Any) -> bool:
    """Numbers, text, and tuples of them."""
    return (
        value is None
        or isinstance(value, (bool, int, float, str))
        or (isinstance(value, tuple) and all(map(_is_plain, value)))
    )


def _is_list(value: Any) -> bool:
    """Lists, sets and tables of plain values."""
    if type(value) in (list, set, tuple):
        return all(_is_plain(item) or _is_list(item) for item in value)
    return type(value) is dict and all(_is_plain(item) or _is_list(item) for item in (*value, *value.values()))


class Blueprint:
    """Captures the model again when shapes or modules change; no memory lies behind its copy of the model."""

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        modules: Modules,
        adapt: Callable[[LayerGraph], LayerGraph],
    ) -> None:
        """`graph`: the model as `capture` found it; `adapt`: what the plan makes of a captured graph."""
        self._bare = bare(model)
        self._first, self._modules, self._adapt = graph, modules, adapt

    def graph(self, shapes: Shapes, state: State) -> LayerGraph:
        """Its layers have the names of the first graph's wherever they are the same."""
        self._modules.apply(state, self._bare)
        try:
            again = capture_as_is(self._bare, samples(self._bare, self._first, shapes), name=self._first.name)
        except GraphError as error:
            raise PlanError(f"the network does not take samples of shape {[s[1:] for s in shapes]}: {error}") from error
        return self._adapt(renamed(again, self._first))


def bare(model: nn.Module) -> nn.Module:
    """The model without memory behind its tensors, which say that they are where they were: forward() may ask."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    tensors: dict[int, Tensor] = {id(own): fake.from_tensor(own) for own in (*model.parameters(), *model.buffers())}
    return skeleton(model, tensors)


def samples(model: nn.Module, graph: LayerGraph, shapes: Shapes | None = None) -> Sample:
    """Inputs of the graph's shapes or others, without memory behind them, as the model takes them."""
    weights = [weight for weight in model.parameters() if weight.is_floating_point()]
    dtype, device = (weights[0].dtype, weights[0].device) if weights else (torch.float32, rank_device())
    made = {}
    for layer, shape in zip(graph.inputs, shapes or [layer.shape for layer in graph.inputs], strict=True):
        captured = constant(str(layer.options.get("dtype", dtype)))
        given = captured if isinstance(captured, torch.dtype) and not captured.is_floating_point else dtype
        made[layer.name] = torch.empty((), dtype=given, device=device).expand(shape)
    return made if len(made) > 1 else tuple(made.values())


def with_trained(graph: LayerGraph, trained: Mapping[str, bool]) -> LayerGraph:
    """The graph whose weights are trained or frozen as given."""
    layers = tuple(
        replace(layer, weights=tuple(replace(weight, trained=trained[weight.name]) for weight in layer.weights))
        for layer in graph
    )
    return replace(graph, layers=layers)


def _refuse_calls(name: str, module: nn.Module) -> None:
    """A part by itself would compute with slices of its weights; hooks on it would never run."""

    def called(*_: Any, **__: Any) -> NoReturn:
        raise PlanError(f"{name} is a part of a sliced network and cannot be called by itself; call the network")

    def hooked(*_: Any, **__: Any) -> NoReturn:
        raise PlanError(
            f"{name} is a part of a sliced network, where hooks do not run; hook the network, or its output"
        )

    vars(module).update(forward=called, **dict.fromkeys(_HOOKS, hooked))
