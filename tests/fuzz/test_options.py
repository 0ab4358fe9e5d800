"""Options: every text is understood or refused in one line, alone and in whole commands."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from slicewise.cli.main import main
from slicewise.cli.options import duration, positive, shape, share, size
from slicewise.cli.oracle import counts, per_device, split
from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import PLAIN
from slicewise.errors import RequestError
from slicewise.explaining.what_if import Job
from slicewise.graph.sources import load_graph
from slicewise.planning import plan
from slicewise.strategies.datasets import samples_of
from slicewise.strategies.registry import check_strategies
from tests.builders import machine, small_cnn
from tests.fuzz.campaign import campaign, sizes

WORDS = """
    1 2 8 0 -1 16.7 1e9 1e400 nan inf ² １ 0x10 1_0 +3 x = , . ... % * [ ] ! ? @ : / \\ é N F C H W N4F4 whole conv0
    features.* GB GiB TiB min h s us GB/s batch devices memory dtype bandwidth latency tier0 tier0.bandwidth=2x fp16
    adam local imagenet lenet5 data data+filter p100-4x4 .json .toml layerwise pipeline --json
"""
TOKENS = (*WORDS.split(), " ", "\n", "\x00", "\ud800", "9" * 30, "9" * 5000)


def texts() -> st.SearchStrategy[str]:
    return st.one_of(st.lists(st.sampled_from(TOKENS), max_size=5).map("".join), st.text(max_size=12))


def refused_by_argparse(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Refusals of one option as argparse hears them, in our own words."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except argparse.ArgumentTypeError as error:
            raise RequestError(str(error)) from error

    return parsed


JOB = Job(cluster=machine(2, 2), batch=8, training=PLAIN, memory_limit_bytes=None)
PARSERS: dict[str, Callable[[str], Any]] = {
    **{parse.__name__: refused_by_argparse(parse) for parse in (positive, shape, size, share, duration)},
    **{parse.__name__: refused_by_argparse(parse) for parse in (counts, per_device, split)},
    "what-if": JOB.changed,
    "dataset": samples_of,
    "strategies": lambda text: check_strategies(text.split(",")),
    "cluster": load_cluster,
    "model": load_graph,
    "fix": lambda text: plan(small_cnn(), machine(2), fix=[text]),
    "forbid": lambda text: plan(small_cnn(), machine(2), forbid=[text]),
}


@pytest.mark.parametrize("option", PARSERS)
@sizes(40, 800)
def test_any_text_of_an_option_is_taken_or_refused(option: str, inputs: int, begin: int) -> None:
    campaign(inputs, begin, texts(), PARSERS[option])


OPTIONS = {
    "plan": """--devices --batch --strategy --segments --dtype --optimizer --batchnorm --cost --space --dims-per-layer
        --dims-per-tier --memory-limit --objective --fix --forbid --gap --search -o""",
    "oracle": """--devices --batch --batch-per-device --dataset --samples --strategies --split --engine --memory-limit
        --dtype --optimizer""",
    "provision": "--epochs --devices --deadline --gpu-hours --price --samples --batch",
    "cluster": "--devices",
}
HEADS = {
    "plan": ["plan", "lenet5", "--cluster", "p100-4x4", "--devices", "2", "--json", "--time-limit", "1"],
    "oracle": ["oracle", "lenet5", "--cluster", "abci-v100", "--devices", "1,4", "--json"],
    "provision": ["provision", "lenet5", "--cluster", "abci-v100", "--devices", "1,4", "--json"],
    "cluster": ["cluster", "show", "p100-4x4", "--json"],
}
VALUES = """
    1 2 3 4 7 64 1000 65536 65537 999983 10000000000 9999999999999999999999 0 -1 0.25 1,2,4 1,2,...,9 2x2 1x32x32 data
    filter pipeline layerwise fp16 bf16 adam momentum local optcnn memory 1GB 1B 8GiB F N2 *=N whole 1% 2h imagenet
    slicewise exhaustive x
"""


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(list(HEADS)))
    given = list(HEADS[name])
    for option in draw(st.lists(st.sampled_from(OPTIONS[name].split()), min_size=1, max_size=3, unique=True)):
        given.append(f"{option}={draw(st.sampled_from([*VALUES, '']))}" if option.startswith("--") else option)
    return given


@sizes(120, 3_000)
def test_any_command_ends_with_an_answer_or_one_line(
    inputs: int, begin: int, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(arguments: list[str]) -> None:
        try:
            code = main(arguments)
        except SystemExit as exit_:  # argparse, which has said why
            code = int(exit_.code or 0)
        told = capsys.readouterr()
        assert code in (0, 1, 2), told.err
        assert "Traceback" not in told.err
        assert told.err or told.out

    campaign(inputs, begin, commands(), run)
