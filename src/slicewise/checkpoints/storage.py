"""torch's own files of a checkpoint, with their checksums taken as they are written: no byte is read again."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemWriter


class SummingWriter(FileSystemWriter):
    """Writes into an empty folder. `sums`: name -> (bytes, crc32) of what this rank wrote."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, overwrite=False)
        self.fs = _Summing()

    @property
    def sums(self) -> dict[str, tuple[int, int]]:
        assert isinstance(self.fs, _Summing)
        return self.fs.sums


class _Summing(FileSystem):
    def __init__(self) -> None:
        self.sums: dict[str, tuple[int, int]] = {}

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        with super().create_stream(path, mode) as stream:
            if mode != "wb":
                yield stream
                return
            summed = _Stream(cast(IO[bytes], stream))
            yield summed
            stream.flush()  # a full disk is told here
            self.sums[Path(path).name] = summed.bytes, summed.crc

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        self.sums[Path(new_path).name] = self.sums.pop(Path(path).name)


class _Stream:
    """What torch asks of a stream that it writes from the beginning to the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.bytes = self.crc = 0

    def write(self, data: Any) -> int:
        self.crc = zlib.crc32(data, self.crc)
        written = self._stream.write(data)
        self.bytes += written
        return written

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        self._stream.flush()  # who asks wants to sync
        return self._stream.fileno()

    def close(self) -> None:
        self._stream.flush()
