"""Who leads a link: one driver at a time, by a lease in the progress topic.

    standby   reads the topic until no newer lease record has come for a lease
    taking    InitProducerId of `causeway.<source>.<target>` raises the epoch; the first batch with
              it makes the broker refuse what an older leader still sends; then reads to the end,
              after which nothing of an older leader can come
    leading   renews the lease three times a lease

A transactional id's epoch outlives the progress topic: one above 0 where the topic holds no lease
tells that it was lost (deleted, or its disk), and not that this is the link's first start. So that
two first drivers are not taken for that, each announces itself in the topic before it asks for its
epoch, and the first in the log goes first; and it looks whether the id has an epoch before it asks
for one (since Kafka 3.0), as an answer may be lost, and the next one is higher. What was found
stays in the leases from then on. Kafka forgets a transactional id that nobody used for a week, and
then a loss looks like a first start.

A topic that is lost under a running driver is told by the offsets that its writes get, which go
back. Each lease says how far the topic had come, so that the next driver sees it as well.

The broker's refusal keeps records of an older leader out; the lease only keeps two healthy drivers
from taking the link from each other in turns.
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
from causeway.daemon.event_log import Happened
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
# A transactional id that is not used is forgotten after a week by default, and with it its epoch.
_REFRESH_S = 12 * 3600.0
_POLL_S = 0.5  # so often who waits looks whether the lease was let go of
_KEPT_LEASES = 16  # records, of the newest
_NOBODY = -1, -1  # no producer's id and epoch


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
        # Not only the process: two runs in one process are two drivers.
        self._process = f"{processes.fingerprint()}#{os.urandom(6).hex()}"
        self._lock = threading.Lock()
        self._writer: ProgressWriter | None = None
        self._term = 0  # how many times we have led
        self._leading = False  # apart from the lock: a write under way may hold that for long
        self._written_at = 0.0
        self._taken_at = 0.0
        self._alone_at = 0.0
        self._progress_lost: bool | None = None
        self._happened = Happened(link.name)
        # Each lease has them. While we lead, the thread that looks at the clusters sets them.
        self.clusters = ClusterIds()

    def acquire(
        self, stop: threading.Event, on_standby: Callable[[LeaseRecord], None]
    ) -> ProgressContents | None:
        """Blocks until this process leads the link, then returns all progress; None once `stop`.

        `on_standby` is called with each lease record that keeps us waiting. Raises CausewayError.
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
            # Else nobody has led since; what an attempt of ours that failed has found out stands.
            if (lost := contents.leases[-1].progress_lost) is not None:
                self._progress_lost = lost
            self.clusters = contents.clusters
            losses = self.losses
            self._take()
            contents.update(self._topic.read(contents.end))
            # The epoch bars older leaders only if they have our producer id. Kafka gives out a new
            # id where it forgot the old one or its epochs are used up, so bar those as well.
            assert self._writer is not None
            strangers = {
                lease.producer_id: lease.producer_epoch
                for lease in contents.leases
                if lease.producer_id not in (-1, self._writer.producer_id)
            }
            for producer_id, epoch in strangers.items():
                self._bar(producer_id, epoch)
            if strangers:
                contents.update(self._topic.read(contents.end))
            self.clusters = contents.clusters
            if self.losses != losses:
                cause = "it was made anew since it was read"
                raise CausewayError("lead by", self._topic.topic, cause, retriable=True)
            self._term += 1
            self._leading = True
            lease_s = max(lease.lease_s for lease in contents.leases)
            self._alone_at = time.monotonic() + lease_s * MARGIN
        self._happened.begin(contents.events)
        _log.info("lead link", extra={"link": self._link.name, "driver": self._owner})
        return contents

    @property
    def progress_lost(self) -> bool:
        """Whether the link has been led before the oldest of what its topic holds."""
        return bool(self._progress_lost or self.losses)

    @property
    def losses(self) -> int:
        """How often the topic was found to lack what had been written to it. All that is known has
        to be written again after each."""
        return self._topic.losses

    @property
    def term(self) -> int | None:
        """Which of our times of leading this is, from 1 on; None unless we surely lead. Two equal
        answers mean that nobody else has led in between."""
        surely = self._leading and clock() - self._written_at < self._lease_s
        return self._term if surely else None

    @property
    def alone_at(self) -> float:
        """When (monotonic) no lane of an earlier leader has a lease any more."""
        return self._alone_at

    @property
    def alone_in_s(self) -> float:
        """After so long no lane of an earlier leader has a lease; 0 where none has."""
        return max(0.0, self._alone_at - time.monotonic())

    @property
    def throttled_s(self) -> float:
        """For how long the target throttles our writes, by a quota."""
        return self._cluster.quotas.left_s(produce.API_KEY)

    @property
    def renewal_due(self) -> bool:
        return clock() - self._written_at > self._lease_s / 3

    def write(self, entries: Sequence[Entry]) -> None:
        """Returns once `entries`, and a renewed lease, are durably in the topic.

        Raises LeadershipLostError; after any other CausewayError call again.
        """
        with self._lock:
            if self._writer is None:
                raise LeadershipLostError("write progress", self._topic.topic, "not leading")
            try:
                if clock() - self._taken_at > _REFRESH_S:
                    self._writer.write([self._record()])  # proves that nobody else leads by now
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
        """Waits until another driver leads, or so long. Raises CausewayError."""
        contents = self._topic.read()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not stop.wait(_POLL_S / 2):
            if any(lease.process != self._process for lease in contents.leases[-1:]):
                return
            contents.update(self._topic.read(contents.end))

    def lose(self) -> None:
        """Forgets that we led: another driver does, or may."""
        self._leading = False
        with self._lock:
            self._writer = None

    def _announce(self, contents: ProgressContents) -> None:
        """In a topic that nobody has led from yet: that we are about to. Of several who say so, the
        first in the log goes first, and `contents` has it alone for the others to wait for."""
        writer = ProgressWriter(self._topic, *_NOBODY)
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
        """Whether its holder is this object, or a process of this machine that has ended."""
        return lease.process == self._process or processes.has_ended(lease.process)

    def _take(self) -> None:
        if self._link.delivery == "exactly-once":
            name = self._link.transactional_id
            if self._progress_lost is None and self._cluster.knows_transactional_id(name) is False:
                self._progress_lost = False
            producer = self._cluster.init_transactional_id(name)
        else:
            producer = _NOBODY
        if self._progress_lost is None:
            self._progress_lost = producer[1] > 0
        self._writer = ProgressWriter(self._topic, *producer)
        writing_at = clock()
        self._writer.write([self._record()])
        self._taken_at = self._written_at = writing_at

    def _bar(self, producer_id: int, epoch: int) -> None:
        try:
            ProgressWriter(self._topic, producer_id, min(epoch + 1, 32_767)).write([self._record()])
        except LeadershipLostError:
            pass  # it is barred already

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
        )
