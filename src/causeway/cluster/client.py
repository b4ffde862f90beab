"""Asks one cluster: finds its brokers and leaders, keeps connections, retries. Thread-safe.

What is asked stands in admin.py, offsets.py and producers.py; cluster.py puts all of it together.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from causeway.cluster.metadata import (
    ClusterMetadata,
    LeaderEpochs,
    TopicMetadata,
    metadata_request,
    parse_metadata,
)
from causeway.cluster.pool import Address, Identity, Pool
from causeway.config import ClientSettings
from causeway.errors import BrokerError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Connection, Deadline, QuotaWaits, apis, broker_error, codes, pause_s

# A topic that was just created is unknown to some brokers for a moment; one that does not exist
# is unknown for good. So long is long enough to tell.
UNKNOWN_TOPIC_GRACE_S = 5.0
TOPICS_A_REQUEST = 2_000
SUSPECT_S = 10.0  # a broker that failed is asked last for this long

GROUP, TRANSACTION = 0, 1

T = TypeVar("T")
K = TypeVar("K")


class Leader(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


class ClusterClient:
    def __init__(self, settings: ClientSettings) -> None:
        """Connects to nothing yet."""
        self.settings = settings
        self._identity = Identity(settings)
        self._pool = Pool(settings, self._identity.vet)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._brokers: dict[int, Address] = {}
        self._controller = -1
        self._suspects: dict[Address, float] = {}  # until when, monotonic
        self._topics: dict[str, TopicMetadata] = {}
        self.quotas = QuotaWaits()
        self._epochs = LeaderEpochs()

    def __str__(self) -> str:
        return self.settings.alias

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends idle connections and every wait for a retry."""
        self._closed.set()
        self._pool.close()

    @property
    def timeout_s(self) -> float:
        return self.settings.request_timeout_ms / 1000

    # -- which cluster it is ----------------------------------------------------------------------

    @property
    def cluster_id(self) -> str | None:
        """The id of the only cluster whose brokers are accepted; None while it is unknown."""
        return self._identity.cluster_id

    def expect(self, cluster_id: str) -> str:
        """Refuse brokers of other clusters from now on, with an UnreachableError. Returns the id in
        force: the id of the settings, or of an earlier call, wins."""
        known = self._identity.cluster_id
        counts = self._identity.expect(cluster_id)
        if known not in (None, counts):
            # All metadata so far came from another cluster.
            self._pool.clear()
            with self._lock:
                self._brokers, self._controller, self._topics = {}, -1, {}
        return counts

    # -- who is there -----------------------------------------------------------------------------

    def bootstrap_check(self, timeout_s: float | None = None) -> ClusterMetadata:
        """Proves that the cluster can be reached with these settings; its brokers, no topics.

        Retries for `timeout_s` (the request timeout), then raises UnreachableError; raises
        AuthenticationError at once.
        """
        return self._ask_metadata([], Deadline(timeout_s or self.timeout_s))

    def metadata(
        self, topics: Collection[str] | None = None, *, beside: int | None = None
    ) -> ClusterMetadata:
        """The metadata of all topics, or of `topics`. Topics that are missing or hidden have an
        error. So do partitions whose leader is out of date (see LeaderEpochs). `beside`: a broker
        that is asked only if no other answers."""
        deadline = Deadline(self.timeout_s)
        if topics is None:
            return self._ask_metadata(None, deadline)
        names = list(dict.fromkeys(topics))
        found = self._ask_metadata(names[:TOPICS_A_REQUEST], deadline, beside)
        merged = dict(found.topics)
        for start in range(TOPICS_A_REQUEST, len(names), TOPICS_A_REQUEST):
            found = self._ask_metadata(names[start : start + TOPICS_A_REQUEST], deadline, beside)
            merged.update(found.topics)
        return ClusterMetadata(
            cluster_id=found.cluster_id,
            brokers=found.brokers,
            controller=found.controller,
            topics=merged,
        )

    def note_leader_epoch(self, topic_id: str, partition: int, epoch: int) -> None:
        """A record of that leader epoch was read: no leader of an older one counts any more."""
        with self._lock:
            self._epochs.note(topic_id, partition, epoch)

    def _ask_metadata(
        self, topics: list[str] | None, deadline: Deadline, beside: int | None = None
    ) -> ClusterMetadata:
        request = metadata_request(topics)
        found, outdated, address = self.retry(
            deadline, lambda: self._metadata_once(request, deadline, beside)
        )
        if outdated:
            self._suspect(address)
        with self._lock:
            if found.brokers:
                self._brokers = dict(found.brokers)
            self._controller = found.controller
            if topics is None:
                self._topics = {}
            self._topics.update(found.topics)
        return found

    def _metadata_once(
        self, request: Any, deadline: Deadline, beside: int | None
    ) -> tuple[ClusterMetadata, bool, Address]:
        """One broker's metadata, whether any of it is out of date, and the broker's address."""
        with self.lease(None, deadline, beside=beside) as connection:
            response = connection.call(request, _patience_s(deadline))
            address = connection.host, connection.port
        found = parse_metadata(response, self.settings.alias)
        with self._lock:
            return (*self._epochs.checked(found, self.settings.alias), address)

    def leader(self, tp: TopicPartition, *, refresh: bool = False) -> Leader:
        """The partition's leader, from memory unless `refresh`. Waits for one to be elected."""
        return self.retry(Deadline(self.timeout_s), lambda: self._leader(tp, refresh))

    def _leader(self, tp: TopicPartition, refresh: bool) -> Leader:
        found = self.leaders([tp], refresh=refresh)[tp]
        if isinstance(found, CausewayError):
            self.forget([tp.topic])
            raise found
        return found

    def leaders(
        self,
        tps: Collection[TopicPartition],
        *,
        refresh: bool = False,
        beside: int | None = None,
    ) -> dict[TopicPartition, Leader | CausewayError]:
        """From memory, if known, unless `refresh`. One attempt, no waiting. See `metadata`."""
        with self._lock:
            missing = {tp.topic for tp in tps if refresh or tp.topic not in self._topics}
        if missing:
            self.metadata(missing, beside=beside)
        with self._lock:
            topics, brokers = self._topics, self._brokers
            return {tp: self._pick_leader(tp, topics, brokers) for tp in tps}

    def _pick_leader(
        self,
        tp: TopicPartition,
        topics: Mapping[str, TopicMetadata],
        brokers: Mapping[int, Address],
    ) -> Leader | CausewayError:
        topic = topics.get(tp.topic)
        partition = topic.partitions.get(tp.partition) if topic else None
        subject = f"{tp} on {self}"
        if topic is not None and topic.error is not None:
            return topic.error
        if partition is None:
            return broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION, "find the leader of", subject)
        address = brokers.get(partition.leader)
        if address is None:
            return partition.error or broker_error(5, "find the leader of", subject)
        return Leader(partition.leader, partition.leader_epoch, *address)

    def forget(self, topics: Collection[str]) -> None:
        """Their leaders are looked up again when next needed."""
        with self._lock:
            for topic in topics:
                self._topics.pop(topic, None)

    def coordinator(self, kind: int, key: str) -> int:
        """The broker that coordinates a group (kind GROUP) or transactional id (TRANSACTION)."""
        deadline = Deadline(self.timeout_s)
        return self.retry(deadline, lambda: self._coordinator(kind, key, deadline))

    def _coordinator(self, kind: int, key: str, deadline: Deadline) -> int:
        request = FindCoordinatorRequest(
            key=key, key_type=kind, coordinator_keys=[key], min_version=apis.FIND_COORDINATOR.lowest
        )
        response = self.once(request, None, deadline)
        answer = response.coordinators[0] if response.coordinators else response
        what = "group" if kind == GROUP else "transactional id"
        if answer.error_code:
            raise broker_error(
                answer.error_code,
                "find the coordinator of",
                f"{what} {key} on {self}",
                answer.error_message,
                needs=f"DESCRIBE on {what} {key}",
            )
        with self._lock:
            self._brokers.setdefault(answer.node_id, (answer.host, answer.port))
        return int(answer.node_id)

    # -- requests ---------------------------------------------------------------------------------

    def open_connection(self, node_id: int, *, timeout_s: float | None = None) -> Connection:
        """A connection of the caller's own, to be closed by it. One attempt."""
        return self._pool.open(self._address(node_id, Deadline(self.timeout_s)), timeout_s)

    def renew(self, settings: ClientSettings) -> None:
        """Use `settings`, which has other certificates or passwords, for new connections."""
        self.settings = settings
        self._pool.renew(settings)

    @property
    def refused_for_minutes(self) -> str | None:
        """See Pool."""
        return self._pool.refused_for_minutes

    def call(self, request: Any, node_id: int | None = None) -> Any:
        """Any kafka-python request, at a broker (any one if None).

        Connection faults are retried, so the request must be one that may be carried out twice.
        Error codes inside the response are the caller's to look at.
        """
        deadline = Deadline(self.timeout_s)
        return self.retry(deadline, lambda: self.once(request, node_id, deadline))

    def call_controller(self, request: Any) -> Any:
        """`call`, at the controller, or what stands in for it (with KRaft, any broker)."""
        deadline = Deadline(self.timeout_s)
        return self.retry(deadline, lambda: self.controller_once(request, deadline))

    def controller_once(self, request: Any, deadline: Deadline) -> Any:
        with self._lock:
            controller = self._controller
            known = controller in self._brokers
        if not known:
            controller = self._ask_metadata([], deadline).controller
        return self.once(request, controller if controller >= 0 else None, deadline)

    def once(self, request: Any, node_id: int | None, deadline: Deadline) -> Any:
        if node_id is not None:
            self.heed_quota(node_id, request.API_KEY, deadline)
        with self.lease(node_id, deadline) as connection:
            answer = connection.call(request, _patience_s(deadline))
        if node_id is not None:
            self.quotas.note(node_id, request.API_KEY, answer)
        return answer

    def heed_quota(self, node_id: int, api_key: int, deadline: Deadline) -> None:
        """Wait while a broker throttles such requests; `deadline` moves by that time."""
        if wait_s := self.quotas.wait_s(node_id, api_key, deadline):
            self._closed.wait(wait_s)

    @contextmanager
    def lease(
        self, node_id: int | None, deadline: Deadline, *, beside: int | None = None
    ) -> Iterator[Connection]:
        """A connection to a broker (any one if None, `beside` last) for the length of a `with`
        block.

        A fault inside the block closes it, and forgets what we knew of the cluster's layout.
        """
        if node_id is None:
            connection = self._any(deadline, beside)
        else:
            connection = self._take(self._address(node_id, deadline), deadline)
        try:
            yield connection
        except BaseException as error:
            if not isinstance(error, BrokerError):
                connection.close()
                self._suspect((connection.host, connection.port))
            raise
        finally:
            self._pool.give_back(connection)

    def _take(self, address: Address, deadline: Deadline) -> Connection:
        try:
            connection = self._pool.take(address, deadline.left())
            self._identity.check(connection)  # one in use stayed open when `expect` was called
        except UnreachableError:
            self._suspect(address)
            raise
        return connection

    def _suspect(self, address: Address) -> None:
        """A broker failed us: the leaders that we know may have moved, and others come first."""
        with self._lock:
            self._topics = {}
            self._controller = -1
            self._suspects[address] = time.monotonic() + SUSPECT_S

    def _address(self, node_id: int, deadline: Deadline) -> Address:
        with self._lock:
            address = self._brokers.get(node_id)
        if address is None:
            address = self._ask_metadata([], deadline).brokers.get(node_id)
        if address is None:
            raise UnreachableError(
                "connect to", f"broker {node_id} of {self}", "it is not up", retriable=True
            )
        return address

    def _any(self, deadline: Deadline, beside: int | None = None) -> Connection:
        with self._lock:
            known = list(self._brokers.values())
            last = self._brokers.get(beside) if beside is not None else None
            now = time.monotonic()
            suspects = {address for address, until in self._suspects.items() if until > now}
        random.shuffle(known)
        idle = self._pool.known()
        known.sort(key=lambda address: address not in idle)
        addresses = list(dict.fromkeys([*known, *self.settings.bootstrap]))
        addresses.sort(key=lambda address: (address == last, address in suspects))
        causes: dict[str, None] = {}
        remedy = "set bootstrap.servers"
        for address in addresses:
            try:
                return self._take(address, deadline)
            except UnreachableError as error:
                causes[f"{address[0]}:{address[1]}: {error.cause}"] = None
                remedy = error.remedy
                if deadline.passed():
                    break
        raise UnreachableError(
            "reach",
            f"cluster {self}",
            f"no broker answered in {deadline.seconds:.3g} s: " + "; ".join(causes)
            if causes
            else "no bootstrap servers",
            remedy=remedy,
            retriable=bool(causes),
        )

    # -- retries ----------------------------------------------------------------------------------

    def retry(self, deadline: Deadline, attempt: Callable[[], T]) -> T:
        """Runs `attempt` until it works, raises what no retry heals, or time is over."""
        failures = 0
        while True:
            try:
                return attempt()
            except CausewayError as error:
                if not error.retriable or not self._pause(failures, deadline):
                    raise
                failures += 1

    def retry_each(
        self,
        items: Collection[K],
        attempt: Callable[[list[K], Deadline], Mapping[K, T | CausewayError]],
        *,
        topic_of: Callable[[K], str] = str,
        unknown_topic_grace_s: float = UNKNOWN_TOPIC_GRACE_S,
        patience_s: float | None = None,
    ) -> dict[K, T | CausewayError]:
        """Runs `attempt` on what is left of the items until each has a value or a final error. One
        that still fails after `patience_s` (the request timeout) keeps its error: the others have
        waited for it."""
        deadline = Deadline(self.timeout_s)
        patience = deadline if patience_s is None else Deadline(patience_s)
        grace = Deadline(unknown_topic_grace_s)
        results: dict[K, T | CausewayError] = {}
        left = list(items)
        failures = 0
        while left:
            answers = self.retry(deadline, lambda left=left: attempt(left, deadline))  # type: ignore[misc]
            results.update(answers)
            again = []
            for item in left:
                error = results[item]
                if not isinstance(error, CausewayError) or not error.retriable:
                    continue
                code = error.code if isinstance(error, BrokerError) else 0
                if code in codes.STALE_METADATA:
                    self.forget([topic_of(item)])
                    with self._lock:
                        self._controller = -1
                if code != codes.UNKNOWN_TOPIC_OR_PARTITION or not grace.passed():
                    again.append(item)
            left = again
            if left and (patience.passed() or not self._pause(failures, deadline)):
                break
            failures += 1
        return results

    def _pause(self, failures: int, deadline: Deadline) -> bool:
        """Waits before another attempt; false when there is no time for one."""
        pause = pause_s(failures)
        # An attempt cut short would only hide why the ones before it failed.
        worthwhile = min(1.0, deadline.seconds / 5)
        if deadline.left() < pause + worthwhile or self._closed.is_set():
            return False
        return not self._closed.wait(pause)


def _patience_s(deadline: Deadline) -> float:
    """Half of the time, so that one frozen broker leaves time to ask another."""
    return max(0.05, min(deadline.left(), deadline.seconds / 2))
