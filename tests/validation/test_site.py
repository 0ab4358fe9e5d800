"""The documentation site: built strictly; reference, drawings and tutorial are what the code has now."""

import re
import warnings
from pathlib import Path

import pytest
from mkdocs.commands import build
from mkdocs.config import load_config

import slicewise
from scripts.pictures import IMAGES, pictures
from scripts.site import adapted, pages
from scripts.tutorial import PAGE, WIDTH, blocks, main, ran
from slicewise.cli.main import COMMANDS
from slicewise.cli.main import main as command

ROOT = Path(__file__).parents[2]


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """As `mkdocs build --strict` checks navigation, links and anchors, but without starting Python and torch again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that mkdocs brings along; its own are counted and raise
        build.build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path)))
    for name in ("index", "tutorial", "reference/commands", "reference/python", "reference/changelog"):
        assert (tmp_path / f"{name}.html").is_file()
    page = (tmp_path / "tutorial.html").read_text()
    assert "```" not in page
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', page)
    assert not loaded, "pages load nothing from elsewhere"


def test_the_reference_has_every_command_and_public_name() -> None:
    made = pages()
    for name in COMMANDS:
        assert f"\n## slicewise {name}\n" in made["reference/commands.md"]
    for name in slicewise.__all__:
        assert name == "__version__" or f"\n## {name}\n" in made["reference/python.md"]
    assert "oracle(\n" in made["reference/python.md"]
    for name in ("SlicewiseStrategy", "Accelerator"):
        assert f"\n## {name}\n" in made["reference/python.md"]
    for method in ("shard", "gather", "no_sync", "local_input", "local_target", "slab"):
        assert f"\n### SlicedModule.{method}\n" in made["reference/python.md"]


def test_links_out_of_the_docs_lead_to_the_repository_where_its_address_is_known() -> None:
    text = "see [the code](../src/a.py#L3)\n```python runs\n"
    assert adapted(text, None) == "see the code (`src/a.py` in the repository)\n```python\n"
    assert "[the code](https://example.org/x/blob/main/src/a.py#L3)" in adapted(text, "https://example.org/x/")


def test_the_drawings_are_what_the_code_draws() -> None:
    for name, text in pictures().items():
        assert (IMAGES / name).read_text() == text, f"{name}: run `python scripts/pictures.py`"


def _pattern(printed: str) -> re.Pattern[str]:
    """Lines as shown, `...` for any."""
    lines = (".*" if line.strip() == "..." else re.escape(" ".join(line.split())) for line in printed.splitlines())
    return re.compile(" ?".join(lines), re.DOTALL)


def test_the_tutorials_predictions_are_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    predicted = [shown for shown in blocks(PAGE.read_text()) if not shown.measured]
    assert len(predicted) >= 2
    for shown in predicted:
        assert command(shown.command.split()[1:]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert _pattern(shown.printed).fullmatch(told), told


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_tutorials_commands_run_on_this_machine(tmp_path: Path) -> None:
    for shown in blocks(PAGE.read_text()):
        told = ran(shown.command, tmp_path)
        if " run " in shown.command:
            assert "equal to one device" in " ".join(told.split())
            assert "(equal)" in told


def test_measuring_the_tutorial_again_leaves_everything_else_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "tutorial.md"
    page.write_text(PAGE.read_text())
    monkeypatch.setattr("scripts.tutorial.PAGE", page)
    monkeypatch.setattr("scripts.tutorial.ran", lambda command, folder: "new figures\n")
    main()
    renewed = page.read_text()
    assert renewed.count("new figures\n") == sum(shown.measured for shown in blocks(PAGE.read_text()))
    kept = [shown.printed for shown in blocks(PAGE.read_text()) if not shown.measured]
    assert [shown.printed for shown in blocks(renewed) if not shown.measured] == kept
