"""Attention: torch's own kernel on the rank's queries and heads; with some of the keys, its share of the whole."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing, layouts, ring_axes, statistics_axes
from slicewise.partition.parts import box
from slicewise.runtime.devices import seeded
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, part_number, stream
from slicewise.runtime.keys import KeyParts, attention_share
from slicewise.runtime.rings import Ring, Scoring, ring_attention


def attention(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Some of the queries: what each may see of the past is spelled out. Scores are dropped as a dropout drops."""
    if statistics_axes(layer, slicing):
        return _by_key(layer, slicing, context)
    if ring_axes(layer, slicing):
        return _passed_round(layer, slicing, context)
    call, values = caller(layer), bound(layer, slicing, context)
    arguments = layer.options["arguments"]
    past = _past(layer, slicing, context) if arguments["is_causal"] and Dim.Q in slicing else None
    drops = float(arguments["dropout_p"]) > 0
    number = stream(layer.name, part_number(slicing, layer.dims, context.groups))

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        if past is not None:
            given.update(attn_mask=past, is_causal=False)
        if not drops:
            return call(given)
        if not context.training():
            return call({**given, "dropout_p": 0.0})
        with seeded(context.device, context.drawn(number)):
            return call(given)

    return kernel


def _by_key(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The summand of the rank's keys."""
    values, arguments = bound(layer, slicing, context), layer.options["arguments"]
    axes = statistics_axes(layer, slicing)
    parts = KeyParts(layer=layer.name, group=context.groups.of(axes), ranks=context.groups.mesh.group_size(axes))
    past = _past(layer, slicing, context) if arguments["is_causal"] else None
    probability = float(arguments["dropout_p"])
    number = stream(layer.name, part_number(slicing, layer.dims + Dim.K, context.groups))

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        query, key, value = given["query"], given["key"], given["value"]
        if given["enable_gqa"]:  # each key serves several heads in a row
            key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
        scale = given["scale"] if given["scale"] is not None else query.shape[-1] ** -0.5
        bias = _added(past if past is not None else given["attn_mask"], query)
        kept = None
        if probability > 0 and context.training():
            kept = query.new_empty(*query.shape[:-1], key.shape[-2])
            kept = kept.bernoulli_(1 - probability, generator=context.generator(number)).div_(1 - probability)
        return attention_share(query, key, value, bias, scale, kept, parts)

    return kernel


def _passed_round(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The rank's queries and all keys, part by part."""
    values, arguments = bound(layer, slicing, context), layer.options["arguments"]
    groups, placed, axes = context.groups, layouts(layer, slicing), ring_axes(layer, slicing)
    members = groups.members(axes)
    held = (box(layer.input_shapes[1], placed.inputs[1], groups.mesh, rank) for rank in members)
    ring = Ring(
        layer=layer.name,
        group=groups.of(axes),
        me=members.index(groups.rank),
        parts=tuple(own[-2] for own in held),
    )
    queries = context.output_box(layer, slicing)[-2]
    probability = float(arguments["dropout_p"])
    part = part_number(slicing, layer.dims, groups) * len(members)
    numbers = [stream(layer.name, part + block) for block in range(len(members))]

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        query, key, value = given["query"], given["key"], given["value"]
        scoring = Scoring(
            scale=given["scale"] if given["scale"] is not None else query.shape[-1] ** -0.5,
            heads=query.shape[-3] // key.shape[-3] if given["enable_gqa"] else 1,
            queries=queries,
            causal=bool(arguments["is_causal"]),
            dropout=probability if context.training() else 0.0,
            seeds=tuple(context.drawn(number) for number in numbers),
        )
        return ring_attention(query, key, value, _added(given["attn_mask"], query), scoring, ring)

    return kernel


def _added(mask: Any, query: Tensor) -> Tensor | None:
    """A mask of what may be seen, as what is added to the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask  # type: ignore[no-any-return]
    return query.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)


def _past(layer: Layer, slicing: Slicing, context: Context) -> Tensor:
    """Query q looks at the keys 0 .. q; of the rank's queries and keys."""
    mesh, rank, placed = context.groups.mesh, context.groups.rank, layouts(layer, slicing)
    queries = torch.arange(*context.output_box(layer, slicing)[-2], device=context.device)
    keys = torch.arange(*box(layer.input_shapes[1], placed.inputs[1], mesh, rank)[-2], device=context.device)
    return keys <= queries[:, None]
