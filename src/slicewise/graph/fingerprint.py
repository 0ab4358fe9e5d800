"""Whether a model is the one that was captured, without capturing it again.

The fingerprint covers what forward() can depend on: every module's class, code, attributes and mode, and the functions
and constants that the code names. Where it meets anything else (an object of a class it does not know, a module that
is not torch's, an import inside a function, `globals()`), there is none, and the model is captured: a doubt costs a
second, never a wrong answer.
"""

import builtins
import dis
import hashlib
import sys
from abc import ABCMeta
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch
from torch import nn

from slicewise.version import VERSION

_TRUSTED = ("torch", "math", "operator", "itertools", "functools", "collections", "typing")  # known by version
# exactly these: a class below one of them may have attributes and methods of its own
_PLAIN = (type(None), bool, int, float, complex, str, bytes, EllipsisType)
_OF_TORCH = (torch.dtype, torch.device, torch.memory_format, torch.layout)
_TABLES = (dict, OrderedDict, MappingProxyType)
_NOT_IN_FORWARD = ("__init__", "__repr__", "extra_repr")
# what lies anywhere, by a name that is made while forward() runs
_REACH_ANYWHERE = {"globals", "vars", "locals", "eval", "exec", "compile", "open", "__import__"}
_REACH_ANYWHERE |= {"__globals__", "__builtins__", "__subclasses__", "__closure__", "__code__", "backends"}
_TELL_DEVICES = {"device", "is_cuda", "is_cpu", "is_meta", "is_available", "device_count", "get_device"}


class _Unknown(Exception):
    pass


