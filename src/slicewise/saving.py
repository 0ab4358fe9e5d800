"""Every file that slicewise writes: whole, or not at all.

A full disk or an interruption leaves what was there before:

    plan.json                the older one, until the end
    .slicewise-1f0c.tmp      a temporary neighbour: written, flushed, then renamed to plan.json
    local.1.toml             what was local.toml before, where older files are kept
"""

import os
import re
import secrets
import shutil
from contextlib import suppress
from errno import EACCES, EISDIR
from itertools import count
from pathlib import Path

from slicewise.errors import RequestError

_STREAM = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/(self|\d+)/fd/\d+")


def check_target(path: Path) -> None:
    """Refuse what cannot be written, before any work is done for it."""
    reason = ""
    if not path.parent.is_dir():
        reason = f"{path.parent} is not a folder"
    elif path.is_dir():
        reason = "it is a folder; name a file"
    elif not _is_stream(path) and not os.access(Path(os.path.realpath(path)).parent, os.W_OK | os.X_OK):
        reason = f"{path.parent} is read-only"
    elif path.exists() and not os.access(path, os.W_OK):
        reason = "it is read-only"
    if reason:
        raise RequestError(f"cannot write {path}: {reason}")


def write_file(path: Path, content: str | bytes, *, keep_older: bool = False) -> Path | None:
    """Replace a file, or leave it as it was and raise an OSError that names it. Returns where the older one is kept.

    A link stays a link, a file keeps its permissions, and what is no file (`/dev/stdout`, a pipe) is written to.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if _is_stream(path):
            with path.open("ab") as stream:
                stream.write(data)
            return None
        return _replace(Path(os.path.realpath(path)), data, keep_older=keep_older)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def append_to(path: Path, text: str) -> None:
    """Add to a file that grows while others read it; what is there stays."""
    with path.open("a") as file:
        file.write(text)


def _is_stream(path: Path) -> bool:
    """`/dev/stdout` is one even where it leads to a file: others write there too."""
    return bool(_STREAM.fullmatch(str(path))) or (path.exists() and not path.is_file() and not path.is_dir())


def _replace(target: Path, data: bytes, *, keep_older: bool) -> Path | None:
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(EACCES, os.strerror(EACCES))
    temporary = target.with_name(f".slicewise-{secrets.token_hex(8)}.tmp")
    kept: Path | None = None
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            _pass_on(target, temporary)
            kept = _keep(target) if keep_older else None
        temporary.replace(target)
    except BaseException:
        for path in (temporary, kept):
            if path is not None:
                path.unlink(missing_ok=True)
        raise
    return kept


def _pass_on(older: Path, newer: Path) -> None:
    """Owner, where we may, and permissions."""
    status = older.stat()
    with suppress(OSError):
        os.chown(newer, status.st_uid, status.st_gid)
    shutil.copymode(older, newer)


def _keep(target: Path) -> Path:
    """Under the first free number: a second name for the file, or a copy where a file system has no such thing."""
    numbered = (target.with_name(f"{target.stem}.{number}{target.suffix}") for number in count(1))
    kept = next(path for path in numbered if not path.exists())
    try:
        os.link(target, kept)
    except FileExistsError:  # another command was quicker
        return _keep(target)
    except OSError:
        _replace(kept, target.read_bytes(), keep_older=False)
    return kept
