import pytest

from slicewise.cost.training import PLAIN, Training
from slicewise.errors import UnknownName


def test_plain_training_is_sgd_in_fp32() -> None:
    assert Training() == PLAIN
    assert (PLAIN.item_bytes, PLAIN.state_items) == (4, 0)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dtype": "fp8"}, "unknown dtype 'fp8'; choose from bf16, fp16, fp32, tf32"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion'; choose from adam, momentum, sgd"),
        ({"batchnorm": "frozen"}, "unknown batchnorm 'frozen'; choose from exact, local"),
    ],
)
def test_unknown_names_list_the_known_ones(option: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownName) as raised:
        Training(**option)  # type: ignore[arg-type]
    assert str(raised.value) == message
