"""`AsyncDualProducer`: the same for asyncio, with the interface of confluent-kafka's `AIOProducer`.

async with AsyncDualProducer(east, west, spool="…") as producer:
    delivery = await producer.produce("orders", b"…")    # taken
    message = await delivery                             # delivered, as the policy has it
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway.producer.dual import DualProducer

_POLL_S = 0.1
_FULL_S = 0.005


class AsyncDualProducer:
    """Takes what `DualProducer` takes; made inside a running event loop, and for that one.
    Callbacks among its settings are called in a thread of its own."""

    def __init__(self, primary: Mapping[str, Any], other: Mapping[str, Any], **more: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = DualProducer(primary, other, **more)
        self._ended = threading.Event()
        self._known: set[str] = set()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._thread = threading.Thread(target=self._poll, name="causeway-reports", daemon=True)
        self._thread.start()

    async def produce(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> asyncio.Future[Any]:
        """Returns once the record is taken, which waits while there is no room; the future is
        done with its message once it is delivered, or fails with KafkaException."""
        delivery: asyncio.Future[Any] = self._loop.create_future()

        def told(error: Any, message: Any) -> None:
            self._loop.call_soon_threadsafe(self._settle, delivery, error, message)

        more["on_delivery"] = told
        while True:
            try:
                if topic in self._known:
                    self._producer.produce(topic, value, key, **more)
                else:  # asks the clusters
                    await asyncio.to_thread(self._producer.produce, topic, value, key, **more)
                    self._known.add(topic)
            except BufferError:
                await asyncio.sleep(_FULL_S)
            else:
                if not delivery.done():
                    self._waiting.add(delivery)
                return delivery

    async def flush(self, timeout: float = -1) -> int:
        """Until all records are reported; how many are not."""
        return await asyncio.to_thread(self._producer.flush, timeout)

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return await asyncio.to_thread(self._producer.list_topics, topic, timeout)

    async def close(self, timeout: float = 10.0) -> bool:
        """As `DualProducer.close`; whoever still waits for a delivery gets a KafkaException."""
        self._ended.set()
        await asyncio.to_thread(self._thread.join)
        try:
            return await asyncio.to_thread(self._producer.close, timeout)
        finally:
            why = "the producer was closed before: the record follows at its next start"
            for delivery in list(self._waiting):
                self._settle(delivery, KafkaError(KafkaError._DESTROY, why), None)

    @property
    def primary(self) -> str:
        return self._producer.primary

    def stats(self) -> dict[str, Any]:
        """As `DualProducer.stats`."""
        return self._producer.stats()

    def __len__(self) -> int:
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    async def __aenter__(self) -> AsyncDualProducer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _poll(self) -> None:
        while not self._ended.is_set():
            try:
                self._producer.poll(_POLL_S)
            except Exception as error:  # of a callback; deliveries are told of all the same
                self._tell({"message": "a callback raised", "exception": error})

    def _tell(self, context: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)

    def _settle(self, delivery: asyncio.Future[Any], error: Any, message: Any) -> None:
        self._waiting.discard(delivery)
        if delivery.done():  # cancelled
            return
        if error is not None:
            delivery.set_exception(KafkaException(error))
        else:
            delivery.set_result(message)
