"""What a leader demands of a batch of a client (Kafka's ProduceRequest and LogValidator)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google_crc32c import value

from causeway.errors import CausewayError
from causeway.records import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    BatchHeader,
    decode,
)
from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.log import with_checksum

if TYPE_CHECKING:
    from tests.simulation.cluster.replica import Replica

_NO_TIME: Final = -1


def checked(replica: Replica, raw: bytes | memoryview) -> tuple[bytes, BatchHeader]:
    """The batch as it is appended, with the append time if the topic has that. Raises Refused."""
    topic = replica.topic
    if len(raw) <= MAGIC_AT or raw[MAGIC_AT] != MAGIC:
        raise Refused(errors.INVALID_RECORD, "the batch has no magic 2")
    if len(raw) < HEADER_SIZE:
        raise Refused(errors.CORRUPT_MESSAGE, "the batch is cut off")
    header = BatchHeader.of(raw)
    if LENGTH_OVERHEAD + header.length != len(raw):
        raise Refused(errors.INVALID_RECORD, "a partition has exactly one batch in a request")
    if len(raw) > topic.number("max.message.bytes"):
        raise Refused(
            errors.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {topic.name}-{replica.index} is {len(raw)} "
            "bytes which exceeds the maximum configured value of "
            f"{topic.number('max.message.bytes')}.",
        )
    raw = bytes(raw)
    if value(raw[CRC_START:]) != header.crc:
        raise Refused(errors.CORRUPT_MESSAGE, "Record is corrupt: the CRC is wrong")
    _check_fields(header)
    _check_records(replica, raw, header)
    if len(raw) > topic.number("segment.bytes"):
        raise Refused(
            errors.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {len(raw)} bytes in append to partition "
            f"{topic.name}-{replica.index}, which exceeds the maximum configured segment size of "
            f"{topic.number('segment.bytes')}.",
        )
    if topic.config("message.timestamp.type") == "LogAppendTime":
        now_ms = replica.node.now_ms()
        header = header._replace(
            attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=now_ms
        )
        raw = with_checksum(header, raw[HEADER_SIZE:])
        header = BatchHeader.of(raw)
    return raw, header


def _check_fields(header: BatchHeader) -> None:
    if header.base != 0:
        raise Refused(
            errors.INVALID_RECORD,
            f"Base offset of the first batch should be 0, but it is {header.base}.",
        )
    if header.records <= 0 or header.last_delta + 1 != header.records:
        raise Refused(
            errors.INVALID_RECORD,
            f"Record batch has a last offset delta of {header.last_delta} and "
            f"{header.records} records",
        )
    if header.attributes & CONTROL:
        raise Refused(errors.INVALID_RECORD, "Clients are not allowed to write control records")
    if header.producer_id >= 0 > header.sequence:
        raise Refused(
            errors.INVALID_RECORD,
            f"Invalid sequence number {header.sequence} in record batch with producerId "
            f"{header.producer_id}",
        )
    if header.attributes & TRANSACTIONAL and header.producer_id < 0:
        raise Refused(errors.INVALID_RECORD, "a transactional batch has no producer")


def _check_records(replica: Replica, raw: bytes, header: BatchHeader) -> None:
    """Reads the records only where something depends on them: Kafka reads them all."""
    topic = replica.topic
    append_time = topic.config("message.timestamp.type") == "LogAppendTime"
    now_ms = replica.node.now_ms()
    if not append_time and header.max_timestamp != _NO_TIME:
        newest = now_ms + topic.number("message.timestamp.after.max.ms")
        if header.max_timestamp > newest:
            raise _wrong_time(header.max_timestamp)
        oldest = now_ms - topic.number("message.timestamp.before.max.ms")
        if oldest > 0 and header.base_timestamp < oldest:
            raise _wrong_time(header.base_timestamp)
    if "compact" in topic.policies:
        try:
            keyless = [index for index, record in enumerate(decode(raw)) if record.key is None]
        except CausewayError as error:
            raise Refused(errors.CORRUPT_MESSAGE, str(error)) from error
        if keyless:
            raise Refused(
                errors.INVALID_RECORD,
                "Compacted topic cannot accept message without key in topic partition "
                f"{topic.name}-{replica.index}.",
                keyless,
            )


def _wrong_time(time_ms: int) -> Refused:
    return Refused(
        errors.INVALID_TIMESTAMP,
        f"One or more records have been rejected due to invalid timestamp: {time_ms}",
    )
