import torch
from torch import nn

from slicewise.runtime.memory import peak_bytes

CPU = torch.device("cpu")
ITEMS, BYTES = 1000, 4000


def test_what_is_let_go_makes_room_for_what_comes() -> None:
    x = torch.randn(ITEMS)

    def step() -> None:
        y = x * 2
        z = y + 1  # x, y, z: the peak
        del y
        z = z * z
        del z

    assert peak_bytes(step, [x], CPU) == 3 * BYTES


def test_views_share_the_bytes_of_what_they_look_at() -> None:
    x = torch.randn(ITEMS)
    assert peak_bytes(lambda: x.view(10, 100)[3:].t(), [x], CPU) == BYTES


def test_what_autograd_keeps_is_alive() -> None:
    x = torch.randn(ITEMS, requires_grad=True)

    def deep() -> None:
        y = x
        for _ in range(5):
            y = y.exp()  # keeps its output for backward
        y.sum().backward()

    assert peak_bytes(deep, [x], CPU) >= 6 * BYTES
    x.grad = None
    with torch.no_grad():

        def shallow() -> None:
            y = x
            for _ in range(5):
                y = y.exp()

        assert peak_bytes(shallow, [x], CPU) == 3 * BYTES


def test_weights_gradients_and_optimizer_state_count() -> None:
    net = nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.randn(1, 100)

    def step() -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    step()
    state = [value for values in optimizer.state.values() for value in values.values()]
    weight_bytes = 4 * 100 * 100
    assert peak_bytes(step, [*net.parameters(), *state, x], CPU) >= 4 * weight_bytes
