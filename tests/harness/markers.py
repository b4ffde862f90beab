"""Transaction markers sent as a lane sends them, but waited for; and what a log has then."""

from __future__ import annotations

from collections.abc import Sequence

from causeway.cluster import Cluster
from causeway.model import TopicPartition
from causeway.wire import Connection, Marker, apis, markers, wait
from tests.harness.kafka_tools import KafkaTools


def send_markers(connection: Connection, wanted: Sequence[Marker]) -> None:
    """Without waiting for the answer."""
    api = apis.WRITE_TXN_MARKERS
    version = connection.api_version(api.key, api.highest, api.lowest)
    correlation_id = connection.next_correlation_id()
    connection.queue(*markers.build(correlation_id, version, b"test", wanted))
    while not connection.flush():
        wait(connection.socket, write=True, timeout_s=30)


def receive_frame(connection: Connection) -> memoryview:
    """The next answer."""
    while not (frames := connection.receive()):
        wait(connection.socket, write=False, timeout_s=30)
    (frame,) = frames
    return frame


def write_markers(
    cluster: Cluster, at: TopicPartition, producer_id: int, epoch: int, count: int
) -> int:
    """The error code of `count` markers in one request."""
    with cluster.open_connection(cluster.leader(at).node_id) as connection:
        topic = at.topic.encode()
        send_markers(connection, [Marker(producer_id, epoch, topic, at.partition, count)])
        _, answered = markers.parse(receive_frame(connection))
    return answered[producer_id, topic, at.partition]


def ends(tools: KafkaTools, at: TopicPartition) -> tuple[int, int, int]:
    """Where the log starts, its last stable offset, and its end."""
    return (
        tools.offsets(at.topic, "earliest")[at.partition],
        tools.offsets(at.topic, read_committed=True)[at.partition],
        tools.offsets(at.topic)[at.partition],
    )


def seen(tools: KafkaTools, at: TopicPartition, *, read_committed: bool) -> list[tuple[int, bytes]]:
    found = tools.read(at.topic, [at.partition], read_committed=read_committed)[at.partition]
    return [(record.offset, record.value or b"") for record in found]
