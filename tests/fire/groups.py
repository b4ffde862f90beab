"""Members of consumer groups: one reads for the whole fire, one moves with its topic."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.fire.tape import READER
from tests.fire.topics import number_of

_COMMIT_S = 1.0
_LAST_COMMIT_S = 180.0


class Follower(threading.Thread):
    """The one member of a group, which commits what it has read once a second, and when it ends.
    `read`: the numbers of the records, in order."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.group = group
        self.read: array[int] = array("q")
        self.failure: BaseException | None = None
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                **READER,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "session.timeout.ms": 6_000,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe(list(topics))
        self.start()

    def run(self) -> None:
        committed = time.monotonic()
        try:
            while not self._over.is_set():
                self._read()
                if time.monotonic() - committed > _COMMIT_S:
                    self._commit()
                    committed = time.monotonic()
            self._commit_at_the_end()
        except BaseException as failure:
            self.failure = failure
        finally:
            self._consumer.close()

    def _read(self) -> None:
        for message in self._consumer.consume(200, timeout=0.2):
            if message.error() is not None:
                continue
            try:
                self._consumer.store_offsets(message)
            except KafkaException:
                continue  # the partition was taken from it: it reads the record again
            self.read.append(number_of(message.value(), message.headers()))

    def end(self) -> None:
        self._over.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def _commit(self) -> bool:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # Nothing is new, which is as good as committed.
            return bool(error.args[0].code() == KafkaError._NO_OFFSET)
        return True

    def _commit_at_the_end(self) -> None:
        deadline = time.monotonic() + _LAST_COMMIT_S
        while not self._commit():
            if time.monotonic() > deadline:
                raise AssertionError(f"group {self.group} could not commit")
            self._read()  # a member that does not read cannot join the group again
