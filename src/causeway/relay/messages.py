"""The messages between the driver and its lanes over the control socket, as JSON objects.

Driver to lane: Clusters, StageSpecs, StageEnded, Assign, Revoke, Lease, Lookup, Throttle, Drain.
Lane to driver: Hello, LaneReport, LookedUp, Drained.

The lease works on the lane's own clock. Each LaneReport has the lane's time, the driver echoes it
in Lease, and the lease lasts until that time plus `lease_s`. So an old answer that was in a socket
buffer while the lane was paused never prolongs the lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, json

from causeway.link_topics import Filled, Outlet, Transformed, Value
from causeway.model import Loss, Pair, Spread, State, TopicPartition
from causeway.records import ANY_CODEC


class _ControlMessage(Value, forbid_unknown_fields=True, omit_defaults=True):
    """Types are checked when a message arrives, not when it is made."""

    _hidden: ClassVar[tuple[str, ...]] = ()  # fields whose values `repr` leaves out

    def __repr__(self) -> str:
        fields = (name for name in self.__struct_fields__ if name not in self._hidden)
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
        return f"{type(self).__name__}({shown})"


class Preserve(_ControlMessage):
    """How a partition keeps its offsets. `begin`: the offset of the first record to mirror; all
    offsets below are filled and then deleted. `gaps`: how gaps are filled. `filler_from`: gaps
    of at least this many offsets are filled with aborted records; None for never, because the
    target does not compact the topic. `stops`: such gaps stop the partition instead."""

    begin: int
    gaps: Literal["markers", "transactions"]
    transactional_id: str  # prefix of the ids that fill gaps
    filler_from: int | None = None
    stops: bool = False


class Compression(_ControlMessage):
    """How batches are compressed before they are sent. `codec`, `level`: the arguments of
    `records.repack`. `always`: also batches that already have another codec."""

    codec: int
    level: int | None = None
    always: bool = False

    @property
    def as_is_codecs(self) -> int:
        """A bit for each codec that batches keep."""
        return 1 << self.codec if self.always else ANY_CODEC ^ 1


class Assignment(_ControlMessage):
    """One source partition, with all that a lane needs to relay it."""

    link: str  # `A->B`
    source: str  # key into Clusters.clusters
    target: str
    topic: str
    partition: int
    topic_id: str  # of the source topic, 32 hex digits
    leader_epoch: int  # of the last relayed record, -1 if there is none
    outlets: tuple[Outlet, ...]
    # With several outlets: records below this offset go to the outlet of the partition's number.
    keys_from: int = 0
    settled: bool = False  # its last lane gave it up without an unanswered batch
    # A quota of the target may delay requests of an earlier lane for this long.
    throttled_s: float = 0.0
    stop_at: int | None = None  # a bounded run relays lower offsets, then reports DONE
    # Relay only records that some outlets have and others have not, then report DONE.
    finish: bool = False
    read_committed: bool = True
    max_message_bytes: int = 1_048_588  # of the target topic
    sole_writer: bool = True  # an unexpected base offset stops the partition
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024  # of a whole fetch answer
    max_partition_bytes: int | None = None  # None: the round trip decides
    metadata_max_age_ms: int = 300_000  # another broker confirms the leader within this time
    transform: str | None = None  # key of the stage that its records go through
    treated: bool = False  # its records first go through the link's treatment
    preserve: Preserve | None = None  # None: offsets are translated
    compression: Compression | None = None  # None: batches keep their codec
    source_cluster: str | None = None  # the clusters' ids: brokers of others are refused
    target_cluster: str | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.link, self.topic, self.partition)

    @property
    def source_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def is_ours_alone(self, outlet: Outlet) -> bool:
        """Whether no other client may write to `outlet`, or is known to have written. Then each
        offset is a record of ours."""
        return outlet.exclusive and self.sole_writer


class TreatmentStep(_ControlMessage):
    """One step of a link's treatment of its records: see relay.treatment."""

    kind: str
    settings: Mapping[str, Any]
    _hidden: ClassVar = ("settings",)


