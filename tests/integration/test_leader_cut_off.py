"""The network between drivers and target holds all that is sent, for longer than a lease."""

from __future__ import annotations

import threading

import pytest

from causeway.model import State
from causeway.status import Role
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.proxy import Proxies
from tests.harness.running import assert_same, await_copied
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = [pytest.mark.integration, pytest.mark.slow]
_LEASE_S = 6.0


def test_a_network_that_stalls_for_longer_than_a_lease_doubles_nothing(
    source: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leader and standby both hear nothing. When all that was held arrives, one of them leads,
    whichever is quicker, and the other one stands by."""
    topic = prefix + "t"
    source.create_topic(topic, 2)
    proxies = Proxies()
    cluster = LocalCluster("B", advertised=proxies)
    try:
        cluster.start()
        target = KafkaTools(cluster.internal_bootstrap)
        flow = link(source.bootstrap, cluster.bootstrap, prefix + ".*")
        with (
            RunningDaemon(monkeypatch, flow, lease_s=_LEASE_S) as first,
            writing(source, topic, 2, seed=1, pause_s=0.02) as writer,
        ):
            first.await_state(topic, State.RUNNING, 2)
            with RunningDaemon(monkeypatch, flow, lease_s=_LEASE_S) as second:
                second.await_role(Role.STANDBY)
                proxies[1].stall("up", new_ones=True)
                await_until(lambda: proxies[1].held > 0, 60, "something is on its way")
                await_until(lambda: first.link().reason, 120, "the leader cannot write")
                threading.Event().wait(2 * _LEASE_S)
                proxies[1].release()
                both = {Role.LEADING, Role.STANDBY}
                await_until(
                    lambda: {first.link().role, second.link().role} == both, 120, "one leads"
                )
                leading = first if first.link().role is Role.LEADING else second
                leading.await_state(topic, State.RUNNING, 2)
                writer.end()
                await_copied(source, topic, target, f"A.{topic}")
        assert_same(source, topic, target, f"A.{topic}")
    finally:
        cluster.destroy()
        proxies.close()
