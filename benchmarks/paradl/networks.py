"""Networks as they were measured, where they are not the zoo's; `python -m benchmarks.paradl.networks` captures again.

VGG-16 was run on samples of 226 x 226 with pooling that covers the last row: 8 x 8 positions reach the first linear
layer, not 7 x 7, which is 31 million weights more (the authors' own layer table has them).
"""

import argparse
from pathlib import Path

from slicewise.graph.layer_graph import LayerGraph

DATA = Path(__file__).parent / "data"
_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # width, convolutions


def graphs() -> dict[str, LayerGraph]:
    return {"vgg16": LayerGraph.load(DATA / "vgg16.json")}


def capture_vgg16() -> LayerGraph:
    import torch
    from torch import nn

    from slicewise.graph.capture import capture

    with torch.device("meta"):
        layers: list[nn.Module] = []
        channels = 3
        for width, count in _BLOCKS:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        layers += [nn.Flatten(), nn.Linear(512 * 8 * 8, 4096), nn.ReLU(), nn.Dropout()]
        layers += [nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 1000)]
        return capture(nn.Sequential(*layers), torch.zeros(2, 3, 226, 226), name="vgg16")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    capture_vgg16().save(DATA / "vgg16.json")


if __name__ == "__main__":
    main()
