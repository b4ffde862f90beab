"""How long until 5,000 consumer groups stand on the target where they stand on the source."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.stage import Stage
from bench.start import write
from bench.systems import system
from bench.usage import Meter, Usage
from causeway.cluster import Cluster, Committed
from causeway.config import ClientSettings
from causeway.errors import CausewayError
from causeway.model import TopicPartition

PARTITIONS = 10
_RECORDS_EACH = 1_000
_TIMEOUT_S = 300.0
_POLL_S = 0.2
_SAMPLE = 50  # groups that are asked for while the others may still be on their way
_FLOW = {
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """`usage.seconds`: from the last commit on the source until the last group's offsets are on the
    target, with all groups moved at once; a second of it is the interval."""

    groups: int
    partitions: int
    usage: Usage


def measure(stage: Stage, name: str, groups: int, say: Say) -> Groups:
    with (
        stage.run("groups", PARTITIONS) as run,
        _cluster(stage.source.internal_bootstrap) as source,
        _cluster(stage.target.internal_bootstrap) as target,
    ):
        write(stage.source.internal_bootstrap, run.topic, PARTITIONS, _RECORDS_EACH)
        names = [f"{run.topic}-{number}" for number in range(groups)]
        mirror = system(name, stage, run, flow=_FLOW)
        with mirror, Meter(mirror.roots, stage.broker_pids) as meter:
            say("starting")
            wanted = dict.fromkeys(range(PARTITIONS), _RECORDS_EACH)
            stage.watch(run).await_ends(wanted, alive=mirror.check, timeout_s=_TIMEOUT_S)
            # The first time brings the groups into being on the target, the second one counts.
            for offset in (_RECORDS_EACH // 2, _RECORDS_EACH):
                say(f"{groups:,} groups to offset {offset}")
                _commit(source, run.topic, names, offset)
                meter.start()
                begun = time.monotonic()
                while not _stand(target, run.mirrored, names, offset):
                    mirror.check()
                    if time.monotonic() - begun > _TIMEOUT_S:
                        raise CausewayError("measure", name, "the groups do not arrive")
                    time.sleep(_POLL_S)
                usage = meter.stop(seconds=time.monotonic() - begun)
        say(f"{usage.seconds:.2f} s, {usage.cpu_s:.1f} s of CPU")
        return Groups(groups=groups, partitions=PARTITIONS, usage=usage)


def _cluster(bootstrap: str) -> Cluster:
    host, _, port = bootstrap.partition(":")
    return Cluster(ClientSettings(alias="bench", bootstrap=((host, int(port)),)))


def _commit(source: Cluster, topic: str, names: list[str], offset: int) -> None:
    standing = {TopicPartition(topic, p): Committed(offset=offset) for p in range(PARTITIONS)}
    for group, answer in source.commit_offsets(dict.fromkeys(names, standing)).items():
        if isinstance(answer, CausewayError):
            raise CausewayError("commit for", group, str(answer))


def _stand(target: Cluster, topic: str, names: list[str], offset: int) -> bool:
    """Whether all of them are there; most of the time a look at some tells that they are not."""
    for some in (names[:: max(1, len(names) // _SAMPLE)], names):
        for found in target.committed_offsets_of(some).values():
            if isinstance(found, CausewayError):
                raise found
            if any(
                (at := found.get(TopicPartition(topic, p))) is None or at.offset < offset
                for p in range(PARTITIONS)
            ):
                return False
    return True
