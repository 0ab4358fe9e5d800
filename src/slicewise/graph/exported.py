"""Programs that `torch.export.save` wrote (.pt2), captured again for the batch sizes slicewise asks about."""

import logging
from pathlib import Path
from typing import Any

import torch

from slicewise.errors import GraphError, RequestError
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph


def capture_program(path: str, input_shape: tuple[int, ...] | None = None, *, trust: bool = False) -> LayerGraph:
    """The program's layers; it has to be exported in training mode, with a batch that may change.

    Its file holds pickles, which run any code that their writer put there: only files that are trusted are opened.
    """
    if not Path(path).exists():
        raise GraphError(f"{path}: no such file")
    if not trust:
        raise RequestError(
            f"{path}: an exported program holds pickles, which can run any code when they are loaded; if you trust "
            "whoever made the file, add `trust=True`"
        )
    log = logging.getLogger("torch.export")  # tells a failure with a traceback before it raises
    log.disabled = True
    try:
        program = torch.export.load(path)
    except Exception as error:
        first_line = str(error).strip().split("\n")[0]
        raise GraphError(f"{path}: not an exported program ({type(error).__name__}: {first_line})") from error
    finally:
        log.disabled = False
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    inputs = [placeholders[name].meta["val"] for name in program.graph_signature.user_inputs]
    if len(inputs) != 1 or not isinstance(inputs[0], torch.Tensor):
        raise GraphError(f"{path}: a program of one tensor can be captured (this one takes {len(inputs)} inputs)")
    batch, *sample = tuple[Any, ...](inputs[0].shape)  # symbols where a size may change
    if isinstance(batch, int):
        raise GraphError(
            f"{path} was exported for exactly {batch} samples; export it with "
            'dynamic_shapes=({0: torch.export.Dim("batch")},)'
        )
    example = tuple(program.example_inputs[0][0].shape[1:])
    asked = input_shape or example
    fixed = [size if isinstance(size, int) else wanted for size, wanted in zip(sample, asked, strict=False)]
    if len(asked) != len(sample) or tuple(fixed) != asked:
        raise RequestError(f"{path} was exported for samples of {example}; leave out `input`")
    graph = capture(program.module(), torch.zeros((), dtype=inputs[0].dtype).expand(2, *asked), name=path)
    modes = [layer.options.get("arguments", {}).get(name) for layer in graph for name in ("training", "train")]
    known = [mode for mode in modes if mode is not None]
    if known and not any(known):
        raise GraphError(f"{path} was exported in eval mode; call model.train() before torch.export.export")
    return graph
