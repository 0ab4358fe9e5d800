"""Every command of `benchmarks/` says what it does before it does it."""

from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
COMMANDS = sorted(
    f"benchmarks.{path.parent.name}.{path.stem}"
    for path in BENCHMARKS.glob("*/*.py")
    if '__name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_printed_and_nothing_measured(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [command, "--help"])
    with pytest.raises(SystemExit) as ended:
        import_module(command).main()
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_there_are_commands() -> None:
    assert "benchmarks.search.run" in COMMANDS