class Clusters(_ControlMessage, tag="clusters"):
    # ClientSettings in the form of config.transport, with passwords and keys.
    clusters: Mapping[str, dict[str, Any]]
    lease_s: float
    report_interval_s: float
    connections: int
    in_flight: int | None  # None: the round trip decides
    buffer_bytes: int
    far_buffer_bytes: int | None = None  # while a source broker is far; None: buffer_bytes
    treatments: Mapping[str, tuple[TreatmentStep, ...]] = {}  # by link
    _hidden: ClassVar = ("clusters",)


class Renewed(_ControlMessage, tag="renewed"):
    """New certificates and passwords for new connections, and clusters that this lane does not know
    yet. The form is that of Clusters. `treatments`: all treatments from now on; None if they do not
    change. `gone`: the keys of clusters that no partition uses any more; a key is never used
    again."""

    clusters: Mapping[str, dict[str, Any]]
    treatments: Mapping[str, tuple[TreatmentStep, ...]] | None = None
    gone: tuple[str, ...] = ()
    _hidden: ClassVar = ("clusters",)


class StageSpec(_ControlMessage):
    """A transform, for a lane. `key` identifies it, and changes with everything that decides its
    results. `secrets`, `registry` (RegistrySettings in JSON's types): the lane gives them to the
    workers. `dead_letters`: a topic on the source; None if a refused record stops the partition.
    `shortcut`: a pickled Shortcut in base 64, which treats plain records without Spark; None if
    there is none. `late`: its job in Spark begins only with a record that is not plain. `routes`: a
    pickled Routes in base 64, with the topics and partitions that its records may go to."""

    key: str
    name: str
    secrets: Mapping[str, str] = {}
    registry: dict[str, Any] | None = None
    dead_letters: str | None = None
    shortcut: str | None = None
    late: bool = False
    routes: str | None = None
    _hidden: ClassVar = (
        "secrets",
        "registry",
        "shortcut",
        "routes",
    )


class StageSpecs(_ControlMessage, tag="stages"):
    """Sent before the first Assign that needs them."""

    stages: tuple[StageSpec, ...]


class StageEnded(_ControlMessage, tag="stage-ended"):
    """An attempt at a stage has ended, and another attempt follows. `reason`: why, or '' if its
    lane closed the connection. `threw`: its query raised an error for a record."""

    key: str
    attempt: str
    reason: str
    threw: bool


class Assign(_ControlMessage, tag="assign"):
    assignments: tuple[Assignment, ...]


class Revoke(_ControlMessage, tag="revoke"):
    """The lane stops these partitions, waits for their answers, and reports them once more with
    `final` set."""

    keys: tuple[tuple[str, str, int], ...]


class Lease(_ControlMessage, tag="lease"):
    lane_time: float  # echoed from a LaneReport


class Lookup(_ControlMessage, tag="lookup"):
    """Asks for the target offsets of these source offsets of a partition (`key`), in the outlet
    with this producer id. See relay.offset_lookup.Sought. The driver waits at most `patience_s`."""

    id: int
    key: tuple[str, str, int]
    producer_id: int
    start: Pair  # of the span
    end: Pair  # of the span
    offsets: tuple[int, ...]
    floor: int
    patience_s: float


class Rate(_ControlMessage):
    """How fast a lane may read a topic of a link, or all its topics together (`topic` None)."""

    link: str
    topic: str | None
    bytes_per_s: Annotated[float, Meta(gt=0)]


class Throttle(_ControlMessage, tag="throttle"):
    """All limits from now on."""

    rates: tuple[Rate, ...]


class Drain(_ControlMessage, tag="drain"):
    """The lane must end when its responses have arrived."""


class Hello(_ControlMessage, tag="hello"):
    lane: int
    pid: int
    host: str


class OutletWanted(_ControlMessage):
    """A transform sends records to a target partition that has no outlet yet. No record below
    source offset `offset` goes there. `topic`: the name on the source."""

    topic: str
    partition: int
    offset: int


class Trace(_ControlMessage):
    """The changes for the offset map of an outlet since the last report. `resumed`: the lowest pair
    from which a recovery has resumed. `newest`: source and target offset of the newest record."""

    breaks: tuple[Pair, ...] = ()
    resumed: Pair | None = None
    newest: tuple[int, int] | None = None


