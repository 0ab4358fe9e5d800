"""Whether a model is the one that was captured, without capturing it again.

The fingerprint covers what forward() can depend on: every module's class, code, attributes and mode, and the functions
and constants that the code names. Where it meets anything else (an object of a class it does not know, a module that
is not torch's), there is none, and the model is captured: a doubt costs a second, never a wrong answer.
"""

import builtins
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from slicewise.version import VERSION

_TRUSTED = ("torch", "math", "operator", "itertools", "functools", "collections", "typing")  # known by version
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.memory_format)
_NOT_IN_FORWARD = ("__init__", "__repr__", "extra_repr")


class _Unknown(Exception):
    pass


def fingerprint(model: nn.Module, samples: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> str | None:
    """Equal only where `capture` finds the same; `samples` are shapes without the batch, and dtypes."""
    hashing = _Hashing(model)
    hashing.add(VERSION, torch.__version__, sys.version, *(f"{tuple(shape)} {dtype}" for shape, dtype in samples))
    try:
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
        self._seen: dict[int, int] = {}  # what was hashed already, by its place in the order

    def add(self, *texts: str) -> None:
        for text in texts:
            self.digest.update(f"{len(text)}:{text}".encode())

    def value(self, value: Any) -> None:
        self.add(type(value).__qualname__)
        if isinstance(value, _PLAIN):
            self.add(repr(value))
        elif isinstance(value, nn.Module):
            self.module(value)
        elif isinstance(value, torch.Tensor):
            self._tensor(value)
        elif isinstance(value, Mapping):
            self._each([*value], [*value.values()])
        elif isinstance(value, (list, tuple)):
            self._each(value)
        elif isinstance(value, (set, frozenset)):
            self._each(sorted(value, key=repr))
        else:
            self._code_or_class(value)

    def module(self, module: nn.Module) -> None:
        if id(module) not in self._names:
            raise _Unknown
        self.add("module", self._names[id(module)])
        if self._first_time(module):
            self._class(type(module), without=_NOT_IN_FORWARD)
            self._each(sorted(vars(module)), [value for _, value in sorted(vars(module).items())])

    def _tensor(self, tensor: torch.Tensor) -> None:
        """What a model holds may have any values; what is merely at hand may end up among the constants."""
        if id(tensor) not in self._tensors:
            raise _Unknown
        self.add(self._tensors[id(tensor)], str(tuple(tensor.shape)), str(tensor.dtype), str(tensor.requires_grad))

    def _code_or_class(self, value: Any) -> None:
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.value(value.__self__)
            self._function(value.__func__)
        elif isinstance(value, partial):
            self._each([value.func, value.args, value.keywords])
        elif isinstance(value, (property, staticmethod, classmethod)):
            parts = (getattr(value, name, None) for name in ("fget", "fset", "__func__"))
            self._each([part for part in parts if part is not None])
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType) and value.__name__.split(".")[0] in _TRUSTED:
            self.add(value.__name__)
        elif isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, (ModuleType, type, type(None))):
            self.value(value.__self__)  # a method of something: `table.get`
            self.add(value.__name__)
        elif isinstance(value, (BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)) or (
            inspect.ismethoddescriptor(value) and home.split(".")[0] in (*_TRUSTED, "builtins", "")
        ):
            self.add(home, str(getattr(value, "__qualname__", value)))
        else:
            raise _Unknown

    def _class(self, kind: type, without: Sequence[str] = ()) -> None:
        self.add("class", kind.__module__, kind.__qualname__)
        if kind.__module__.split(".")[0] in (*_TRUSTED, "builtins") or not self._first_time(kind):
            return
        for base in kind.__mro__:
            if base.__module__.split(".")[0] not in (*_TRUSTED, "builtins"):
                for name, value in sorted(vars(base).items()):
                    plain = not name.startswith("__") or isinstance(value, FunctionType)
                    if plain and name not in without and not name.startswith("_abc_"):
                        self.add(name)
                        self.value(value)

    def _function(self, function: Callable[..., Any]) -> None:
        assert isinstance(function, FunctionType)
        if function.__module__ and function.__module__.split(".")[0] in _TRUSTED:
            self.add(function.__module__, function.__qualname__)
            self._each([cell.cell_contents for cell in function.__closure__ or ()])
        elif self._first_time(function):
            self._each([function.__defaults__, function.__kwdefaults__])
            self._each([cell.cell_contents for cell in function.__closure__ or ()])
            self._code(function.__code__, function.__globals__)

    def _code(self, code: CodeType, names: Mapping[str, Any]) -> None:
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

    def _each(self, *groups: Sequence[Any]) -> None:
        for group in groups:
            self.add(str(len(group)))
            for item in group:
                self.value(item)

    def _first_time(self, value: Any) -> bool:
        new = id(value) not in self._seen
        self.add(str(self._seen.setdefault(id(value), len(self._seen))))
        return new
