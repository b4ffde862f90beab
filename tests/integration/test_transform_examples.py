"""examples/transforms/ on real clusters: the commands of each page as they stand, and every record.

`run` and `plan` of all pages are one process each, on a file that is all of theirs together: what
each link has in it stays as it is. What arrives is compared with what plain Python, which shares no
code with Causeway, makes of the records of the source.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from causeway.config import Settings
from causeway.formats import load
from examples import topics
from examples.transforms import write
from tests.harness.ciphers import opened, tokenised
from tests.harness.command import Ended, causeway
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools, Record
from tests.harness.running import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "transforms"
# By the folder of its file: the page that has the commands.
PAGES = {
    "flights": FOLDER / "flights" / "README.md",
    "customers": FOLDER / "customers" / "README.md",
    "gdpr": ROOT / "docs" / "how-to" / "transforms-gdpr.md",
    "hybrid-cloud": ROOT / "docs" / "how-to" / "transforms-hybrid-cloud.md",
    "event-types": FOLDER / "event-types" / "README.md",
    "order-lines": FOLDER / "order-lines" / "README.md",
}
ABROAD = ("US", "CA", "BR", "JP")


@dataclass(slots=True, kw_only=True)
class World:
    """What came of the commands. `files` of `run`; `ended`: of other commands, by their first word.
    `environment` has the brokers' addresses and the secrets of the pages."""

    source: KafkaTools
    target: KafkaTools
    directory: Path
    environment: dict[str, str]
    files: list[Path] = field(default_factory=list)
    ended: dict[str, Ended] = field(default_factory=dict)
    later: list[list[str]] = field(default_factory=list)

    def secret(self, name: str) -> bytes:
        return bytes.fromhex(self.environment[name])

    def pairs(self, topic: str, mirror: str) -> Iterator[tuple[list[Record], list[Record]]]:
        """The records of each partition of a topic and of what it became."""
        there, here = self.source.read(topic), self.target.read(mirror)
        assert there.keys() == here.keys()
        assert any(there.values())
        for partition, records in there.items():
            yield records, here[partition]


def blocks(page: Path, language: str = "") -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for kind, block in fences if kind == language]


