"""From the entries of a property file to a KafkaMirrorMaker2 resource (v1).

Keys that a resource has fields for stand there; those of a flow in its connectors' configs; what is
of the whole file, or of a pair of clusters without a mirror, in the target's config, where
`clusters.py` finds it again. No secret is written: those to be made are named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from causeway import filters
from causeway.config import audit, kept_names, known
from causeway.config.keys import OF_FLOWS, HeartbeatKeys
from causeway.errors import ConfigError
from causeway.formats.causeway_yaml.to_properties import providers_of
from causeway.formats.causeway_yaml.write import bare, dump, said
from causeway.formats.properties import Entry
from causeway.formats.strimzi import mirrors, shape
from causeway.formats.strimzi.references import is_provider
from causeway.formats.strimzi.write_cluster import Made, cluster_tree, refuse_secret

Tree = dict[str, Any]
_BOOK = "causeway.mirror.maker."
_PAUSED = "causeway.paused"
_FIELDS = {
    "topics": "topicsPattern",
    "topics.exclude": "topicsExcludePattern",
    "groups": "groupsPattern",
    "groups.exclude": "groupsExcludePattern",
}
# What a connector's config has in place of a flow's key.
_CLIENTS = (
    ("source.consumer.", "consumer."),
    ("target.producer.", "producer.override."),
    ("source.producer.", "producer."),
)
_AS_THEY_ARE = ("source.admin.", "target.admin.", "target.consumer.")
_OF_CLIENTS = ("consumer.", "producer.", "admin.", "source.", "target.")


@dataclass(slots=True, kw_only=True)
class Written:
    """`made`: the Secrets that have to be there, by what is to be in them; `dropped`: keys without
    effect, for which a resource has no place."""

    text: str
    made: Made
    dropped: tuple[str, ...]


def to_resource(
    entries: Mapping[str, Entry], *, name: str, comments: Iterable[str] = ()
) -> Written:
    """`entries`, unresolved, as a resource called `name`. Raises ConfigError for what a resource
    cannot hold."""
    writer = _Writer(texts=said(entries), aliases=_aliases(entries), name=name, made=Made())
    tree = writer.tree()
    text = dump(tree, comments, apart=False)
    return Written(text=text, made=writer.made, dropped=tuple(writer.dropped))


def resource_name(stem: str) -> str:
    """A name that Kubernetes takes."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50] or "mirror"


def _aliases(entries: Mapping[str, Entry]) -> tuple[str, ...]:
    listed = entries.get("clusters")
    if listed is not None and "${" in listed.value:
        cause = "the aliases come from outside the file"
        raise ConfigError("convert", "clusters", cause, remedy="write them out")
    return tuple(dict.fromkeys(filters.split_list(listed.value))) if listed else ()


