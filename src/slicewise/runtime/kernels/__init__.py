"""What one rank computes for each layer: the model's own operators on its part, with the slicing's corrections."""

from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.runtime.kernels.attention import attention
from slicewise.runtime.kernels.calls import Context, Kernel, Pass, plain
from slicewise.runtime.kernels.framing import crop, pad, roll, upsample
from slicewise.runtime.kernels.losses import loss
from slicewise.runtime.kernels.norms import norm
from slicewise.runtime.kernels.pointwise import elementwise
from slicewise.runtime.kernels.pooling import pooling
from slicewise.runtime.kernels.products import convolution, linear
from slicewise.runtime.kernels.repeated import repeated
from slicewise.runtime.kernels.shapes import reduction, view

__all__ = ["Context", "Kernel", "Pass", "compile_kernel"]

_KERNELS = {
    Kind.CONV: convolution,
    Kind.LINEAR: linear,
    Kind.MATMUL: plain,
    Kind.ATTENTION: attention,
    Kind.POOL: pooling,
    Kind.NORM: norm,
    Kind.ELEMENTWISE: elementwise,
    Kind.REDUCE: reduction,
    Kind.LOSS: loss,
    Kind.UPSAMPLE: upsample,
    Kind.CONCAT: plain,
    Kind.ROLL: roll,
    Kind.PAD: pad,
    Kind.CROP: crop,
    Kind.FLATTEN: view,
    Kind.VIEW: view,
    Kind.DERIVED: repeated,
    Kind.OPAQUE: repeated,
}


def compile_kernel(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    if layer.kind in (Kind.INPUT, Kind.OUTPUT, Kind.FORK):
        return lambda inputs: inputs[0]
    return _KERNELS[layer.kind](layer, slicing, context)