def commands(page: Path) -> Iterator[str]:
    for line in "".join(blocks(page)).splitlines():
        if line.startswith(("make ", ".venv/", "export ")):
            yield line.partition("  #")[0].rstrip()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All pages, followed to their ends."""
    clusters = [LocalCluster("A"), LocalCluster("B")]
    try:
        start_all(clusters)
        a, b = (KafkaTools(each.bootstrap) for each in clusters)
        world = World(
            source=a,
            target=b,
            directory=tmp_path_factory.mktemp("transforms"),
            environment={"A": a.bootstrap, "B": b.bootstrap},
        )
        for page in PAGES.values():
            for line in commands(page):
                follow(world, line)
        assert [file.parent.name for file in world.files] == list(PAGES)
        together = str(merged(world))
        carry_out(world, ["plan", "--json", together])
        carry_out(world, ["run", "--until-caught-up", together])
        for words in world.later:
            carry_out(world, words)
        yield world
    finally:
        for each in clusters:
            each.destroy()


def carry_out(world: World, words: list[str]) -> None:
    ended = causeway(*words, environment=world.environment, timeout_s=4 * PATIENCE_S)
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    world.ended[words[0]] = ended


def follow(world: World, line: str) -> None:
    line = line.replace("$A", world.environment["A"])
    match shlex.split(line):
        case ["make", "install"] | [".venv/bin/causeway", "dev", "up" | "down"]:
            pass  # this Python, and the clusters of this test
        case ["export", "A=127.0.0.1:20001", "B=127.0.0.1:20002"]:
            pass
        case ["export", _, "rand", "-hex", "32)"]:
            name, value = line.removeprefix("export ").split("=")
            assert value == "$(openssl rand -hex 32)"
            world.environment.setdefault(name, secrets.token_hex(32))
        case [".venv/bin/python", "-m", "examples.transforms.write", *arguments]:
            assert write.main(arguments) == 0
        case [".venv/bin/python", "-m", "examples.topics", *arguments]:
            assert topics.main(arguments) == 0
        case [".venv/bin/causeway", "run", file, "--until-caught-up"]:
            world.files.append(ROOT / file)
        case [".venv/bin/causeway", "plan", _]:
            pass  # of all together
        case [".venv/bin/causeway", "try", file, *arguments]:
            carry_out(world, ["try", str(ROOT / file), *arguments])
        case [".venv/bin/causeway", "decrypt" | "status" as name, file, *arguments]:
            world.later.append([name, str(ROOT / file), *arguments])
        case _:
            pytest.fail(f"nobody runs this line: {line}")


def merged(world: World) -> Path:
    """One file of all that `run` was called with: their links and transforms, all at once."""
    lists: dict[str, list[str]] = {}
    every: dict[str, str] = {}
    for file in world.files:
        for key, value in javaproperties.loads(file.read_text(encoding="utf-8")).items():
            if key == "clusters" or key.endswith((">B.topics", ".transforms")):
                known = lists.setdefault(key, [])
                known += [each for each in value.split(", ") if each not in known]
            else:
                assert every.setdefault(key, value) == value
        for query in file.parent.glob("*.sql"):
            shutil.copy(query, world.directory)
    every |= {key: ", ".join(values) for key, values in lists.items()}
    every["emit.heartbeats.enabled"] = "false"
    path = world.directory / "mm2.properties"
    path.write_text(javaproperties.dumps(every, timestamp=False))
    return path


def test_flights_whose_tail_number_is_hashed(world: World) -> None:
    pepper = world.environment["PEPPER"].encode()

    def hashed(text: str | None) -> str | None:
        return None if text is None else hmac.digest(pepper, text.encode(), "sha256").hex()

    seen = 0
    for before, after in world.pairs("flights", "A.flights"):
        seen += len(before)
        assert len(after) == len(before)
        for one, other in zip(before, after, strict=True):
            flight = parsed(one)
            wanted = {**flight, "tailnum": hashed(flight["tailnum"])}
            assert parsed(other) == wanted
            assert other.key == (None if one.key is None else wanted["tailnum"].encode())
            assert (other.timestamp, other.headers) == (one.timestamp, one.headers)
    assert seen == 10_000


def test_customers_whom_readers_do_not_know(world: World) -> None:
    cards: dict[str, str] = {}
    deleted = 0
    for before, after in world.pairs("customers", "A.customers"):
        assert len(after) == len(before)
        for one, other in zip(before, after, strict=True):
            assert (other.key, other.timestamp) == (one.key, one.timestamp)
            if one.value is None:
                assert other.value is None
                deleted += 1
                continue
            customer, found = parsed(one), parsed(other)
            name = found.pop("name")
            assert name.startswith("cw1:name_key:")
            assert opened(name, world.secret("NAME_KEY"), "value.$.name") == customer.pop("name")
            local, domain = customer["email"].split("@")
            customer["email"] = re.sub(r"[^\W_]", "*", local) + "@" + domain
            customer["born"] = customer["born"][:4] + "-01-01"
            if "card" in customer:
                token = tokenised(customer["card"], world.secret("CARD_KEY"))
                assert re.fullmatch(r"\d{4}-\d{4}-\d{4}-\d{4}", token)
                assert cards.setdefault(customer["card"], token) == token
                customer["card"] = token
            assert found == customer
    assert deleted == 500 // 25
    assert len(set(cards.values())) == len(cards) < 480 - 20, "some have the same"


def test_a_reader_with_the_key_reads_names(world: World) -> None:
    """On the target cluster, by the page's command; and from a file, with the names' key alone."""
    lines = [json.loads(line) for line in world.ended["decrypt"].out.splitlines()]
    there = world.source.read("customers")
    found: dict[int, list[Any]] = {partition: [] for partition in there}
    for line in lines:
        found[line["partition"]].append(
            line["value"] and (line["value"]["id"], line["value"]["name"])
        )
    for partition, records in there.items():
        assert found[partition] == [
            None if one.value is None else (parsed(one)["id"], parsed(one)["name"])
            for one in records
        ]

    (records, *_) = world.target.read("A.customers").values()
    values = world.directory / "values.json"
    values.write_bytes(b"\n".join(one.value for one in records if one.value is not None))
    arguments = ("decrypt", "--key-file", FOLDER / "customers" / "reader.keys", "--input", values)
    key = {"NAME_KEY": world.environment["NAME_KEY"]}
    read = causeway(*arguments, environment=key)
    assert read.code == 0, read.err
    assert [json.loads(line)["name"] for line in read.out.splitlines()] == [
        parsed(one)["name"] for one in next(iter(there.values())) if one.value is not None
    ]

    refused = causeway(*arguments, environment={"NAME_KEY": world.environment["CARD_KEY"]})
    assert (refused.code, refused.out) == (7, "")
    assert "name_key does not fit" in refused.err


def test_try_shows_customers_before_and_after(world: World) -> None:
    ended = world.ended["try"]
    assert "A->B customers: transform pii (rules), 5 records" in ended.out
    shown = re.sub(r"\s", "", ended.out)
    assert "@example.org" in shown
    assert "*@example.org" in shown
    assert "cw1:name_key:" in shown
    assert '"card":"' in shown


def test_only_records_of_those_who_may_leave_leave(world: World) -> None:
    refused: list[tuple[str, str, bytes | None]] = []
    for partition, records in world.source.read("sales").items():
        wanted = []
        for one in records:
            try:
                country = parsed(one).get("country")
            except ValueError:
                refused.append((str(partition), str(one.offset), one.value))
            else:
                if country in ABROAD:
                    wanted.append(one)
        found = world.target.read("eu.sales")[partition]
        assert [one.content for one in found] == [one.content for one in wanted]
        assert 0 < len(found) < len(records)
    letters = [
        ({name: (text or b"").decode() for name, text in one.headers}, one.value)
        for records in world.source.read("__causeway.eu.us.residents.dead-letters").values()
        for one in records
    ]
    assert refused
    assert sorted(
        (headers["causeway.partition"], headers["causeway.offset"], value)
        for headers, value in letters
    ) == sorted(refused)
    assert not [topic for topic in world.target.topics() if "dead-letters" in topic]
    for before, after in world.pairs("prices", "eu.prices"):
        assert [one.content for one in after] == [one.content for one in before]


def test_a_cloud_gets_what_it_needs(world: World) -> None:
    pepper = world.environment["PEPPER"].encode()
    for before, after in world.pairs("calls", "onprem.calls"):
        wanted = []
        for one in before:
            call = parsed(one)
            if call.get("country") in ABROAD:
                who = hmac.digest(pepper, call["customer"]["id"].encode(), "sha256").hex()
                call |= {"customer": {"id": who}, "at": call["at"][:10] + "T00:00:00Z"}
                wanted.append((one.key, one.timestamp, call))
        assert [(one.key, one.timestamp, parsed(one)) for one in after] == wanted
        assert wanted
    for before, after in world.pairs("stock", "onprem.stock"):
        assert [one.content for one in after] == [one.content for one in before]


def test_one_topic_becomes_three(world: World) -> None:
    names = {"click": "A.events.clicks", "order": "A.events.orders", "login": "A.events.logins"}
    found = {name: world.target.read(name) for name in (*names.values(), "A.events")}
    for partition, records in world.source.read("events").items():
        wanted: dict[str, list[tuple[object, ...]]] = {name: [] for name in found}
        for one in records:
            wanted[names.get(parsed(one)["type"], "A.events")].append(one.content)
        for name, contents in wanted.items():
            assert contents, name
            assert [one.content for one in found[name][partition]] == contents
    assert {t for t in world.target.topics() if t.startswith("A.events")} == found.keys()


def test_an_order_becomes_its_lines(world: World) -> None:
    most = 0
    for before, after in world.pairs("orders", "A.order-lines"):
        wanted = []
        for one in before:
            order = parsed(one)
            most = max(most, len(order["lines"]))
            for number, line in enumerate(order["lines"], 1):
                made = {
                    "order": order["id"],
                    "line": number,
                    "product": line["product"],
                    "count": line["count"],
                    "total": line["count"] * line["price"],
                }
                wanted.append((one.key, one.timestamp, made))
        assert [(one.key, one.timestamp, parsed(one)) for one in after] == wanted
    assert most > 1


def test_plan_and_status_know_each_transform(world: World) -> None:
    planned = {
        (link["link"], topic["topic"]): topic["transform"]
        for link in world.ended["plan"].json["links"]
        for topic in link["mirrored"]
    }
    assert planned == {
        ("A->B", "flights"): "aircraft",
        ("A->B", "customers"): "pii",
        ("A->B", "events"): "by_type",
        ("A->B", "orders"): "lines",
        ("eu->us", "sales"): "residents",
        ("eu->us", "prices"): None,
        ("onprem->cloud", "calls"): "reports",
        ("onprem->cloud", "stock"): None,
    }
    for line in ("plan", "run", "try", "status", "decrypt"):
        for name in ("PEPPER", "CARD_KEY", "NAME_KEY"):
            assert world.environment[name] not in world.ended[line].out + world.ended[line].err


@pytest.mark.parametrize("name", ["customers", "hybrid-cloud"])
def test_both_forms_of_a_file_say_the_same(name: str) -> None:
    variables = {each: secrets.token_hex(32) for each in ("PEPPER", "CARD_KEY", "NAME_KEY")}

    def said(file: str) -> Settings:
        """Rules one a line, and without what speaks of lines of the file."""
        found = load(FOLDER / name / file, environment={"A": "a:1", "B": "b:1", **variables})
        (link,) = found.links
        (rules,) = link.transforms
        assert rules.rules is not None
        rules = replace(rules, rules=rules.rules.replace("; ", "\n"), place="")
        return replace(found, links=(replace(link, transforms=(rules,)),))

    assert said("causeway.yaml") == said("mm2.properties")


@pytest.mark.parametrize("name", ["gdpr", "hybrid-cloud"])
def test_pages_show_files_as_they_are(name: str) -> None:
    files = {"properties": "mm2.properties", "yaml": "causeway.yaml"}
    for language, file in files.items():
        for block in blocks(PAGES[name], language):
            assert block == (FOLDER / name / file).read_text()
    assert blocks(PAGES[name], "properties")


def parsed(record: Record) -> Any:
    return json.loads(record.value or b"", parse_float=Decimal)