class FlowReport(_ControlMessage):
    """The state of one flow of a lane. It counts from its assignment to this lane on."""

    link: str
    topic: str
    partition: int
    state: State
    position: int  # every source offset below is relayed and acknowledged, or rightly dropped
    leader_epoch: int
    source_end: int  # last stable offset (read_committed) or high watermark; -1 while unknown
    last_timestamp: int  # ms, of the newest relayed record; -1 while unknown
    outlets: tuple[Outlet, ...]  # with the newest pairs
    reason: str | None = None
    first_unmirrored: int = -1  # ms, of the record at `position`; -1 while unknown
    high_watermark: int = -1  # of the source; beyond `source_end` while a transaction is open
    ages: Spread | None = None  # ms, of each batch's newest record when it was fetched
    latencies: Spread | None = None  # ms, of each batch's newest record when it was acknowledged
    records: int = 0
    bytes: int = 0
    recoveries: int = 0
    traces: tuple[Trace, ...] = ()  # one for each outlet
    wants: tuple[OutletWanted, ...] = ()  # it waits for these outlets
    transformed: Transformed | None = None
    filled: Filled | None = None  # if it preserves offsets
    loss: Loss | None = None  # why it stopped, if source offsets are lost
    final: bool = False
    settled: bool = False  # with `final`: no request of the lane can arrive any more
    throttled_s: float = 0.0  # a quota may delay requests at the target for this long

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.link, self.topic, self.partition)


class StageWanted(_ControlMessage):
    """The lane has partitions that need a stage now. The stage's workers must connect to `address`
    (see transform.sealed). `waiting`: why the schema registry does not answer, while a worker waits
    for it. `hung`: the attempt that gave no answer in time; another attempt must replace it."""

    key: str
    address: str
    waiting: str | None = None
    hung: str | None = None


class LaneReport(_ControlMessage, tag="report"):
    """A lane sends it once in `report_interval_s`. `partitions` has partitions that changed since
    their last report. Partitions that keep running may take turns: each that moves is reported once
    in `round_s`. `crowded`: the brokers that accepted fewer connections than the lane wants.
    `small_requests`: the brokers that closed connections after large requests, each with its new
    limit in bytes."""

    lane_time: float
    partitions: tuple[FlowReport, ...] = ()
    round_s: float = 0.0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    stages: tuple[StageWanted, ...] = ()  # all stages that should run now
    crowded: tuple[str, ...] = ()
    small_requests: tuple[str, ...] = ()


class LookedUp(_ControlMessage, tag="looked-up"):
    """The answer to a Lookup. `places`: source offsets with their target offsets, as far as the
    logs prove them. `reason`: why nothing could be looked up now."""

    id: int
    places: tuple[tuple[int, int], ...] = ()
    reason: str | None = None


class Drained(_ControlMessage, tag="drained"):
    """The lane's last message: it has no request in flight."""


ToLane = (
    Clusters
    | Renewed
    | StageSpecs
    | StageEnded
    | Assign
    | Revoke
    | Lease
    | Lookup
    | Throttle
    | Drain
)
ToDriver = Hello | LaneReport | LookedUp | Drained


@cache
def _decoder() -> json.Decoder[ToLane | ToDriver]:
    return json.Decoder(ToLane | ToDriver)


def sayable(reason: str) -> str:
    """`reason` with escapes for all that is not UTF-8, for example in names that came as bytes. A
    message cannot have such text, and one partition's reason must not prevent the report of the
    others."""
    return reason.encode(errors="backslashreplace").decode()


def encode(message: ToLane | ToDriver) -> bytes:
    """Raises UnicodeEncodeError if a text in the message is not UTF-8; see `sayable`."""
    return json.encode(message)


def decode(data: bytes | memoryview) -> ToLane | ToDriver:
    """Raises ValueError if `data` is not such a message. The error quotes no content."""
    try:
        return _decoder().decode(data)
    except (ValueError, RecursionError):
        raise ValueError("not a message between driver and lane") from None
