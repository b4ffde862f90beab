"""Calls that ask clusters, in threads that no end of a run waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T], name: str) -> T:
    """What `call` returns or raises. The end of the run waits for no cluster that does not answer:
    nobody joins that thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(found: list[T], error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(found[0])

    def run() -> None:
        found: list[T] = []
        failure: Exception | None = None
        try:
            found.append(call())
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, found, failure)

    threading.Thread(target=run, name=f"http {name}", daemon=True).start()
    return await done
