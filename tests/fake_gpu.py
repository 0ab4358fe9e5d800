"""A device that is not the CPU, for machines without one: shapes, strides and storages, but no content.

A backend of torch's private-use device, written in Python: every operator runs on "meta" tensors. What a GPU does not
do, it does not do either: a tensor of the host beside one of the device is refused. Between `hot()` and its end, so is
whatever would make the host wait: reading a value, copying to or from the host's memory, shapes that depend on values.
"""

import ctypes
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import FakeWork, Work
from torch._C._dynamo import guards
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed import fake_pg
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NAME = "fakegpu"
_aten = torch.ops.aten
_READS = (_aten._local_scalar_dense.default, _aten.equal.default, _aten.is_nonzero.default)
_COUNTS = (_aten.nonzero.default, _aten.masked_select.default, _aten._unique2.default, _aten.repeat_interleave.Tensor)
# What torch asks of a backend that brings its own, and what stands for it on "meta".
_OWN: dict[Any, Callable[..., Any]] = {
    _aten.convolution_overrideable.default: _aten.convolution.default,
    _aten.convolution_backward_overrideable.default: lambda dy, x, w, *rest: _aten.convolution_backward.default(
        dy, x, w, [dy.shape[1]], *rest
    ),
    _aten.batch_norm_update_stats.default: lambda x, *_: (x.new_empty(x.shape[1]), x.new_empty(x.shape[1])),
}
_library = torch.library.Library("_", "IMPL")
_operators = torch.library.Library("aten", "IMPL")
_collectives = torch.library.Library("c10d", "IMPL")
_KEY: Any = torch._C._parse_dispatch_key("AutocastPrivateUse1")
_AUTOCAST = torch._C.DispatchKeySet(_KEY)
_STATE = torch.zeros(16, dtype=torch.uint8)  # of a generator: the host keeps it
_viewed: Callable[..., Tensor] = getattr(guards, "_reinterpret_tensor")  # noqa: B009 (mypy does not know it)
_is_hot = False
_EXT_DEV = 12
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Synchronisation(AssertionError):
    """The host would wait for the device."""


class WrongDevice(AssertionError):
    """A tensor was made on another device than the network's."""


