"""`slicewise COMMAND`: parse, call, render. Commands import what they need when they run, so --help is quick."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from slicewise.cli import calibrate, capture, cluster, diagnose, explain, oracle, plan, provision, run
from slicewise.errors import SlicewiseError
from slicewise.version import VERSION

COMMANDS = {
    "plan": plan,
    "run": run,
    "diagnose": diagnose,
    "explain": explain,
    "oracle": oracle,
    "provision": provision,
    "calibrate": calibrate,
    "capture": capture,
    "cluster": cluster,
}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="slicewise",
        description="Decides how each layer of a CNN is sliced across devices, predicts the step time and why, "
        "and runs exactly that on PyTorch.",
    )
    top.add_argument("--version", action="version", version=f"slicewise {VERSION}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 the answer is no, 2 the request was wrong, 3 our own fault."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    options.given = given  # what `launch` starts every rank with
    try:
        code: int = COMMANDS[options.command].main(options)
        return code
    except SlicewiseError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename}: {error.strerror}", 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except Exception as error:
        traceback.print_exc()
        where = "".join(f"{note}: " for note in getattr(error, "__notes__", []))
        return _fail(f"{where}{type(error).__name__}: {error} (our fault? please report the lines above)", 3)


def _fail(message: str, code: int) -> int:
    from slicewise.runtime.failures import report_failure

    if report_failure(message):
        print(f"slicewise: {message}", file=sys.stderr)
    return code
