"""The APIs of Kafka that Causeway calls, with the versions that it supports.

A broker need not be Apache Kafka. So its answer to ApiVersions, not its release number, says which
APIs it has. Requests have their lowest version from here, and so has the check of a link's brokers
(control/required_apis.py). Names, keys and versions follow Kafka's message definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol import admin, consumer, metadata, producer, sasl

from causeway.errors import BrokerError
from causeway.model import BROKERS_PAGE
from causeway.wire import fetch, markers, produce
from causeway.wire.codes import UNSUPPORTED_VERSION

Versions = Mapping[int, tuple[int, int]]
"""A broker's versions: the lowest and the highest one of each API key."""
Brokers = Mapping[int | None, Versions]
"""The versions of each broker, by node id. None is a broker whose id is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """`since`: the feature that Causeway needs and that version `lowest` is the first to have."""

    key: int
    name: str
    lowest: int
    highest: int
    since: str = ""

    def is_in(self, versions: Versions) -> bool:
        lowest, highest = versions.get(self.key, (0, -1))
        return max(lowest, self.lowest) <= min(highest, self.highest)

    def lacking(self, versions: Versions) -> str:
        """Returns the rest of the sentence "the broker has …" if `versions` do not have the API."""
        lowest, highest = versions.get(self.key, (0, -1))
        if highest < 0:
            return f"no {self.name} (API {self.key})"
        if highest < self.lowest:
            since = f", the first with {self.since}" if self.since else ""
            needed = f"version {self.lowest}{since}"
        else:
            needed = f"version {self.highest} or older"
        return f"{self.name} in versions {lowest} to {highest}, and Causeway needs {needed}"


def _api(request: Any, lowest: int = 0, highest: int | None = None, since: str = "") -> Api:
    """Returns the API of a request class of kafka-python. `highest`: None for the class's highest
    version."""
    return Api(
        key=request.API_KEY,
        name=request.name.removesuffix("Request"),
        lowest=lowest,
        highest=request.max_version if highest is None else highest,
        since=since,
    )


# fetch.py, produce.py and markers.py write these messages for lanes, without kafka-python.
LANE_FETCH: Final = Api(
    key=fetch.API_KEY,
    name="Fetch",
    lowest=fetch.LOWEST_VERSION,
    highest=fetch.HIGHEST_VERSION,
    since="the report of a truncated log",
)
LANE_PRODUCE: Final = Api(
    key=produce.API_KEY,
    name="Produce",
    lowest=produce.LOWEST_VERSION,
    highest=produce.HIGHEST_VERSION,
    since="the format that lanes write",
)
WRITE_TXN_MARKERS: Final = Api(
    key=markers.API_KEY,
    name="WriteTxnMarkers",
    lowest=markers.LOWEST_VERSION,
    highest=markers.HIGHEST_VERSION,
)
# Fetch 13 and Produce 13, and later versions, name topics only by their ids.
FETCH: Final = _api(consumer.FetchRequest, 11, 12, "current leader epochs and all codecs")
PRODUCE: Final = _api(producer.ProduceRequest, 7, 12, "all codecs")
METADATA: Final = _api(metadata.MetadataRequest, 10, 12, "topic ids")
LIST_OFFSETS: Final = _api(consumer.ListOffsetsRequest, 4, since="leader epochs")
OFFSET_FOR_LEADER_EPOCH: Final = _api(
    consumer.OffsetForLeaderEpochRequest, 3, since="answers for consumers"
)
FIND_COORDINATOR: Final = _api(metadata.FindCoordinatorRequest, 1, since="transactional ids")
INIT_PRODUCER_ID: Final = _api(producer.InitProducerIdRequest, 0, 5)
DESCRIBE_PRODUCERS: Final = _api(admin.DescribeProducersRequest)
DESCRIBE_TRANSACTIONS: Final = _api(admin.DescribeTransactionsRequest)
LIST_TRANSACTIONS: Final = _api(admin.ListTransactionsRequest, 0, 0)
ADD_PARTITIONS_TO_TXN: Final = _api(producer.AddPartitionsToTxnRequest, 0, 3)
END_TXN: Final = _api(producer.EndTxnRequest, 0, 3)
CREATE_TOPICS: Final = _api(
    admin.CreateTopicsRequest, 4, since="dry runs and the broker's default number of copies"
)
DELETE_TOPICS: Final = _api(admin.DeleteTopicsRequest)
CREATE_PARTITIONS: Final = _api(admin.CreatePartitionsRequest)
DELETE_RECORDS: Final = _api(admin.DeleteRecordsRequest)
DESCRIBE_CONFIGS: Final = _api(admin.DescribeConfigsRequest, 1, since="the source of each value")
ALTER_CONFIGS: Final = _api(admin.IncrementalAlterConfigsRequest)
DESCRIBE_LOG_DIRS: Final = _api(admin.DescribeLogDirsRequest, 0, 4)
DESCRIBE_CLUSTER: Final = _api(admin.DescribeClusterRequest, 0, 1)
LIST_GROUPS: Final = _api(admin.ListGroupsRequest, 4, since="the states of groups")
OFFSET_FETCH: Final = _api(consumer.OffsetFetchRequest, 2, 8, "all offsets of a group")
OFFSET_COMMIT: Final = _api(consumer.OffsetCommitRequest, 2, 9, "offsets kept by brokers")
DESCRIBE_ACLS: Final = _api(admin.DescribeAclsRequest, 1, since="prefixed patterns")
CREATE_ACLS: Final = _api(admin.CreateAclsRequest, 1, since="prefixed patterns")
DELETE_ACLS: Final = _api(admin.DeleteAclsRequest, 1, since="prefixed patterns")
API_VERSIONS: Final = _api(metadata.ApiVersionsRequest)
SASL_HANDSHAKE: Final = _api(sasl.SaslHandshakeRequest, 1, since="SaslAuthenticate")
SASL_AUTHENTICATE: Final = _api(sasl.SaslAuthenticateRequest)

ALL: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Api))
_BY_NEED: Final = {(api.key, api.lowest): api for api in ALL}
_NAMES: Final = {api.key: api.name for api in ALL}

REMEDY: Final = f"upgrade the broker; {BROKERS_PAGE} lists the APIs that Causeway needs, and why"


def unsupported(
    broker: str, key: int, lowest: int, highest: int, versions: Versions
) -> BrokerError:
    """Returns the error for a call of an API if `broker` has none of the versions `lowest` to
    `highest`."""
    name = _NAMES.get(key, f"API {key}")
    known = _BY_NEED.get((key, lowest))
    since = known.since if known else ""
    wanted = Api(key=key, name=name, lowest=lowest, highest=highest, since=since)
    return BrokerError(
        f"call {name} of",
        broker,
        f"the broker has {wanted.lacking(versions)}",
        code=UNSUPPORTED_VERSION,
        name="UNSUPPORTED_VERSION",
        remedy=REMEDY,
    )


def is_unsupported(error: object) -> bool:
    """Returns whether the broker has no version of the API that Causeway supports."""
    return isinstance(error, BrokerError) and error.code == UNSUPPORTED_VERSION