@dataclass(slots=True, kw_only=True)
class _Writer:
    texts: Mapping[str, str]
    aliases: tuple[str, ...]
    name: str
    made: Made
    whole: Tree = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def tree(self) -> Tree:
        sources, target = self._flows()
        for key, text in self.texts.items():
            if (
                key not in known.CLUSTER
                and audit.split_key(key, self.aliases)[0] not in self.aliases
            ):
                refuse_secret(key, text)
            self._whole(key, text, sources, target)
        self._heartbeats({f"{source}->{target}" for source in sources})
        reached = {alias: self._cluster(alias) for alias in (*sources, target)}
        mirrors_ = [
            {"source": reached[source], **self._mirror(f"{source}->{target}", source)}
            for source in sources
        ]
        positions = self._positions(mirrors_, sources, target)
        declared = {key: text for key, text in self.texts.items() if is_provider(key)}
        used = declared or providers_of(self.texts)
        config = reached[target].pop("config", {}) | self.whole | used
        return {
            "apiVersion": f"{shape.API}/{shape.NEW}",
            "kind": shape.KIND,
            "metadata": {"name": self.name},
            "spec": {
                "replicas": 1,
                "target": {
                    **reached[target],
                    "groupId": f"{self.name}-group",
                    "configStorageTopic": f"__{self.name}-config",
                    "offsetStorageTopic": positions,
                    "statusStorageTopic": f"__{self.name}-status",
                    **({"config": config} if config else {}),
                },
                "mirrors": mirrors_,
            },
        }

    def _flows(self) -> tuple[tuple[str, ...], str]:
        """The sources, and the one target."""
        on = []
        for source, target in permutations(self.aliases, 2):
            key = f"{source}->{target}.enabled"
            text = self.texts.get(key, self.texts.get("enabled", "false"))
            if "${" in text:
                raise ConfigError("convert", key, "it must say true or false, not what is outside")
            if text.strip().lower() == "true":
                on.append((source, target))
        targets = sorted({target for _, target in on})
        if not on:
            raise ConfigError("convert", cause="no flow is enabled, so there is nothing to mirror")
        if len(targets) > 1:
            raise ConfigError(
                "convert",
                " and ".join(targets),
                "a resource has one target, and the file's flows have several",
                remedy="write a file for each target, and convert them one by one",
            )
        sources = tuple(source for source, _ in on)
        idle = [alias for alias in self.aliases if alias not in (*sources, *targets)]
        if idle:
            cause = f"no flow to {targets[0]} is from there, so that a resource has no place for it"
            raise ConfigError("convert", f"cluster {idle[0]}", cause, remedy="take it out")
        return sources, targets[0]

    def _whole(self, key: str, text: str, sources: Iterable[str], target: str) -> None:
        """What is of no one flow or cluster that has a place."""
        prefix, rest = audit.split_key(key, self.aliases)
        flows = {f"{source}->{target}" for source in sources}
        if is_provider(key) or prefix in self.aliases or prefix in flows:
            return
        ours = key.startswith(("causeway.", "spark.")) and key not in OF_FLOWS
        if prefix or ours:
            if prefix and rest == "enabled":
                return
            self.whole[key] = bare(text)
        elif key in OF_FLOWS | known.FLOW | known.CLUSTER:
            return  # with each flow, and each cluster
        else:
            self.dropped.append(key)

    def _heartbeats(self, flows: Collection[str]) -> None:
        """MirrorMaker 2 writes them for every pair, a resource for none that it does not name."""
        names = HeartbeatKeys.names()
        for source, target in permutations(self.aliases, 2):
            pair = f"{source}->{target}"
            found = {
                name: text for name in names if (text := self._flow_text(pair, name)) is not None
            }
            found.setdefault("emit.heartbeats.enabled", "true")
            self.whole |= {f"{pair}.{name}": bare(found[name]) for name in sorted(found)}
            paused = self._flow_text(pair, _PAUSED) or ""
            if pair not in flows and ("heartbeats" in paused.lower() or "${" in paused):
                self.whole[f"{pair}.{_PAUSED}"] = paused

    def _flow_text(self, flow: str, name: str) -> str | None:
        return self.texts.get(f"{flow}.{name}", self.texts.get(name))

    # -- clusters

    def _cluster(self, alias: str) -> Tree:
        own = {
            rest: text
            for key, text in self.texts.items()
            for prefix, rest in [audit.split_key(key, self.aliases)]
            if prefix == alias
        }
        inherited = {name: self.texts[name] for name in known.CLUSTER if name in self.texts}
        return cluster_tree(alias, {**inherited, **own}, self.made)

    # -- mirrors

    def _mirror(self, flow: str, source: str) -> Tree:
        texts = {
            name: text
            for name in sorted(OF_FLOWS | known.FLOW)
            if (text := self._flow_text(flow, name)) is not None
        }
        texts |= {
            key.removeprefix(f"{flow}."): text
            for key, text in self.texts.items()
            if key.startswith(f"{flow}.")
        }
        connectors: dict[str, Tree] = {name: {} for name in mirrors.CONNECTORS[:2]}
        patterns: Tree = {}
        for name, text in texts.items():
            if name == "enabled" or name in HeartbeatKeys.names():
                continue
            if name in _FIELDS:
                patterns[_FIELDS[name]] = text
            elif name == "tasks.max" and re.fullmatch(r"[1-9]\d{0,8}", text):
                connectors[mirrors.CONNECTORS[0]]["tasksMax"] = int(text)
            elif not (name == _PAUSED and _tell_states(connectors, text)):
                self._key(connectors, flow, name, text)
        # Without it, the default of a resource would count.
        config = _config(connectors[mirrors.CONNECTORS[0]])
        config.setdefault(f"{_BOOK}offsets.topic", self._offsets_topic(source, flow))
        config.setdefault(f"{_BOOK}connector", "MirrorSourceConnector")
        return {**connectors, **patterns}

    def _key(self, connectors: dict[str, Tree], flow: str, name: str, text: str) -> None:
        source, checkpoint = (connectors[each] for each in mirrors.CONNECTORS[:2])
        if name in mirrors.ALIASES:
            for connector in (source, checkpoint):
                _config(connector)[name] = bare(text)
        elif name.startswith(_OF_CLIENTS) and not name.startswith(mirrors.SHARED):
            said_as = next(
                (new + name.removeprefix(old) for old, new in _CLIENTS if name.startswith(old)),
                None,
            )
            if said_as is None and name.startswith(_AS_THEY_ARE):
                said_as = name
            if said_as is None or ".override." in name or said_as in _config(source):
                self.whole[f"{flow}.{name}"] = bare(text)
            else:
                _config(source)[said_as] = bare(text)
        elif is_provider(name):
            self.dropped.append(f"{flow}.{name}")
        elif name.startswith(mirrors.SHARED):
            for connector in (source, checkpoint):
                _config(connector)[name] = bare(text)
        else:
            (acts,) = mirrors.who_acts(name)
            _config(connectors[acts])[name] = bare(text)

    def _offsets_topic(self, source: str, flow: str) -> str:
        """The topic of positions that Connect's keys name; empty if they name none."""
        target = flow.removeprefix(f"{source}->")
        entries = {key: Entry(key=key, value=text, line=0) for key, text in self.texts.items()}
        named = kept_names.offsets_topic(entries, source, target)
        return "" if named == kept_names.usual_offsets_topic(source) else named

    def _positions(self, found: list[Tree], sources: tuple[str, ...], target: str) -> str:
        """The topic of offsets: by its field where all mirrors have it as Strimzi does."""
        configs = [_config(each[mirrors.CONNECTORS[0]]) for each in found]
        topics = {str(config[f"{_BOOK}offsets.topic"]) for config in configs}
        as_strimzi = all(
            config[f"{_BOOK}connector"] == f"{source}->{target}.MirrorSourceConnector"
            for config, source in zip(configs, sources, strict=True)
        )
        if len(topics) == 1 and as_strimzi and (topic := topics.pop()):
            for config in configs:
                del config[f"{_BOOK}offsets.topic"], config[f"{_BOOK}connector"]
            return topic
        return f"__{self.name}-offset"


def _config(connector: Tree) -> Tree:
    found = connector.setdefault("config", {})
    assert isinstance(found, dict)
    return found


def _tell_states(connectors: dict[str, Tree], text: str) -> bool:
    """Whether the connectors' states say all that is paused."""
    parts = [part.strip().lower() for part in text.split(",") if part.strip()]
    names = {part: name for name, part in mirrors.PARTS.items() if name in connectors}
    if not set(parts) <= names.keys():
        return False
    for part in parts:
        connectors[names[part]]["state"] = "paused"
    return True


def notes(written: Written) -> tuple[str, ...]:
    """What a person has to know of it."""
    contents = written.made.contents
    made = [f"{secret} with {key} ({what})" for (secret, key), what in contents.items()]
    lines = []
    if made:
        lines.append(f"Secrets to be made, none is written: {'; '.join(made)}")
    if written.dropped:
        lines.append(f"left out, being without effect: {', '.join(written.dropped)}")
    return tuple(lines)
