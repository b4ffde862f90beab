"""Kafka's protocol over plain sockets: connections, requests and answers, error codes."""

import logging

from causeway.wire import apis, codes, fetch, markers, produce
from causeway.wire.apis import Api, Brokers, Versions, is_unsupported, unsupported
from causeway.wire.codes import broker_error, error_in, raise_error
from causeway.wire.connection import Connection, round_trip_s
from causeway.wire.deadline import (
    MOST_WAIT_S,
    Deadline,
    QuotaWaits,
    pause_s,
    throttle_s,
    throttled_text,
)
from causeway.wire.fetch import (
    SESSION_ERRORS,
    EpochEnd,
    Fetched,
    FetchPosition,
    FetchSession,
    Place,
)
from causeway.wire.frames import KEPT_BYTES, Buffers, SendQueue, wait
from causeway.wire.group_offsets import (
    CommitAnswer,
    CommitOffsets,
    Committed,
    FetchOffsets,
    FoundOffsets,
)
from causeway.wire.markers import Marker
from causeway.wire.produce import Part, Produced, Stamped
from causeway.wire.sockets import user_timeout_of

# kafka-python logs whole requests (SASL tokens among them) and warns about problems that we report
# ourselves, as errors with a cause and a remedy.
logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
