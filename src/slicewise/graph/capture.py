"""nn.Module -> LayerGraph, by torch.export."""

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from io import StringIO
from typing import Any

import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode

from slicewise.errors import GraphError
from slicewise.graph.batch_numbers import constants
from slicewise.graph.concats import pairwise_concats
from slicewise.graph.empties import leave_out_empties
from slicewise.graph.fingerprint import fingerprint
from slicewise.graph.forks import alive, with_forks, with_shared_weights
from slicewise.graph.kind import Kind
from slicewise.graph.known_branches import KnownBranches
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.multihead import batch_kept_apart
from slicewise.graph.own_gradients import no_own_gradients
from slicewise.graph.refusals import reason
from slicewise.graph.regions import inline_regions
from slicewise.graph.returns import Returns
from slicewise.graph.tracer import BatchMixed, Tracer
from slicewise.graph.untouched import Untouched
from slicewise.graph.writes import write_new_tensors

Sample = torch.Tensor | tuple[Any, ...] | Mapping[str, Any]

# Captured with this many samples: a prime, so that its multiples are the batch's doing. Those that a weight's size or a
# constant is a multiple of are passed over; a layer may be as wide as a multiple of one, but hardly of the next too.
_PROBES = (211, 223, 227, 229, 233, 239, 241, 251)
_FEW = 2  # as many as norms need


class OpaqueLayerWarning(UserWarning):
    """A layer that slicewise cannot slice: it is replicated, which is correct but saves nothing."""


def capture(model: nn.Module, sample: Sample, *, name: str = "model") -> LayerGraph:
    """The layers of `model` as run in training mode on `sample`; weights are not read.

    Several inputs are a tuple, or a dict by the names that forward() gives them. Outputs that are tuples, dicts or
    dataclasses (registered by `torch.export.register_dataclass`) become one output layer per tensor.

    >>> graph = capture(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), torch.zeros(2, 3, 16, 16))
    >>> [layer.name for layer in graph]
    ['input', '0', '1', 'output']
    """
    # a model in training mode keeps the modes of its parts: a frozen norm stays frozen
    if model.training:
        return capture_as_is(model, sample, name=name)
    return capture_all_training(model, sample, name=name)


def capture_all_training(model: nn.Module, sample: Sample, *, name: str = "model") -> LayerGraph:
    """The layers of `model` with all of its modules in training mode."""
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        return capture_as_is(model, sample, name=name)
    finally:
        for module, mode in modes.items():
            module.training = mode


def capture_as_is(model: nn.Module, sample: Sample, *, name: str = "model") -> LayerGraph:
    """The layers of `model` in the modes that its modules are in: dropout and norms rest where they are in eval."""
    with Untouched(model, name) as watched:
        sizes = {size for tensor in (*model.parameters(), *model.buffers()) for size in tensor.shape}
        probes = _apart_from(sizes)
        graph, probe = _captured(model, sample, name, probes)
        if watched.changed() and _captured(model, sample, name, probes)[0].layers != graph.layers:
            raise watched.refusal()
    with Untouched(model, name):
        known = constants(model, name, [(count, *_probe(model, sample, count)) for count in (_PROBES[0], _FEW)])
        if any(number and number % probe == 0 for number in known):  # it was taken for the batch
            graph, _ = _captured(model, sample, name, _apart_from(sizes | known))
    tensors = [x for x in (*_split(sample)[0], *_split(sample)[1].values()) if isinstance(x, torch.Tensor)]
    return replace(graph, fingerprint=fingerprint(model, [(tuple(x.shape[1:]), x.dtype) for x in tensors]))


def _apart_from(numbers: Iterable[int]) -> Sequence[int]:
    """Two numbers of samples that none of `numbers` is a multiple of."""
    known = {number for number in numbers if number}
    apart = [probe for probe in _PROBES if not any(number % probe == 0 for number in known)]
    return [*apart, *(probe for probe in _PROBES if probe not in apart)][:2]


def _split(sample: Sample) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs by position, and by name."""
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return sample if isinstance(sample, tuple) else (sample,), {}


def _captured(model: nn.Module, sample: Sample, name: str, probes: Sequence[int]) -> tuple[LayerGraph, int]:
    """And the number of samples that it was captured with."""
    given, named = _split(sample)
    tensors = [x for x in (*given, *named.values()) if isinstance(x, torch.Tensor)]
    if not tensors or not tensors[0].shape:
        raise GraphError(f"{name}: the sample has no tensor with a batch in its first dim")
    for probe in probes:
        program = _export(model, *_probe(model, sample, probe), name)
        inline_regions(program.graph_module)
        write_new_tensors(program.graph)
        leave_out_empties(program.graph)
        tracer = Tracer(program, batch=probe, trained=_trained(model), names=first_names(model))
        try:
            layers = with_forks(with_shared_weights(pairwise_concats(alive(tracer.layers()))))
            break
        except BatchMixed:
            if probe == probes[-1]:
                raise
    if not any(layer.kind is Kind.OUTPUT for layer in layers):
        raise GraphError(f"{name}: forward() returns no tensor that it computes")
    for text in (tracer.warnings[layer.name] for layer in layers if layer.name in tracer.warnings):
        warnings.warn(text, OpaqueLayerWarning, stacklevel=2)
    graph = LayerGraph(
        name=name,
        layers=tuple(layers),
        returns=Returns.of(program.call_spec.out_spec, tracer.returned),
    )
    return graph.with_batch(tensors[0].shape[0]), probe


def _probe(model: nn.Module, sample: Sample, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The sample with another number of samples, and no memory behind its tensors: they may be large."""
    given = _split(sample)
    batch = next(x.shape[0] for x in (*given[0], *given[1].values()) if isinstance(x, torch.Tensor))
    held = [*model.parameters(), *model.buffers()]  # of a bare model, without memory too
    with detect_fake_mode(held) or FakeTensorMode(allow_non_fake_inputs=True):
        probed: tuple[tuple[Any, ...], dict[str, Any]] = torch.utils._pytree.tree_map_only(
            torch.Tensor,
            lambda x: torch.empty(
                (count, *x.shape[1:]) if x.shape[:1] == (batch,) else x.shape, dtype=x.dtype, device=x.device
            ),
            given,
        )
    return probed


def _export(model: nn.Module, given: Any, named: Any, name: str) -> torch.export.ExportedProgram:
    try:
        with warnings.catch_warnings(), _quiet(), batch_kept_apart(), no_own_gradients(), KnownBranches():
            warnings.simplefilter("ignore")  # what forward() warns of, it will say again when it runs
            return torch.export.export(model, given, named)
    except (Exception, SystemExit) as error:  # forward() may call exit()
        raise GraphError(f"{name}: {reason(error, (*given, *named.values()))}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """What torch logs and prints about a model it cannot take, the error says in our words."""
    logs = [logging.getLogger(name) for name in ("torch.fx", "torch._subclasses.fake_tensor")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _trained(model: nn.Module) -> set[str]:
    return {weight for weight, parameter in model.named_parameters() if parameter.requires_grad}


def first_names(model: nn.Module) -> dict[str, str]:
    """Every name of a parameter or buffer -> the one that named_parameters() and named_buffers() give it."""
    first: dict[int, str] = {}
    names = {}
    for held in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
        for name, tensor in held:
            names[name] = first.setdefault(id(tensor), name)
    return names
