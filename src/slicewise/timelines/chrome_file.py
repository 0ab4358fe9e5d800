"""Events in Chrome's trace format, as torch.profiler and `slicewise run --trace` write them."""

from functools import cached_property
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from slicewise.errors import RequestError
from slicewise.formats.checking import check_version, checked
from slicewise.formats.schema import LONGEST_S, Excerpt, Natural

READABLE = (1,)  # of torch.profiler's schemaVersion and of our own timelines

Moment = Annotated[float, Meta(ge=-1e18, le=1e18)]  # in microseconds
Length = Annotated[float, Meta(ge=0, le=1e6 * LONGEST_S)]


class ChromeEvent(Excerpt):
    """One that lasts has the phase X; others name processes, or draw arrows."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: Moment | UnsetType = UNSET
    dur: Length = 0.0
    pid: int | str = ""
    tid: int | str = ""
    args: dict[str, Any] | None = None

    @property
    def start_us(self) -> float:
        assert self.ts is not UNSET  # of a span: read_trace has looked
        return self.ts


class DistributedFields(Excerpt):
    rank: Natural | None = None


class OtherFields(Excerpt):
    schema_version: int = READABLE[-1]


class TraceFields(Excerpt, dict=True):
    traceEvents: list[ChromeEvent]  # noqa: N815 (as the format has it)
    distributedInfo: DistributedFields | None = None  # noqa: N815
    schemaVersion: int = READABLE[-1]  # noqa: N815 (torch.profiler's)
    otherData: OtherFields | None = None  # noqa: N815 (a timeline's own)

    @cached_property
    def spans(self) -> list[ChromeEvent]:
        """The events that last."""
        return [event for event in self.traceEvents if event.ph == "X"]

    @property
    def rank(self) -> int | None:
        return self.distributedInfo.rank if self.distributedInfo else None


def read_trace(document: Any, name: str) -> TraceFields:
    """Of a list of events, or of an object that holds one."""
    document = {"traceEvents": document} if isinstance(document, list) else document
    trace = checked(TraceFields, document, name)
    for version in (trace.schemaVersion, trace.otherData.schema_version if trace.otherData else READABLE[-1]):
        check_version({"schema_version": version}, name, READABLE, RequestError)
    for number, event in enumerate(trace.traceEvents):
        if event.ph == "X" and event.ts is UNSET:
            raise RequestError(f"{name}: traceEvents[{number}].ts is missing; must be microseconds")
    return trace
