"""`AsyncDualProducer`: a DualProducer for asyncio, with the interface of confluent-kafka's
`AIOProducer`.

async with AsyncDualProducer(east, west, spool="…") as producer:
    delivery = await producer.produce("orders", b"…")    # taken
    message = await delivery                             # delivered, as the policy defines it
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Unpack

from confluent_kafka import KafkaError, KafkaException

from causeway_producer.dual import DualProducer
from causeway_producer.options import Settings

_POLL_S = 0.1
_FULL_S = 0.005


class AsyncDualProducer:
    """Takes the arguments of `DualProducer`. Belongs to the event loop in which it is made. Calls
    the callbacks among its settings in another thread."""

    def __init__(
        self,
        primary: Mapping[str, Any],
        other: Mapping[str, Any],
        *,
        spool: str | os.PathLike[str],
        **settings: Unpack[Settings],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = DualProducer(primary, other, spool=spool, **settings)
        self._ended = threading.Event()
        self._known: set[str] = set()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._thread = threading.Thread(target=self._poll, name="causeway-reports", daemon=True)
        self._thread.start()

    async def produce(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> asyncio.Future[Any]:
        """Takes a record; waits if there is no room. Returns a future, which gets the message when
        the record is delivered, or KafkaException."""
        delivery: asyncio.Future[Any] = self._loop.create_future()

        def delivered(error: Any, message: Any) -> None:
            self._loop.call_soon_threadsafe(self._settle, delivery, error, message)

        more["on_delivery"] = delivered
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
        """Waits until all records are reported. Returns the number of unreported records."""
        return await asyncio.to_thread(self._producer.flush, timeout)

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return await asyncio.to_thread(self._producer.list_topics, topic, timeout)

    async def close(self, timeout: float = 10.0) -> bool:
        """Like `DualProducer.close`. Deliveries that are still awaited fail with KafkaException."""
        self._ended.set()
        await asyncio.to_thread(self._thread.join)
        try:
            return await asyncio.to_thread(self._producer.close, timeout)
        finally:
            why = "the producer was closed before: the next start sends the record"
            for delivery in list(self._waiting):
                self._settle(delivery, KafkaError(KafkaError._DESTROY, why), None)

    @property
    def primary(self) -> str:
        return self._producer.primary

    def stats(self) -> dict[str, Any]:
        """Like `DualProducer.stats`."""
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
            except Exception as error:  # of a callback; later deliveries are reported nevertheless
                context = {"message": "a callback raised", "exception": error}
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
