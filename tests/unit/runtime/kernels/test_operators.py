"""A graph's names are looked up among what computes tensors; a file cannot name anything else."""

import subprocess
import sys

import pytest
import torch

from slicewise.errors import GraphError
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.runtime.kernels.operators import TORCH_LIBRARIES, constant, operator

_ALL_NAMES = (
    "import torch, torch.distributed.tensor, torch.distributed.fsdp, torch.distributed.pipelining\n"
    "names = [*torch._C._dispatch_get_all_op_names(), *(item.name for item in torch._C._jit_get_all_schemas())]\n"
    "print(*{name.split('::')[0] for name in names})"
)


def calling(op: str) -> Layer:
    return Layer(
        name="third", kind=Kind.OPAQUE, inputs=(), input_shapes=(), input_dims=(), shape=(), dims="", options={"op": op}
    )


def test_an_operator_is_found_by_its_name_in_all_its_forms() -> None:
    assert operator(calling("aten.relu.default")) is torch.ops.aten.relu.default
    assert operator(calling("aten.relu.default"), in_place=True) is torch.ops.aten.relu_.default
    assert operator(calling("aten.conv2d.padding"), overload="default") is torch.ops.aten.conv2d.default


@pytest.mark.parametrize(
    "op",
    [
        "prim.Print.default",
        "inductor._reinterpret_tensor.default",
        "load_library.__func__.__call__",
        "__class__.__subclasses__.__call__",
        "aten.__class__.__init__",
        "aten.relu.absent",
        "os.system.x",
        "relu",
        "",
    ],
)
def test_what_does_not_compute_tensors_is_refused_by_name(op: str) -> None:
    with pytest.raises(GraphError, match=r"^third: unknown operator "):
        operator(calling(op))


@pytest.mark.parametrize("op", ["aten.save.default", "aten.from_file.default"])
def test_an_operator_that_opens_files_is_refused(op: str) -> None:
    with pytest.raises(GraphError, match=f"^third: '{op}' opens files, which no layer may"):
        operator(calling(op))


def test_every_library_of_torch_is_known() -> None:
    """A release of torch that brings another one fails here."""
    done = subprocess.run([sys.executable, "-c", _ALL_NAMES], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - TORCH_LIBRARIES == {"aten"}


def test_constants_are_dtypes_layouts_and_memory_formats() -> None:
    assert constant("torch.bfloat16") is torch.bfloat16
    assert constant("torch.strided") is torch.strided
    assert constant("torch.channels_last") is torch.channels_last


@pytest.mark.parametrize("name", ["torch.load", "torch.ops", "torch.os", "torch.absent", "torch.float32.x", "torch."])
def test_no_other_name_of_torch_is_a_constant(name: str) -> None:
    with pytest.raises(GraphError, match=f"unknown constant '{name}'; a graph names dtypes"):
        constant(name)