def fingerprint(model: nn.Module, samples: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> str | None:
    """Equal only where `capture` finds the same; `samples` are shapes without the batch, and dtypes."""
    hashing = _Hashing(model)
    hashing.add(VERSION, torch.__version__, sys.version, *(f"{tuple(shape)} {dtype}" for shape, dtype in samples))
    hashing.add(str(torch.get_default_dtype()), str(torch.are_deterministic_algorithms_enabled()))
    try:
        if nn.modules.module._has_any_global_hook():
            raise _Unknown
        hashing.module(model)
    except _Unknown:
        return None
    return hashing.digest.hexdigest()


class _Hashing:
    def __init__(self, model: nn.Module) -> None:
        self.digest = hashlib.sha256()
        self._names = {id(module): name for name, module in model.named_modules()}
        tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        self._tensors: dict[int, str] = {}
        for name, tensor in tensors:
            self._tensors.setdefault(id(tensor), name)
        self._devices = sorted({tensor.device.type for _, tensor in tensors})
        self._seen: dict[int, int] = {}  # what was hashed already, by its place in the order

    def add(self, *texts: str) -> None:
        for text in texts:
            self.digest.update(f"{len(text)}:{text}".encode())

    def value(self, value: Any) -> None:
        kind = type(value)
        self.add(kind.__qualname__)
        if kind in _PLAIN or kind in _OF_TORCH:
            self.add(repr(value))
        elif isinstance(value, nn.Module):
            self.module(value)
        elif isinstance(value, torch.Tensor):
            self._tensor(value)
        elif kind in _TABLES:
            self._each([*value], [*value.values()])
        elif kind in (list, tuple, torch.Size):
            self._each(value)
        elif kind in (set, frozenset):
            self._each(sorted(value, key=repr))
        else:
            self._code_or_class(value)

    def module(self, module: nn.Module) -> None:
        if id(module) not in self._names:
            raise _Unknown
        self.add("module", self._names[id(module)])
        if self._first_time(module):
            self._class(type(module), without=_NOT_IN_FORWARD)
            self._attributes(vars(module))

    def _tensor(self, tensor: torch.Tensor) -> None:
        """What a model holds may have any values; what is merely at hand may end up among the constants."""
        if id(tensor) not in self._tensors:
            raise _Unknown
        self.add(self._tensors[id(tensor)], str(tuple(tensor.shape)), str(tensor.dtype), str(tensor.requires_grad))
        if self._first_time(tensor):
            self._class(type(tensor))
            self._attributes(vars(tensor))

    def _code_or_class(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.value(value.__self__)
            self.value(value.__func__)
        elif type(value) is partial:
            self._each([value.func, value.args, value.keywords])
        elif type(value) in (property, staticmethod, classmethod):
            parts = (getattr(value, name, None) for name in ("fget", "fset", "__func__"))
            self._each([part for part in parts if part is not None])
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType) and _trusted(value.__name__):
            self.add(value.__name__)
        elif isinstance(value, BuiltinFunctionType):
            self._builtin(value)
        elif isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            self.add(str(value))
        elif isinstance(value, (MethodDescriptorType, WrapperDescriptorType)):
            self._class(value.__objclass__)
            self.add(value.__name__)
        else:
            raise _Unknown

    def _builtin(self, value: BuiltinFunctionType) -> None:
        """`math.sqrt`, `torch.relu`, or a method of something: `table.get`."""
        owner = value.__self__
        home = owner.__name__ if isinstance(owner, ModuleType) else value.__module__ or ""
        if owner is not None and not isinstance(owner, (ModuleType, type)):
            self.value(owner)
        elif value.__name__ in _REACH_ANYWHERE or not (isinstance(owner, type) or _trusted(home)):
            raise _Unknown
        self.add(home, value.__qualname__)

    def _class(self, kind: type, without: Sequence[str] = ()) -> None:
        self.add("class", kind.__module__, kind.__qualname__)
        if _trusted_class(kind) or not self._first_time(kind):
            return
        if type(kind) is not ABCMeta and not _trusted_class(type(kind)):
            raise _Unknown
        for base in kind.__mro__:
            if not _trusted_class(base):
                for name, value in sorted(vars(base).items()):
                    plain = not name.startswith("__") or isinstance(value, FunctionType)
                    if plain and name not in without and not name.startswith("_abc_"):
                        self.add(name)
                        self.value(value)

    def _function(self, function: FunctionType) -> None:
        # not by `__module__`, which functools.wraps takes from another function
        home = str(function.__globals__.get("__name__", ""))
        if not self._first_time(function):
            return
        self._attributes(vars(function))
        self._each([cell.cell_contents for cell in function.__closure__ or ()])
        if _trusted(home):
            self.add(home, function.__code__.co_qualname)
        else:
            self._each([function.__defaults__, function.__kwdefaults__])
            self._code(function.__code__, function.__globals__)

    def _code(self, code: CodeType, names: Mapping[str, Any]) -> None:
        if any(instruction.opname == "IMPORT_NAME" for instruction in dis.get_instructions(code)):
            raise _Unknown
        if not _REACH_ANYWHERE.isdisjoint(code.co_names):
            raise _Unknown
        if not _TELL_DEVICES.isdisjoint(code.co_names):
            self.add(*self._devices)
        self.digest.update(code.co_code)
        self.add(*code.co_names, *code.co_varnames)
        for name in code.co_names:
            if name in names:
                self.value(names[name])
            elif not hasattr(builtins, name):
                self.add(name)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, names)
            else:
                self.value(constant)

    def _attributes(self, values: Mapping[str, Any]) -> None:
        self._each(sorted(values), [value for _, value in sorted(values.items())])

    def _each(self, *groups: Sequence[Any]) -> None:
        for group in groups:
            self.add(str(len(group)))
            for item in group:
                self.value(item)

    def _first_time(self, value: Any) -> bool:
        new = id(value) not in self._seen
        self.add(str(self._seen.setdefault(id(value), len(self._seen))))
        return new


def _trusted(home: str) -> bool:
    """Modules by their names; some are written in C below an underscore."""
    return home.split(".")[0].removeprefix("_") in (*_TRUSTED, "builtins")


def _trusted_class(kind: type) -> bool:
    """Whether it is what its module has under its name: anybody may write a `__module__`."""
    found: Any = sys.modules.get(kind.__module__) if _trusted(kind.__module__) else None
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind
