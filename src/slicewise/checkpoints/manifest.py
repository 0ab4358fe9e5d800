"""What makes a folder a checkpoint: its manifest, written last, with the checksum of every file.

runs/digits/
  0007-step-40/                complete: it has its manifest; the seventh that was saved here
    .metadata __0_0.distcp __1_0.distcp     torch's own files
    manifest.json
  0008-step-50/
  .0009-step-60-1f0c.tmp/      under way, or left by a save that did not end: never loaded
"""

import json
import re
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from slicewise.errors import CheckpointError
from slicewise.formats.checking import check_version, checked
from slicewise.formats.files import parse_json, read_text
from slicewise.saving import write_file
from slicewise.version import VERSION

MANIFEST = "manifest.json"
READABLE = (1,)
_NAME = re.compile(r"(\d{4,})-step-\d+")
_UNFINISHED = re.compile(r"\.\d{4,}-step-\d+-[0-9a-f]+\.tmp")
_CHUNK_BYTES = 2**22


class FileFields(Struct, forbid_unknown_fields=True):
    bytes: int
    crc32: int


class ManifestFields(Struct, forbid_unknown_fields=True):
    schema_version: int
    slicewise: str
    step: int
    ranks: int
    files: dict[str, FileFields]
    checksum: int  # of the other fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    step: int
    ranks: int
    files: Mapping[str, tuple[int, int]]  # name -> (bytes, crc32)

    def write(self, folder: Path) -> None:
        fields: dict[str, Any] = {
            "schema_version": READABLE[-1],
            "slicewise": VERSION,
            "step": self.step,
            "ranks": self.ranks,
            "files": {name: {"bytes": size, "crc32": crc} for name, (size, crc) in sorted(self.files.items())},
        }
        write_file(folder / MANIFEST, json.dumps({**fields, "checksum": _checksum(fields)}, indent=1))

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        path = folder / MANIFEST
        document = parse_json(read_text(path, CheckpointError, "JSON"), str(path), CheckpointError)
        check_version(document, str(path), READABLE, CheckpointError)
        fields = checked(ManifestFields, document, str(path), CheckpointError)
        if document.pop("checksum") != _checksum(document):
            raise CheckpointError(f"{path}: damaged: its checksum is another")
        files = {name: (file.bytes, file.crc32) for name, file in fields.files.items()}
        return cls(step=fields.step, ranks=fields.ranks, files=files)


def _checksum(fields: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode())


def problem(folder: Path, share: slice = slice(None)) -> str | None:
    """What is wrong with a checkpoint, if anything is; `share`: which of its files to look at."""
    try:
        files = Manifest.read(folder).files
    except CheckpointError as error:
        return str(error)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    found = (_damage(folder, name, *files[name]) for name in sorted(files)[share])
    return next((damage for damage in found if damage), None)


def _damage(folder: Path, name: str, size: int, crc: int) -> str | None:
    try:
        with (folder / name).open("rb") as file:
            found_bytes = found_crc = 0
            while chunk := file.read(_CHUNK_BYTES):
                found_bytes, found_crc = found_bytes + len(chunk), zlib.crc32(chunk, found_crc)
    except OSError as error:
        return f"{folder / name}: {error.strerror}"
    if found_bytes != size:
        return f"{folder / name}: has {found_bytes:,} bytes of {size:,}"
    return None if found_crc == crc else f"{folder / name}: damaged: its checksum is another"


def checkpoints(folder: Path) -> list[Path]:
    """Those that are complete or claim to be, the one saved last first; a checkpoint's own folder is the only one."""
    if (folder / MANIFEST).exists():
        return [folder]
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_number, reverse=True)


def _number(path: Path) -> int:
    return int(path.name.partition("-")[0])


def next_name(folder: Path, step: int) -> str:
    """Numbered: a training that went back to an earlier step goes on from what it saved last."""
    saved = checkpoints(folder)
    return f"{_number(saved[0]) + 1 if saved else 1:04d}-step-{step}"


def unfinished(folder: Path) -> list[Path]:
    """What saves have left that did not end."""
    return [path for path in folder.iterdir() if _UNFINISHED.fullmatch(path.name)]


def forget(folder: Path, keep: int) -> None:
    """Delete all but the last `keep`; renamed first, so that a half-deleted one is not taken for a checkpoint."""
    for path in checkpoints(folder)[keep:]:
        doomed = path.with_name(f".{path.name}-0.tmp")
        with suppress(OSError):  # not ours to delete
            path.rename(doomed)
            shutil.rmtree(doomed)
