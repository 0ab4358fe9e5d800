"""README, CONTRIBUTING and docs: what they name exists, what they show works."""

import ast
import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewise.cli.main import main, parser

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/slicewise"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
BLOCK = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN = {"graph.json", "plan.json", "mine.toml", "local.toml", "local.1.toml", "local.2.toml"}  # by commands
WRITTEN |= {"data.py", "run.json", "train.py"}  # by the reader


def _blocks(name: str) -> Iterator[tuple[str, str]]:
    """(language, text)."""
    for block in BLOCK.finditer((ROOT / name).read_text()):
        yield block[1], block[2]


def _commands(name: str) -> Iterator[str]:
    """Lines of blocks, and code between backticks, that begin with `slicewise`."""
    for language, text in _blocks(name):
        if not language:
            for line in text.replace("\\\n", " ").splitlines():
                command = line.partition("  #")[0].partition(" > ")[0].strip().removeprefix(".venv/bin/")
                if command.startswith("slicewise "):
                    yield command
    for code in re.findall(r"`(slicewise [^`]*)`", BLOCK.sub("", (ROOT / name).read_text())):
        command = " ".join(code.split())
        if "..." not in command and "|" not in command and len(command.split()) > 3:
            yield command


@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_a_document_parses(name: str) -> None:
    for command in _commands(name):
        told = io.StringIO()
        try:
            with contextlib.redirect_stderr(told):
                parser().parse_args(shlex.split(command)[1:])
        except SystemExit:
            pytest.fail(f"{name}: {command}: {told.getvalue()}")


def test_the_documents_show_commands() -> None:
    assert sum(len(list(_commands(name))) for name in NAMES) > 30


@pytest.mark.parametrize("name", NAMES)
def test_every_python_block_in_a_document_compiles(name: str) -> None:
    for language, text in _blocks(name):
        if language.startswith("python") and ">>>" not in text:
            ast.parse(text, name)


@pytest.mark.parametrize("name", [name for name in NAMES if ">>>" in (ROOT / name).read_text()])
def test_every_session_in_a_document_answers_as_shown(name: str) -> None:
    for _, text in _blocks(name):
        if ">>>" in text:
            test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
            told = io.StringIO()
            failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=told.write)
            assert not failed, told.getvalue()


RUNNABLE = [(name, text) for name in NAMES for language, text in _blocks(name) if language == "python runs"]


@pytest.mark.parametrize(
    ("name", "text"), RUNNABLE, ids=[f"{name}-{number}" for number, (name, _) in enumerate(RUNNABLE)]
)
def test_every_runnable_block_in_a_document_runs(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `model` and plan.json are: LeNet-5 on one rank."""
    import torch.distributed as dist

    from slicewise.graph.zoo import ZOO

    monkeypatch.chdir(tmp_path)
    lenet5 = ("plan", "lenet5", "--cluster", "p100-4x4", "--devices", "1", "--batch", "4")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*lenet5, "-o", "plan.json"]) == 0
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        exec(compile(text, name, "exec"), {"model": ZOO["lenet5"].build()})
    finally:
        dist.destroy_process_group()


def test_readme_and_oracle_page_have_runnable_blocks() -> None:
    assert {"README.md", "docs/oracle.md", "docs/explain.md"} <= {name for name, _ in RUNNABLE}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_in_a_document_leads_somewhere(name: str) -> None:
    document = ROOT / name
    text = document.read_text()
    for target, anchor in re.findall(r"(?:\]\(|^\[\d+\]: )([^)#\s]*)(?:#([^)\s]+))?", text, re.MULTILINE):
        if target.startswith("http"):
            continue
        page = document.parent / target if target else document
        assert page.exists(), target
        if anchor:
            assert anchor in _anchors(page.read_text()), f"{target}#{anchor}"


def _anchors(text: str) -> set[str]:
    """What GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_file_that_a_document_names_exists(name: str) -> None:
    places = (ROOT, SOURCE, ROOT / "docs", ROOT / "examples", ROOT / "tests", ROOT / "tests/distributed")
    prose = BLOCK.sub("", (ROOT / name).read_text())
    for named in re.findall(r"`((?:[\w+-]+/)*(?:[\w.+-]+\.(?:py|toml|md|json)|(?<=/)))`", prose):
        assert named in WRITTEN or any((place / named).exists() for place in places), named


def _map() -> set[str]:
    """The first column of CONTRIBUTING's table."""
    rows = re.findall(r"^\| `(\w+)/?`", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    return set(rows)


def test_the_map_of_contributing_has_every_folder() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders <= _map()
    assert all((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file() for name in _map())


def test_the_architecture_page_draws_every_folder() -> None:
    drawn = next(text for _, text in _blocks("docs/architecture.md"))
    assert _map() <= set(re.findall(r"\w+", drawn))


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index, path.name


def test_the_readme_is_one_screen_of_short_lines() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