class _Module(_DummyBackendModule):
    """`torch.fakegpu`."""

    def set_device(self, device: object) -> None:
        pass

    def get_rng_state(self, device: object = None) -> Tensor:
        return _STATE

    def set_rng_state(self, state: Tensor, device: object = None) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def install() -> None:
    """Once per process, which then has an accelerator: in a process of its own."""
    _setup_privateuseone_for_python_backend(rename=NAME, backend_module=_Module())
    _library.fallback(_run, "PrivateUse1")
    _library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in ("convolution", "conv2d", "conv3d", "linear", "matmul", "scaled_dot_product_attention"):
        operator = getattr(_aten, name).default
        _operators.impl(name, lambda *args, _op=operator, **named: _cast(_op, *args, **named), "AutocastPrivateUse1")
    for name in ("convolution_overrideable", "convolution_backward_overrideable"):
        overload = getattr(_aten, name).default
        _operators.impl(name, lambda *args, _op=overload, **named: _run(_op, *args, **named), "PrivateUse1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fake group's own looks at what is sent
        _collectives.impl("alltoall_base_", _sent, "PrivateUse1")
    dist.Backend.backend_capability["fake"] = [*dist.Backend.backend_capability["fake"], NAME]
    dist.Backend.default_device_backend_map[NAME] = "fake"


def _cast(func: Any, *args: Any, **kwargs: Any) -> Any:
    """What autocast does to products."""
    narrow = torch.get_autocast_dtype(NAME)

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(narrow) if tensor.is_floating_point() else tensor

    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return func(*tree_map_only(Tensor, cast, args), **tree_map_only(Tensor, cast, kwargs))


def _sent(*_: Any, **__: Any) -> Any:
    return Work.boxed(FakeWork())


@contextmanager
def rank_of(rank: int, ranks: int) -> Iterator[None]:
    """A process group that sends nothing."""
    dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def hot() -> Iterator[None]:
    """Everything inside must neither wait for the device nor make tensors elsewhere."""
    global _is_hot
    _is_hot = True
    try:
        with _NothingElsewhere():
            yield
    finally:
        _is_hot = False


class _NothingElsewhere(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.device.type == "cpu":
                raise WrongDevice(f"{func} made a tensor of the host, {tuple(tensor.shape)}")
        return result


def _run(func: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if func is _aten._copy_from.default:
        if _is_hot and any(tensor.device.type == "cpu" for tensor in tensors):
            raise Synchronisation(f"a copy between the host and the device, {_spelled(tensors)}")
        return args[1]
    for tensor in tensors:
        if tensor.device.type not in (NAME, "meta") and tensor.dim() > 0:
            raise WrongDevice(f"{func} on {_spelled(tensors)}")
    if _is_hot and func in (*_READS, *_COUNTS):
        raise Synchronisation(f"{func} on {_spelled(tensors)}")
    if func is _aten._fused_sdp_choice.default:
        return 0
    metas: dict[int, Tensor] = {}

    def swap(tensor: Tensor) -> Tensor:
        return metas.setdefault(id(tensor), _meta(tensor))

    given, named = tree_map_only(Tensor, swap, (list(args), dict(kwargs)))
    to = named.get("device")
    if to is not None:
        named["device"] = torch.device("meta")
    result = _OWN.get(func, func)(*given, **named)
    for tensor in tensors:
        meta = metas[id(tensor)]
        if meta.shape != tensor.shape and tensor.device.type == NAME:  # an output that is made as it is filled
            tensor.data = _real(meta)
    device = torch.device(to) if to is not None else None
    return _wrapped(func, result, args, kwargs, device)


def _wrapped(func: Any, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: Any) -> Any:
    """Written arguments are returned as they are, views share their storage, the rest is new."""
    by_name = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | dict(
        kwargs
    )
    written: dict[frozenset[str], Any] = {}
    viewed: dict[frozenset[str], Any] = {}
    for argument in func._schema.arguments:
        if argument.alias_info is not None and argument.name in by_name:
            kind = written if argument.alias_info.is_write else viewed
            kind[frozenset(argument.alias_info.before_set)] = by_name[argument.name]
    results = list(result) if isinstance(result, (tuple, list)) and len(func._schema.returns) > 1 else [result]
    made = []
    for one, returned in zip(results, func._schema.returns, strict=False):
        sets = frozenset(returned.alias_info.before_set) if returned.alias_info is not None else None
        if sets is not None and sets in written:
            made.append(written[sets])
        else:
            base = viewed.get(sets) if sets is not None else None
            made.append(tree_map_only(Tensor, partial(_real, base=base, device=device), one))
    if not func._schema.returns:
        return None
    return made[0] if len(func._schema.returns) == 1 else tuple(made)


def _meta(tensor: Tensor) -> Tensor:
    if tensor.device.type == "meta":
        return tensor
    if tensor.device.type == "cpu" and tensor.dim() == 0:
        return tensor
    meta = torch.empty(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=tensor.dtype, device="meta")
    return meta.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _real(meta: Tensor, base: Tensor | None = None, device: torch.device | None = None) -> Tensor:
    if device is not None and device.type != NAME:
        return torch.zeros(meta.shape, dtype=meta.dtype, device=device)
    new = base if base is not None else _allocated(meta)
    offset = meta.storage_offset() - new.storage_offset() if base is not None else 0
    return _viewed(new, meta.shape, meta.stride(), offset)


def _allocated(meta: Tensor) -> Tensor:
    """Memory of the host, which nobody reads, handed over as the device's: DLPack calls such a device "ExtDev"."""
    items = 1 + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.stride(), strict=True))
    capsule = torch._C._to_dlpack(torch.empty(items if meta.numel() else 0, dtype=meta.dtype))
    address = _pointer(capsule, b"dltensor")
    ctypes.c_int32.from_address(address + ctypes.sizeof(ctypes.c_void_p)).value = _EXT_DEV
    return torch.utils.dlpack.from_dlpack(capsule)


def _spelled(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{tuple(tensor.shape)} on {tensor.device.type}" for tensor in tensors)
