"""Finds the brokers and leaders of one cluster, keeps connections, retries. Thread-safe.

The functions that ask the cluster are in the other modules; cluster.py makes them methods.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from causeway.cluster.metadata import (
    ClusterMetadata,
    Leader,
    LeaderEpochs,
    TopicMetadata,
    metadata_request,
    parse_metadata,
    value_of,
)
from causeway.cluster.pool import Address, Pool
from causeway.config import ClientSettings
from causeway.errors import BrokerError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import (
    Connection,
    Deadline,
    QuotaWaits,
    apis,
    broker_error,
    codes,
    error_in,
    pause_s,
)

# Some brokers do not know a new topic for a moment. A topic that is unknown for longer than this
# does not exist.
UNKNOWN_TOPIC_GRACE_S = 5.0
TOPICS_A_REQUEST = 2_000
NAMES_A_REQUEST = 500  # of groups

GROUP, TRANSACTION = 0, 1

T = TypeVar("T")
K = TypeVar("K")


class ClusterClient:
    def __init__(self, settings: ClientSettings) -> None:
        """Opens no connection yet."""
        self.settings = settings
        self._pool = Pool(settings, self._distrust)
        self._lock = threading.Lock()
        self.closed = threading.Event()
        self._brokers: dict[int, Address] = {}
        self._controller = -1
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
        """Closes idle connections, and ends all waits for a retry."""
        self.closed.set()
        self._pool.close()

    @property
    def timeout_s(self) -> float:
        return self.settings.request_timeout_ms / 1000

    # -- the identity of the cluster --------------------------------------------------------------

    @property
    def cluster_id(self) -> str | None:
        """The id of the only cluster whose brokers are accepted; None while it is unknown."""
        return self._pool.identity.cluster_id

    def expect(self, cluster_id: str) -> str:
        """Refuses brokers of other clusters from now on, with an UnreachableError. Returns the id
        in force: the id of the settings, or of an earlier call, wins."""
        known = self._pool.identity.cluster_id
        counts = self._pool.identity.expect(cluster_id)
        if known not in (None, counts):
            # All metadata so far came from another cluster.
            self._pool.clear()
            with self._lock:
                self._brokers, self._controller, self._topics = {}, -1, {}
        return counts

    # -- brokers, leaders, coordinators -----------------------------------------------------------

    def bootstrap_check(self, timeout_s: float | None = None) -> ClusterMetadata:
        """Checks that the cluster can be reached with these settings. Returns its brokers, no
        topics.

        Retries for `timeout_s` (by default the request timeout), then raises UnreachableError.
        Raises AuthenticationError at once.
        """
        return self._ask_metadata([], Deadline(timeout_s or self.timeout_s))

    def metadata(
        self, topics: Collection[str] | None = None, *, last: int | None = None
    ) -> ClusterMetadata:
        """Returns the metadata of all topics, or of `topics`. Missing or hidden topics have an
        error. Partitions whose leader is out of date have one, too (see LeaderEpochs). `last`: a
        broker that is asked only if no other broker answers."""
        deadline = Deadline(self.timeout_s)
        if topics is None:
            return self._ask_metadata(None, deadline)
        names = list(dict.fromkeys(topics))
        known: dict[str, TopicMetadata] = {}
        for start in range(0, max(1, len(names)), TOPICS_A_REQUEST):
            found = self._ask_metadata(names[start : start + TOPICS_A_REQUEST], deadline, last)
            known |= found.topics
        return replace(found, topics=known)

    def note_leader_epoch(self, topic_id: str, partition: int, epoch: int) -> None:
        """A record of that leader epoch was read: leaders of older epochs do not count any more."""
        with self._lock:
            self._epochs.note(topic_id, partition, epoch)

    def _ask_metadata(
        self, topics: list[str] | None, deadline: Deadline, last: int | None = None
    ) -> ClusterMetadata:
        request = metadata_request(topics)
        found, outdated, address = self.retry(
            deadline, lambda: self._metadata_once(request, deadline, last)
        )
        if outdated:
            self._pool.suspect(address)
        with self._lock:
            if found.brokers:
                self._brokers = dict(found.brokers)
            self._controller = found.controller
            if topics is None:
                self._topics = {}
            self._topics.update(found.topics)
        return found

    def _metadata_once(
        self, request: Any, deadline: Deadline, last: int | None
    ) -> tuple[ClusterMetadata, bool, Address]:
        """Returns the metadata of one broker, whether a part of it is out of date, and the broker's
        address."""
        with self.lease(None, deadline, last=last) as connection:
            response = connection.call(request, deadline.share_s())
            address = connection.host, connection.port
        found = parse_metadata(response, self.settings.alias)
        with self._lock:
            return (*self._epochs.checked(found, self.settings.alias), address)

    def leader(self, tp: TopicPartition) -> Leader:
        """Finds the leader, in one attempt. Raises CausewayError."""
        try:
            return value_of(self.leaders([tp])[tp])
        except CausewayError:
            self.forget([tp.topic])
            raise

    def leaders(
        self, tps: Collection[TopicPartition], *, refresh: bool = False, last: int | None = None
    ) -> dict[TopicPartition, Leader | CausewayError]:
        """Finds the leaders in one attempt; asks only for unknown ones unless `refresh`."""
        with self._lock:
            missing = {tp.topic for tp in tps if refresh or tp.topic not in self._topics}
        if missing:
            self.metadata(missing, last=last)
        with self._lock:
            return {tp: self._known_leader(tp) for tp in tps}

    def _known_leader(self, tp: TopicPartition) -> Leader | CausewayError:
        topic = self._topics.get(tp.topic)
        if topic is not None and topic.error is not None:
            return topic.error
        partition = topic.partitions.get(tp.partition) if topic else None
        address = self._brokers.get(partition.leader) if partition else None
        if partition is not None and address is not None:
            return Leader(partition.leader, partition.leader_epoch, *address)
        if partition is not None and partition.error is not None:
            return partition.error
        why = codes.LEADER_NOT_AVAILABLE if partition else codes.UNKNOWN_TOPIC_OR_PARTITION
        return broker_error(why, "find the leader of", f"{tp} on {self}")

    def forget(self, topics: Collection[str]) -> None:
        """Forgets the leaders of `topics`, and the controller: the next use looks them up again."""
        with self._lock:
            self._controller = -1
            for topic in topics:
                self._topics.pop(topic, None)

    def coordinators(
        self, kind: int, keys: Sequence[str], deadline: Deadline
    ) -> dict[str, int | CausewayError]:
        """Finds the broker that coordinates each group or transactional id, in one attempt."""
        with self.lease(None, deadline) as connection:
            answers = connection.call_in_bulk(
                keys,
                NAMES_A_REQUEST,
                lambda chunk: FindCoordinatorRequest(
                    key=chunk[0],
                    key_type=kind,
                    coordinator_keys=chunk,
                    min_version=apis.FIND_COORDINATOR.lowest,
                    max_version=4,  # the first version that has several keys
                ),
                lambda answer: ((each.key, each) for each in answer.coordinators),
                deadline.left(),
            )
        found: dict[str, int | CausewayError] = {}
        for key, answer in answers:
            what = f"{'group' if kind == GROUP else 'transactional id'} {key}"
            where, needs = f"{what} on {self}", f"DESCRIBE on {what}"
            error = error_in(answer, "find the coordinator of", where, needs)
            found[key] = error or answer.node_id
            if error is None:
                with self._lock:
                    self._brokers.setdefault(answer.node_id, (answer.host, answer.port))
        return found

    # -- requests ---------------------------------------------------------------------------------

    def open_connection(self, node_id: int) -> Connection:
        """Opens a connection, in one attempt. The caller owns it and must close it."""
        return self._pool.open(self._address(node_id, Deadline(self.timeout_s)))

    def renew(self, settings: ClientSettings) -> None:
        """Uses `settings`, which has other certificates or passwords, for new connections."""
        self.settings = settings
        self._pool.renew(settings)

    @property
    def refused_for_minutes(self) -> str | None:
        """See Pool."""
        return self._pool.refused_for_minutes

    def call(
        self,
        request: Any,
        node_id: int | None = None,
        check: Callable[[Any], None] = lambda _: None,
        *,
        coordinator_of: tuple[int, str] | None = None,
    ) -> Any:
        """Sends any kafka-python request to a broker (any broker if None), or to the coordinator of
        a group (GROUP, its name) or a transactional id (TRANSACTION, the id).

        It is sent again after failures of connections, so a broker may execute it twice. `check`
        raises the error in an answer. Without `check`, the caller must look at error codes.
        """
        deadline = Deadline(self.timeout_s)

        def attempt() -> Any:
            node = node_id
            if coordinator_of is not None:
                kind, key = coordinator_of
                share = Deadline(deadline.share_s())
                node = value_of(self.coordinators(kind, [key], share)[key])
            answer = self.once(request, node, deadline)
            check(answer)
            return answer

        return self.retry(deadline, attempt)

    def controller_once(self, request: Any, deadline: Deadline) -> Any:
        """Sends a request to the controller (with KRaft, to any broker), in one attempt."""
        with self._lock:
            controller, is_known = self._controller, self._controller in self._brokers
        if not is_known:
            controller = self._ask_metadata([], deadline).controller
        return self.once(request, controller if controller >= 0 else None, deadline)

    def once(self, request: Any, node_id: int | None, deadline: Deadline) -> Any:
        """Does the same as `call`, in one attempt."""
        if node_id is not None:
            self.heed_quota(node_id, request.API_KEY, deadline)
        with self.lease(node_id, deadline) as connection:
            answer = connection.call(request, deadline.share_s())
        if node_id is not None:
            self.quotas.note(node_id, request.API_KEY, answer)
        return answer

    def heed_quota(self, node_id: int, api_key: int, deadline: Deadline) -> None:
        """Waits while a broker throttles requests of this API. `deadline` moves by that time."""
        if wait_s := self.quotas.wait_s(node_id, api_key, deadline):
            self.closed.wait(wait_s)

    @contextmanager
    def lease(
        self, node_id: int | None, deadline: Deadline, *, last: int | None = None
    ) -> Iterator[Connection]:
        """A connection to a broker for a `with` block. If `node_id` is None, it is any broker, and
        `last` only if no other broker answers.

        After a failure inside the block, the connection is closed, and the leaders are forgotten.
        """
        with self._lock:
            known = list(self._brokers.values())
            last_address = None if last is None else self._brokers.get(last)
        if node_id is None:
            connection = self._pool.take_any(known, last_address, deadline)
        else:
            connection = self._pool.take(self._address(node_id, deadline), deadline.left())
        try:
            yield connection
        except BaseException as error:
            if not isinstance(error, BrokerError):
                connection.close()
                self._pool.suspect((connection.host, connection.port))
            raise
        finally:
            self._pool.give_back(connection)

    def _distrust(self) -> None:
        """A broker failed: the leaders that are known may have moved."""
        with self._lock:
            self._topics = {}
            self._controller = -1

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

    # -- retries ----------------------------------------------------------------------------------

    def retry(self, deadline: Deadline, attempt: Callable[[], T]) -> T:
        """Runs `attempt` until it succeeds. Raises an error that is not retriable, or the last
        error if the time is over."""
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
        topic_of: Callable[[K], str] | None = None,
        patience_s: float | None = None,
    ) -> dict[K, T | CausewayError]:
        """Runs `attempt` on the remaining items until each has a value or a final error. Items that
        still fail after `patience_s` (by default the request timeout) keep their errors, because
        the others wait. `topic_of` gives the topic of an item if `attempt` asks its leader: the
        topic may be unknown for a moment, and its leader is looked up again."""
        deadline = Deadline(self.timeout_s)
        patience = deadline if patience_s is None else Deadline(patience_s)
        grace = Deadline(0.0 if topic_of is None else UNKNOWN_TOPIC_GRACE_S)
        results: dict[K, T | CausewayError] = {}
        left = list(dict.fromkeys(items))
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
                    self.forget([] if topic_of is None else [topic_of(item)])
                if code != codes.UNKNOWN_TOPIC_OR_PARTITION or not grace.passed():
                    again.append(item)
            left = again
            if left and (patience.passed() or not self._pause(failures, deadline)):
                break
            failures += 1
        return results

    def _pause(self, failures: int, deadline: Deadline) -> bool:
        """Waits before another attempt. False if there is no time for one."""
        pause = pause_s(failures)
        # A last attempt with too little time would only hide why the earlier attempts failed.
        worthwhile = min(1.0, deadline.seconds / 5)
        if deadline.left() < pause + worthwhile or self.closed.is_set():
            return False
        return not self.closed.wait(pause)
