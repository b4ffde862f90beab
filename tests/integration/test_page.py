"""The page in a real browser, beside a real mirror: it shows what is, acts, tells when the run
answers no more, and comes back with it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from causeway.config import HttpSettings, RunSettings, Settings
from causeway.errors import ConfigError
from causeway.http import served
from causeway.link_topics import LinkDirectives, PauseDirective, RuleCounts, Scope, TaskRecord
from causeway.model import State
from causeway.status import GroupStatus, LinkProblem
from tests.builders.geo import GEO, Clusters
from tests.builders.geo import look as chosen_ones
from tests.builders.served import settings
from tests.builders.status import full, link, partition
from tests.harness.browser import Watched, chromium
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, await_copied, mm2_file
from tests.harness.statuses import replace
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

_MS = 1000 * PATIENCE_S
WELL = "All topics are mirrored"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_beside_a_mirror(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    port: int,
) -> None:
    topic = f"{prefix}t"
    source.create_topic(topic, 2)
    source.produce(topic, [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(1_000)])
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        f"causeway.http.port = {port}",
    )
    with chromium() as browser:
        seen = Watched(browser, f"http://127.0.0.1:{port}")
        with Running("run", file, directory=tmp_path) as run:
            await_copied(source, topic, target, f"A.{topic}")
            seen.page.goto(seen.base)
            seen.page.wait_for_selector(f"text={WELL}", timeout=_MS)
            assert seen.page.url == f"{seen.base}/page/"
            assert seen.page.text_content(".link h2") == "A->B"
            seen.page.get_by_role("group", name="2 clusters. A to B: running").wait_for(timeout=_MS)
            assert_topics(seen, topic)
            assert_paused_and_resumed(seen)
            seen.open("/events")
            seen.page.wait_for_selector("text=asked for", timeout=_MS)
            for width in (390, 820, 1400):
                for place in (
                    "/overview",
                    "/topics",
                    "/partitions",
                    "/groups",
                    "/tasks",
                    "/events",
                ):
                    seen.open(place)
                    seen.page.wait_for_selector("h1")
                    seen.assert_fits(width)
            seen.open()
            seen.page.wait_for_selector(f"text={WELL}", timeout=_MS)
            run.kill()
            seen.page.wait_for_selector("text=No answer from the run", timeout=_MS)
            assert seen.page.text_content(".link h2") == "A->B", "what was known stays"
        with Running("run", file, directory=tmp_path):
            seen.page.wait_for_selector("[role=alert].gone", state="attached", timeout=_MS)
            seen.page.wait_for_selector(f"text={WELL}", timeout=_MS)
        assert seen.complaints == []


def test_what_comes_together_is_shown_and_who_leads_can_step_down() -> None:
    parts = {
        (a, b): replace(partition(0), topic="orders", target_topic=f"{a}.orders")
        for a, b in (("A", "C"), ("B", "C"))
    }
    links = [
        replace(link(one), name=f"{a}->{b}", source=a, target=b) for (a, b), one in parts.items()
    ]
    settled = tuple(settings(a, b) for a, b in parts)
    run = Settings(links=settled, run=RunSettings(http=HttpSettings(port=0)), spark={})
    with served(run) as serving, chromium() as browser:
        serving.take(lambda: full(*links))
        seen = Watched(browser, str(serving.address))
        seen.open()
        together = seen.page.get_by_role("region", name="Aggregate topics")
        together.get_by_text("A.orders from A").wait_for(timeout=_MS)
        together.get_by_text("B.orders from B").wait_for(timeout=_MS)
        seen.page.get_by_role("button", name="step-down link A->C").click()
        seen.page.get_by_text("stops leading the link").wait_for(timeout=_MS)
        seen.assert_fits(390)
        assert seen.complaints == []


def test_an_answer_that_breaks_off_leaves_what_was_known() -> None:
    """As where the run is killed while it answers."""
    run = Settings(links=(settings(),), run=RunSettings(http=HttpSettings(port=0)), spark={})
    with served(run) as serving, chromium() as browser:
        serving.take(lambda: full(link(partition(0))))
        seen = Watched(browser, str(serving.address))
        seen.open()
        seen.page.wait_for_selector(".link h2", timeout=_MS)
        seen.page.route("**/api/v1/**", lambda route: route.fulfill(status=200, body='{"links": ['))
        seen.page.wait_for_selector("text=No answer from the run", timeout=_MS)
        assert seen.page.text_content(".link h2") == "A->B", "what was known stays"
        seen.page.unroute_all()
        seen.page.wait_for_selector("[role=alert].gone", state="attached", timeout=_MS)
        assert seen.complaints == []


def test_topics_are_chosen_paused_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = Clusters()
    clusters.put_in(monkeypatch)
    run = Settings(links=(GEO,), run=RunSettings(http=HttpSettings(port=0)), spark={})
    with served(run) as serving, chromium() as browser:
        serving.take(chosen_ones)
        seen = Watched(browser, str(serving.address))
        seen.open()
        page = seen.page
        page.get_by_role("link", name="Geo", exact=True).click()
        page.get_by_text("A.orders on B").wait_for(timeout=_MS)
        page.get_by_text("anna@ops").first.wait_for(timeout=_MS)
        card = page.get_by_role("region", name="Add to B")
        card.get_by_label("Topic of A").fill("ite")
        card.locator("datalist option[value=items]").wait_for(state="attached", timeout=_MS)
        card.get_by_label("Topic of A").fill("items")
        card.get_by_label("Your name").fill("ben")
        card.get_by_role("button", name="Copy to B").click()
        card.get_by_text("items is copied to B.").wait_for(timeout=_MS)
        for action, topic in (("resume", "orders"), ("pause", "bills"), ("remove", "orders")):
            page.get_by_role("button", name=f"{action} topic {topic}").click()
            page.get_by_role("dialog").get_by_role("button", name=action).click()
            page.get_by_role("dialog").wait_for(state="detached", timeout=_MS)
        assert [(each["action"], each["names"]) for each in clusters.asked] == [
            ("add", ["items"]),
            ("resume", ["orders"]),
            ("pause", ["bills"]),
            ("remove", ["orders"]),
        ]
        clusters.error = ConfigError("add", "topic item", "there is no topic of that name")
        card.get_by_label("Topic of A").fill("item")
        card.get_by_role("button", name="Copy to B").click()
        card.get_by_text("there is no topic of that name").wait_for(timeout=_MS)
        for width in (390, 1400):
            seen.assert_fits(width)
        # The browser itself tells of answers that refuse.
        assert [each for each in seen.complaints if "Failed to load resource" not in each] == []


EVIL = "<img src=x onerror=alert(1)>\"'`${alert(2)}</script><script>window.had = 1</script>"
PLACES = ("overview", "topics", "partitions", "groups", "lanes", "tasks", "transforms", "problems",
          "events")  # fmt: skip


def test_names_and_reasons_are_text_whatever_they_hold() -> None:
    """Whoever may name a group, a host or a pause could otherwise act as who looks at the page."""
    stopped = replace(partition(0, State.STOPPED), topic=EVIL, target_topic=EVIL, reason=EVIL)
    evil = replace(
        link(stopped),
        reason=EVIL,
        groups=(GroupStatus(group=EVIL, followed=False, partitions=1, reason=EVIL),),
        problems=(LinkProblem(topic=EVIL, reason=EVIL),),
        tasks=(TaskRecord(name="groups", items={EVIL: EVIL}, reason=EVIL),),
        directives=LinkDirectives.of(
            [PauseDirective(who=EVIL, why=EVIL, at=1, scope=Scope(EVIL, 0))]
        ),
    )
    evil = replace(
        evil,
        transforms=(
            replace(evil.transforms[0], unseen=(EVIL,), rules=(RuleCounts(EVIL, 1, 1),), name=EVIL),
        ),
    )
    all_evil = full(evil)
    all_evil = replace(all_evil, lane_trouble=EVIL, lanes=(replace(all_evil.lanes[0], host=EVIL),))
    run = Settings(links=(settings(),), run=RunSettings(http=HttpSettings(port=0)), spark={})
    with served(run) as serving, chromium() as browser:
        serving.take(lambda: all_evil)
        logging.getLogger("causeway.test").error(EVIL, extra={"link": "A->B", "client": EVIL})
        seen = Watched(browser, str(serving.address))
        seen.page.on("dialog", lambda told: seen.complaints.append(told.message))
        for place in PLACES:
            seen.open(f"/{place}")
            seen.page.wait_for_selector("main :text('onerror=alert(1)')", timeout=_MS)
            assert seen.page.locator("img[src=x]").count() == 0
            seen.assert_fits(390)
            await_until(lambda: right_edge(seen) <= 390, PATIENCE_S, "its name is to be seen")
        assert seen.page.evaluate("window.had") is None
        assert seen.complaints == []


def right_edge(seen: Watched) -> float:
    """Of the name of the page that is shown."""
    box = seen.page.locator("nav [aria-current]").bounding_box()
    assert box is not None
    return box["x"] + box["width"]


def assert_topics(seen: Watched, topic: str) -> None:
    """By search and keyboard."""
    page = seen.page
    page.get_by_role("link", name="Topics", exact=True).click()
    page.wait_for_selector(f"text=A.{topic}", timeout=_MS)
    page.keyboard.press("/")
    page.keyboard.type("no such topic")
    page.wait_for_selector("text=No topic matches.", timeout=_MS)
    page.get_by_role("searchbox").fill(topic[-6:].upper())
    page.wait_for_selector("text=1 – 1 of 1", timeout=_MS)
    fold = page.get_by_role("button", name=topic, exact=True)
    fold.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=mirrored to 500 of 500", timeout=_MS)
    assert fold.get_attribute("aria-expanded") == "true"


def assert_paused_and_resumed(seen: Watched) -> None:
    page = seen.page
    page.locator("td.act").get_by_role("button", name="pause topic").click()
    page.get_by_label("Your name").fill("anna")
    page.get_by_label("Reason").fill("by hand")
    page.get_by_role("dialog").get_by_role("button", name="pause").click()
    page.wait_for_selector("td .state.paused", timeout=_MS)
    page.wait_for_selector("text=by hand", timeout=_MS)
    assert "anna@127.0.0.1" in str(page.locator(".partitions .reason").first.text_content())
    page.get_by_role("dialog").wait_for(state="detached", timeout=_MS)
    page.get_by_role("link", name="Overview").click()
    page.wait_for_selector("text=Active directives", timeout=_MS)
    page.wait_for_selector("text=2 partitions paused", timeout=_MS)
    page.get_by_role("link", name="Topics", exact=True).click()
    page.locator("td.act").get_by_role("button", name="resume topic").click()
    page.get_by_role("dialog").get_by_role("button", name="resume").click()
    page.wait_for_selector("td .state.running", timeout=_MS)
