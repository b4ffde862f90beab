"""Asks a run over HTTP, so and so often a second, as pages and scripts do. A process of its own:

    python -m bench.asker URL PER_SECOND

asks until its standard input ends, waits as long as nobody answers, and prints what it has seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from urllib.parse import urlsplit

_PATHS = (
    "/api/v1/overview",
    "/api/v1/topics?limit=50",
    "/api/v1/partitions?limit=100",
    "/connectors?expand=status",
)
_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`p50`, `p99`: ms of an answer."""

    answers: int
    failures: int
    p50: float
    p99: float

    def __str__(self) -> str:
        return (
            f"{self.answers:,} answers, {self.failures} failures, p50 {self.p50}, p99 {self.p99} ms"
        )


class Asker:
    """Asks while the block lasts; `asked` then."""

    def __init__(self, address: str, per_s: int) -> None:
        self._command = [sys.executable, "-m", "bench.asker", address, str(per_s)]
        self._process: subprocess.Popen[str] | None = None
        self.asked: Asked | None = None

    def __enter__(self) -> Asker:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        text, _ = self._process.communicate()
        if error is None:
            self.asked = Asked(**json.loads(text))


class _Asking(threading.Thread):
    def __init__(self, host: str, port: int, per_s: float, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._place = host, port
        self._pause = 1 / per_s
        self._stop_asking = stop
        self.took: list[float] = []
        self.failures = 0

    def run(self) -> None:
        connection = HTTPConnection(*self._place, timeout=30)
        at = time.monotonic()
        number = unanswered = 0
        while not self._stop_asking.is_set():
            began = time.monotonic()
            try:
                connection.request("GET", _PATHS[number % len(_PATHS)])
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):
                connection.close()
                unanswered += 1
            else:
                if self.took:  # before the first answer, and after the last, there is no run
                    self.failures += unanswered
                unanswered = 0
                self.took.append(time.monotonic() - began)
                self.failures += answer.status not in (200, 503)
            number += 1
            at = max(at + self._pause, time.monotonic() - 1.0)
            self._stop_asking.wait(max(0.0, at - time.monotonic()))


def main(address: str, per_s: float) -> Asked:
    parts = urlsplit(address)
    stop = threading.Event()
    threads = [
        _Asking(parts.hostname or "", parts.port or 80, per_s / _THREADS, stop)
        for _ in range(_THREADS)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    took = sorted(1000 * each for thread in threads for each in thread.took) or [0.0]
    return Asked(
        answers=sum(len(thread.took) for thread in threads),
        failures=sum(thread.failures for thread in threads),
        p50=round(took[len(took) // 2], 2),
        p99=round(took[int(len(took) * 0.99)], 2),
    )


if __name__ == "__main__":
    print(json.dumps(asdict(main(sys.argv[1], float(sys.argv[2])))))
