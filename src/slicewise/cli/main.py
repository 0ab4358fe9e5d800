"""`slicewise COMMAND`: parse, call, render. Commands import what they need when they run, so --help is quick."""

import argparse
import errno
import io
import os
import select
import sys
import traceback
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from slicewise.cli import (
    calibrate,
    capture,
    cluster,
    diagnose,
    doctor,
    explain,
    oracle,
    plan,
    provision,
    report,
    run,
    studio,
    validate,
)
from slicewise.cli.spelling import as_typed
from slicewise.errors import SlicewiseError
from slicewise.runtime.orphans import end_with_launcher
from slicewise.text.width import every_column
from slicewise.version import VERSION

COMMANDS = {
    "plan": plan,
    "run": run,
    "diagnose": diagnose,
    "explain": explain,
    "oracle": oracle,
    "provision": provision,
    "report": report,
    "calibrate": calibrate,
    "validate": validate,
    "capture": capture,
    "cluster": cluster,
    "studio": studio,
    "doctor": doctor,
}

# What the machine refuses without naming a file, as when standard output goes to a full disk.
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="slicewise",
        description="Decides how each layer of a vision network is sliced across devices, predicts the step "
        "time and why, and runs exactly that on PyTorch.",
    )
    top.add_argument("--version", action="version", version=f"slicewise {VERSION}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 the answer is no, 2 the request was wrong, 3 our own fault."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal cannot spell, as Python shows them
    end_with_launcher()
    known: Collection[str] = ()
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        options = parser().parse_args(given)
        known = vars(options).keys()
        options.given = given  # what `launch` starts every rank with
        with every_column(getattr(options, "wide", False)):
            code: int = COMMANDS[options.command].main(options)
        print(end="", flush=True)  # a full disk or a closed pipe is told here, not after the end
        return code
    except SlicewiseError as error:
        return _fail(as_typed(str(error), known), error.exit_code)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_is_gone():
            return 0
        if error.filename is None and error.errno not in _REFUSALS:
            return _fault(error)
        return _fail(f"{error.filename or 'cannot read or write'}: {error.strerror or error}", 2)
    except UnicodeDecodeError as error:
        return _fail(f"a file is not text in UTF-8 ({error.reason}, byte {error.start})", 2)
    except MemoryError as error:
        told = f": {error}" if str(error) else ""
        return _fail(f"out of memory{told}; ask for fewer devices, or use a machine with more memory", 2)
    except RecursionError as error:
        return _fail(f"something that was given is nested too deeply for Python ({_place(error)})", 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except Exception as error:
        return _fault(error)


def _reader_is_gone() -> bool:
    """As under `| head`."""
    watched = select.poll()
    for stream in (sys.stdout, sys.stderr):
        watched.register(stream.fileno(), 0)  # no event but the end of the other side
    if not watched.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be written
    return True


def _fault(error: Exception) -> int:
    traceback.print_exception(error)
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", []))
    return _fail(f"{where}{type(error).__name__}: {error} (our fault? please report the lines above)", 3)


def _fail(message: str, code: int) -> int:
    from slicewise.runtime.failures import report_failure

    message = " ".join(message.splitlines())
    if report_failure(message):
        with suppress(OSError):  # nobody reads it
            print(f"slicewise: {message}", file=sys.stderr)
    return code


def _place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {Path(last.filename).name}:{last.lineno}"
