"""What a machine remembers of origin and destinations: for its user alone, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.errors import ConfigError
from causeway.geo import local_file
from causeway.geo.local_file import (
    ClusterAddress,
    GeoFile,
    cluster_address,
    default_path,
    parse_origin,
)

SHOP = ClusterAddress(name="shop", bootstrap="one:9092,two:9092")
DC2 = ClusterAddress(
    name="dc2", bootstrap="three:9092", config=Path("/etc/dc2.properties"), cluster="dc2's id"
)


def test_the_file_is_read_back_and_is_private(tmp_path: Path) -> None:
    found = GeoFile(path=tmp_path / "deep" / "geo.json")
    found = found.with_origin(SHOP).with_destination(DC2)
    local_file.write_geo_file(found)
    assert local_file.read_geo_file(found.path) == found
    assert found.path.stat().st_mode & 0o777 == 0o600
    assert found.path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in found.path.parent.iterdir()] == ["geo.json"]


def test_of_how_to_log_in_only_a_path_is_kept(tmp_path: Path) -> None:
    secrets = tmp_path / "client.properties"
    secrets.write_text("sasl.jaas.config = password='hunter2'\n")
    found = GeoFile(path=tmp_path / "geo.json")
    local_file.write_geo_file(found.with_origin(parse_origin("shop=one:9092", secrets)))
    text = found.path.read_text()
    assert "hunter2" not in text
    assert json.loads(text)["origin"]["config"] == str(secrets)


def test_nothing_is_remembered_at_first(tmp_path: Path) -> None:
    found = local_file.read_geo_file(tmp_path / "geo.json")
    assert (found.origin, found.destinations) == (None, ())
    with pytest.raises(ConfigError, match=r"causeway geo --origin NAME=host:port"):
        found.known_origin()
    with pytest.raises(ConfigError, match=r"causeway geo --origin NAME=host:port"):
        found.destination("dc2")
    with pytest.raises(ConfigError, match=r"it knows none .*destination add dc2"):
        found.with_origin(SHOP).destination("dc2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "origin": null, "destinations": []}',
        '{"version": 1, "origin": null, "destinations": [{"name": "a.b"}]}',
        '{"version": 1, "origin": {"name": 7, "bootstrap": "", "config": null}, '
        '"destinations": []}',
    ],
)
def test_a_file_of_another_user_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "geo.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"geo\.json: "):
        local_file.read_geo_file(path)


@pytest.mark.parametrize("name", ["a.b", "", "a b", "spark", "config", "ü", "a/b", "x" * 65, "a>b"])
def test_names_that_topics_cannot_bear_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        cluster_address(name, "one:9092", None, "destination")


def test_one_file_is_about_one_origin_and_no_name_means_two_things(tmp_path: Path) -> None:
    found = GeoFile(path=tmp_path / "geo.json").with_origin(SHOP).with_destination(DC2)
    with pytest.raises(ConfigError, match="has the origin shop, and a file has one origin"):
        found.with_origin(ClusterAddress(name="other", bootstrap="x:1"))
    with pytest.raises(ConfigError, match="the same name"):
        found.with_destination(ClusterAddress(name="shop", bootstrap="x:1"))
    with pytest.raises(ConfigError, match="the same name"):
        GeoFile(path=tmp_path).with_destination(DC2).with_origin(
            ClusterAddress(name="dc2", bootstrap="")
        )
    moved = ClusterAddress(name="dc2", bootstrap="elsewhere:9092")
    assert found.with_destination(moved).destinations == (moved,)
    assert found.without_destination("dc2").destinations == ()
    assert (found.cluster_of("dc2"), found.cluster_of("dc3")) == ("dc2's id", None)


@pytest.mark.parametrize("text", ["shop", "shop=", "=one:9092", "a.b=one:9092"])
def test_an_origin_is_a_name_and_where_it_is(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_origin(text, None)


def test_a_missing_file_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        parse_origin("shop=one:9092", tmp_path / "none.properties")


def test_where_it_is_kept() -> None:
    assert default_path({"CAUSEWAY_GEO_CONFIG": "/x/y.json"}) == Path("/x/y.json")
    assert default_path({"XDG_CONFIG_HOME": "/conf"}) == Path("/conf/causeway/geo.json")
    home = Path.home() / ".config/causeway/geo.json"
    assert default_path({}) == default_path({"XDG_CONFIG_HOME": "relative"}) == home


def test_where_it_cannot_be_written_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = GeoFile(path=tmp_path / "file" / "geo.json")
    with pytest.raises(ConfigError, match="CAUSEWAY_GEO_CONFIG"):
        local_file.write_geo_file(found)
