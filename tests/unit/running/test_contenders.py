from torch import nn

from slicewise.running.contenders import blocks


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)


def test_fsdp_groups_weights_by_block_and_looks_into_lists_of_modules() -> None:
    model = nn.Module()
    model.stem = nn.Conv2d(3, 4, 3)
    model.pool = nn.MaxPool2d(2)
    model.body = nn.Sequential(_Block(), nn.ReLU(), nn.Sequential(_Block(), _Block()))
    model.head = nn.Linear(4, 2)
    names = {module: name for name, module in model.named_modules()}
    assert [names[block] for block in blocks(model)] == ["stem", "body.0", "body.2.0", "body.2.1", "head"]


def test_a_single_layer_has_no_blocks_inside() -> None:
    assert blocks(nn.Linear(4, 2)) == []
