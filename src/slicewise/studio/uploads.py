"""Files that people drop on the page: graphs, plans, traces and cluster descriptions. Data, never code.

A file is told by what is in it, read by the package's own readers, and kept in memory under a name of its own. The
oldest go when there are too many.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from slicewise.cluster.cluster import Cluster, parse_cluster
from slicewise.errors import RequestError
from slicewise.formats.files import LARGEST_TOML_BYTES, decompressed, parse_json
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan
from slicewise.report.traces import Trace, trace_of
from slicewise.timelines.chrome_file import read_trace

LARGEST_BYTES = 32 * 2**20
MOST_FILES = 32
MOST_BYTES = 4 * LARGEST_BYTES  # of all files, as they were sent
MOST_REMEMBERED = 32

WANTED = "a graph, plan or trace (.json) or a cluster (.toml)"

T = TypeVar("T")
Kept = LayerGraph | Plan | Cluster | Trace


class Uploads:
    """What was uploaded, by name; and what the package ships, read once."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[Kept, int]] = OrderedDict()  # with the bytes that were sent
        self._remembered: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def add(self, name: str, content: bytes) -> dict[str, Any]:
        """The kind of the file and the name it is known by from now on; or one line that says what is wrong."""
        kind, kept = read_upload(name, content)
        known_by = f"upload:{secrets.token_hex(4)}/{name}"
        with self._lock:
            self._files[known_by] = kept, len(content)
            while len(self._files) > MOST_FILES or sum(size for _, size in self._files.values()) > MOST_BYTES:
                self._files.popitem(last=False)
        return {"kind": kind, "name": known_by, "label": name, "kept": kept}

    def graph(self, name: str) -> LayerGraph | None:
        found = self._found(name)
        if isinstance(found, Plan):
            return found.network()
        return found if isinstance(found, LayerGraph) else None

    def cluster(self, name: str) -> Cluster | None:
        found = self._found(name)
        if isinstance(found, Plan):
            return found.hardware()
        return found if isinstance(found, Cluster) else None

    def plan(self, name: str) -> Plan | None:
        found = self._found(name)
        return found if isinstance(found, Plan) else None

    def trace(self, name: str) -> Trace:
        found = self._found(name)
        if not isinstance(found, Trace):
            raise RequestError(f"{name!r} is no trace that was uploaded here; upload it again")
        return found

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Made once, as long as it is among the last that were asked for."""
        with self._lock:
            if key in self._remembered:
                self._remembered.move_to_end(key)
                found: T = self._remembered[key]
                return found
        made = make()
        with self._lock:
            self._remembered[key] = made
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return made

    def _found(self, name: str) -> Kept | None:
        if not name.startswith("upload:"):
            return None
        with self._lock:
            if name not in self._files:
                raise RequestError(f"{name.partition('/')[2]!r} is no longer kept here; upload it again")
            self._files.move_to_end(name)
            return self._files[name][0]


def read_upload(name: str, content: bytes) -> tuple[str, Kept]:
    """What a file is, and its value. No file of another kind is read."""
    if len(content) > LARGEST_BYTES:
        raise RequestError(f"{name}: {len(content):,} bytes; at most {LARGEST_BYTES:,} are read")
    content = decompressed(content, name, RequestError, f"an upload, {WANTED}", largest_bytes=LARGEST_BYTES)
    name = name.removesuffix(".gz")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}: not text; upload {WANTED}") from error
    if name.endswith(".toml"):
        if len(content) > LARGEST_TOML_BYTES:
            raise RequestError(f"{name}: {len(content):,} bytes; at most {LARGEST_TOML_BYTES:,} of TOML are read")
        return "cluster", parse_cluster(text, name)
    if not name.endswith(".json"):
        raise RequestError(f"{name}: upload {WANTED}")
    document = parse_json(text, name, RequestError)
    if isinstance(document, dict) and "mesh" in document:
        plan = Plan.from_dict(document, name)
        plan.check(plan.sized(plan.network()), plan.hardware().mesh)
        return "plan", plan
    if isinstance(document, list) or (isinstance(document, dict) and "traceEvents" in document):
        return "trace", trace_of(read_trace(document, name), name)
    if isinstance(document, dict) and "layers" in document:
        return "graph", LayerGraph.from_dict(document, name)
    raise RequestError(f"{name}: neither a graph, a plan nor a trace; `slicewise capture MODEL -o FILE` makes a graph")
