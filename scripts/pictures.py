"""The drawings of docs/concepts.md, docs/images/cut-*.svg: a layer cut by each dim. `python scripts/pictures.py`."""

from pathlib import Path

import slicewise as sw
from slicewise.cluster.mesh import Mesh
from slicewise.figures.cuts import cut_figure
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.saving import write_file

IMAGES = Path(__file__).parents[1] / "docs/images"
CONVOLUTION = "features.3"  # of AlexNet: 5 x 5, so that a border is seen
ATTENTION = "encoder.layers.encoder_layer_0.self_attention.scaled_dot_product_attention"  # of ViT-B/16
BATCH = 8


def pictures() -> dict[str, str]:
    """File name -> SVG."""
    pair, four = Mesh.of({"device": 2}), Mesh.of({"node": 2, "device": 2})
    alexnet, vit = (sw.load_graph(name).with_batch(BATCH) for name in ("alexnet", "vit_b_16"))
    cuts: dict[str, tuple[Layer, Slicing, Mesh]] = {
        dim.value.lower(): (alexnet[CONVOLUTION], (dim,), pair) for dim in (Dim.N, Dim.F, Dim.C, Dim.H)
    }
    cuts["nf"] = (alexnet[CONVOLUTION], (Dim.N, Dim.F), four)
    cuts["heads"] = (vit[ATTENTION], (Dim.A,), pair)
    cuts["queries"] = (vit[ATTENTION], (Dim.Q,), pair)
    return {f"cut-{name}.svg": cut_figure(layer, slicing, mesh) for name, (layer, slicing, mesh) in cuts.items()}


def main() -> None:
    for name, text in pictures().items():
        write_file(IMAGES / name, text)


if __name__ == "__main__":
    main()
