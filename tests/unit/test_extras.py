"""What is installed beside, and what to install."""

import pytest

from slicewise import extras
from slicewise.errors import MissingLightning


def test_lightning_is_the_one_that_the_script_has_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "installed", lambda name: True)
    assert extras.lightning_package(()) == "lightning.pytorch"
    assert extras.lightning_package(("pytorch_lightning",)) == "pytorch_lightning"
    assert extras.lightning_package(("pytorch_lightning", "lightning.pytorch")) == "lightning.pytorch"


def test_without_lightning_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "installed", lambda name: False)
    with pytest.raises(MissingLightning, match=r"pip install 'slicewise\[lightning\]'"):
        extras.lightning_package(())
