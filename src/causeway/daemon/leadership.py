"""Decides which driver leads a link: one at a time, by a lease in the progress topic.

    standby   reads the topic until no newer lease record has come for the duration of a lease
    taking    InitProducerId of `causeway.<source>.<target>` raises the epoch. After the first batch
              with it, the broker refuses all that an older leader still sends. Then it reads the
              topic to its end: no record of an older leader can follow
    leading   renews the lease three times a lease

The epoch of a transactional id outlives the progress topic. If the topic holds no lease and the
epoch is above 0, the topic was lost (deleted, or its disk), and this is not the link's first start.
Two drivers that start for the first time must not look like such a loss. So each driver announces
itself in the topic before it asks for its epoch, and the driver whose announcement is first in the
log leads first. A driver also checks whether the id has an epoch before it asks for one (since
Kafka 3.0): if the answer with the epoch is lost, the next epoch is higher. All later leases contain
the result. Kafka forgets a transactional id that was not used for a week; after that a loss looks
like a first start.

If the topic is lost under a running driver, the offsets of the driver's writes go back. Each lease
contains the end of the topic, so that the next driver notices the loss as well.

The broker refuses records of an older leader. The lease has only one purpose: two healthy drivers
do not take the link from each other repeatedly.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from causeway.cluster import Cluster, one_cluster
from causeway.config import LinkSettings
from causeway.daemon import processes
from causeway.daemon.events import EventLog
from causeway.daemon.lanes import MARGIN
from causeway.errors import CausewayError
from causeway.link_topics import (
    ClusterIds,
    Entry,
    LeadershipLostError,
    LeaseRecord,
    ProgressContents,
    ProgressTopic,
    ProgressWriter,
    TopicLog,
)
from causeway.relay.lane import clock
from causeway.wire import produce

_log = logging.getLogger("causeway.leadership")
# Kafka forgets an unused transactional id, with its epoch, after a week by default.
_REFRESH_S = 12 * 3600.0
_POLL_S = 0.5  # between two checks of a standby for a released lease
_KEPT_LEASES = 16  # the newest lease records
_NO_PRODUCER = -1, -1  # id and epoch


class Leadership:
    """This process's part in leading one link. `write` and `renew` may come from any thread."""

    def __init__(
        self, cluster: Cluster, admin: Cluster, link: LinkSettings, lease_s: float
    ) -> None:
        self._cluster = cluster
        self._link = link
        self._lease_s = lease_s
        self._topic = ProgressTopic(cluster, link.progress_topic, admin=admin)
        self._directives = TopicLog(cluster, link.directives_topic, admin=admin)
        self._owner = f"{socket.gethostname()}/{os.getpid()}"
        # The process alone is not enough: two runs in one process are two drivers.
        self._process = f"{processes.fingerprint()}#{os.urandom(6).hex()}"
        self._lock = threading.Lock()
        self._writer: ProgressWriter | None = None
        self._term = 0  # how many times we have led
        self._leading = False  # outside of the lock: a write may hold the lock for long
        self._written_at = 0.0
        self._taken_at = 0.0
        self.alone_at = 0.0  # (monotonic) when the last lease of an earlier leader's lanes ends
        self._progress_lost: bool | None = None
        self._happened = EventLog(link.name)
        # Each lease contains them. The discoverer sets them while this process leads.
        self.clusters = ClusterIds()
        self.settings: str | None = None  # a hash of the flow's settings; other drivers compare it

    def acquire(
        self, stop: threading.Event, on_standby: Callable[[LeaseRecord], None]
    ) -> ProgressContents | None:
        """Blocks until this process leads the link, then returns all progress. Returns None after
        `stop`.

        `on_standby` gets each lease record that makes this driver wait. Raises CausewayError.
        """
        self._happened.listen()
        if not self._topic.exists():
            one_cluster(
                self._cluster.settings
            )  # else the topic could be created on another cluster
        self._topic.ensure()
        self._directives.keep_compacted()
        contents = self._topic.read()
        if not any(lease.process == self._process for lease in contents.leases):
            self._progress_lost = None
        if not contents.leases:
            self._announce(contents)
        if not self._wait_for_lease(contents, stop, on_standby):
            self._happened.end()
            return None
        with self._lock:
            # None: no driver has led since then. The result of our own failed attempt still holds.
            if (lost := contents.leases[-1].progress_lost) is not None:
                self._progress_lost = lost
            self.clusters = contents.clusters
            losses = self.losses
            self._take()
            contents.update(self._topic.read(contents.end))
            # The epoch fences older leaders only if they have our producer id. Kafka gives out a
            # new id if it has forgotten the old id or has used up its epochs. So fence the old ids
            # as well.
            assert self._writer is not None
            others = {
                lease.producer_id: lease.producer_epoch
                for lease in contents.leases
                if lease.producer_id not in (-1, self._writer.producer_id)
            }
            for producer_id, epoch in others.items():
                self._fence(producer_id, epoch)
            if others:
                contents.update(self._topic.read(contents.end))
            self.clusters = contents.clusters
            if self.losses != losses:
                cause = "it was recreated since it was read"
                raise CausewayError("lead by", self._topic.topic, cause, retriable=True)
            self._term += 1
            self._leading = True
            lease_s = max(lease.lease_s for lease in contents.leases)
            self.alone_at = time.monotonic() + lease_s * MARGIN
        self._happened.begin(contents.events)
        _log.info("lead link", extra={"link": self._link.name, "driver": self._owner})
        return contents

    @property
    def progress_lost(self) -> bool:
        """Whether a driver led the link before the oldest record of its topic."""
        return bool(self._progress_lost or self.losses)

    @property
    def losses(self) -> int:
        """How often the topic turned out to lack records that were written to it. After each loss
        everything has to be written again."""
        return self._topic.losses

    @property
    def term(self) -> int | None:
        """The number of this process's current term, from 1 on. None unless it surely leads. If two
        calls return the same number, no other driver has led between them."""
        surely = self._leading and clock() - self._written_at < self._lease_s
        return self._term if surely else None

    @property
    def alone_in_s(self) -> float:
        """Seconds until the last lease of an earlier leader's lanes has ended; 0 after that."""
        return max(0.0, self.alone_at - time.monotonic())

    @property
    def throttled_s(self) -> float:
        """Seconds for which the target throttles our writes, by a quota."""
        return self._cluster.quotas.left_s(produce.API_KEY)

    @property
    def renewal_due(self) -> bool:
        return clock() - self._written_at > self._lease_s / 3

    def write(self, entries: Sequence[Entry]) -> None:
        """Returns once `entries` and a renewed lease are durably in the topic.

        Raises LeadershipLostError. After any other CausewayError call it again.
        """
        with self._lock:
            if self._writer is None:
                raise LeadershipLostError("write progress", self._topic.topic, "not leading")
            try:
                if clock() - self._taken_at > _REFRESH_S:
                    self._writer.write([self._record()])  # proves that no other driver leads
                    self._take()
                writing_at = clock()
                losses = self.losses
                self._writer.write([self._record(), *entries, *self._happened.unwritten()])
                self._happened.written(again=self.losses != losses)
            except LeadershipLostError:
                self._leading = False
                raise
            self._written_at = writing_at

    def ensure_topic(self) -> None:
        self._topic.ensure()

    def renew(self) -> None:
        self.write(())

    def release(self) -> None:
        """Lets a standby take over at once. Never raises."""
        self._leading = False
        self._happened.end()
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is None:
                return
            try:
                last = self._happened.unwritten()
                writer.write([*last, self._record(writer, released=True)])
            except CausewayError as error:
                _log.debug("release %s: %s", self._link.name, error)

    def let_others(self, stop: threading.Event, seconds: float) -> None:
        """Waits until another driver leads, at most `seconds`. Raises CausewayError."""
        contents = self._topic.read()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not stop.wait(_POLL_S / 2):
            if any(lease.process != self._process for lease in contents.leases[-1:]):
                return
            contents.update(self._topic.read(contents.end))

    def lose(self) -> None:
        """Forgets the lead, because another driver leads, or may lead."""
        self._leading = False
        with self._lock:
            self._writer = None

    def _announce(self, contents: ProgressContents) -> None:
        """Announces, in a topic without leases, that this driver is about to lead. The driver of
        the first announcement in the log leads first: `contents` keeps only that one, and the other
        drivers wait for it."""
        writer = ProgressWriter(self._topic, *_NO_PRODUCER)
        writer.write([self._record(writer)])
        contents.update(self._topic.read(contents.end))
        led = [lease for lease in contents.leases if lease.progress_lost is not None]
        contents.leases = led or contents.leases[:1]

    def _wait_for_lease(
        self,
        contents: ProgressContents,
        stop: threading.Event,
        on_standby: Callable[[LeaseRecord], None],
    ) -> bool:
        seen_at = time.monotonic()
        while not stop.is_set():
            lease = contents.leases[-1] if contents.leases else None
            if lease is None or lease.released or self._is_ours(lease):
                return True
            left = seen_at + lease.lease_s - time.monotonic()
            if left <= 0:
                return True
            on_standby(lease)
            stop.wait(min(left, lease.lease_s / 5, _POLL_S))
            known = len(contents.leases)
            contents.update(self._topic.read(contents.end))
            if len(contents.leases) > known:
                seen_at = time.monotonic()
                del contents.leases[:-_KEPT_LEASES]
        return False

    def _is_ours(self, lease: LeaseRecord) -> bool:
        """Returns whether the lease belongs to this object, or to an ended process of this
        machine."""
        return lease.process == self._process or processes.has_ended(lease.process)

    def _take(self) -> None:
        if self._link.delivery == "exactly-once":
            name = self._link.transactional_id
            if self._progress_lost is None and self._cluster.knows_transactional_id(name) is False:
                self._progress_lost = False
            producer = self._cluster.init_transactional_id(name)
        else:
            producer = _NO_PRODUCER
        if self._progress_lost is None:
            self._progress_lost = producer[1] > 0
        self._writer = ProgressWriter(self._topic, *producer)
        writing_at = clock()
        self._writer.write([self._record()])
        self._taken_at = self._written_at = writing_at

    def _fence(self, producer_id: int, epoch: int) -> None:
        try:
            ProgressWriter(self._topic, producer_id, min(epoch + 1, 32_767)).write([self._record()])
        except LeadershipLostError:
            pass  # it is fenced already

    def _record(
        self, writer: ProgressWriter | None = None, *, released: bool = False
    ) -> LeaseRecord:
        writer = writer or self._writer
        assert writer is not None
        return LeaseRecord(
            link=self._link.name,
            owner=self._owner,
            process=self._process,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            lease_s=self._lease_s,
            released=released,
            progress_lost=True if self.losses else self._progress_lost,
            reached=self._topic.reached,
            source_cluster=self.clusters.source,
            target_cluster=self.clusters.target,
            settings=self.settings,
        )
