"""What a configuration file says, typed. Read once, refused together, never printed with a secret.

The names in brackets are the keys of a MirrorMaker 2 property file that each field comes from.
Values that go to lanes on other machines (`ClientSettings`) hold everything they need: key and
trust stores are converted to PEM text on the driver, so that no file is read on an executor.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from causeway.config.control_settings import ControlSettings
from causeway.config.geo_topics import ChosenTopics
from causeway.config.rereading import Rereading
from causeway.filters import (
    Renaming,
    TopicDecision,
    cycle_source,
    decide_topic,
    excludes,
    not_begun,
)
from causeway.naming import HEARTBEATS, PolicyFailedError, ReplicationPolicy
from causeway.patterns import Pattern

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
TransformFormat = Literal["json", "avro", "protobuf", "string", "binary"]


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that `repr`, `str` and format strings never show; `reveal()` is the one way to it."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return "********"

    __repr__ = __str__


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`ca_pem`: trusted certificates, or None for the system's; `cert_pem` (chain) and `key_pem`
    (unencrypted PKCS8 or PKCS1) for mutual TLS. `verify_hostname` is false where
    `ssl.endpoint.identification.algorithm` is empty; `versions`: TLSv1.2, TLSv1.3 or both."""

    ca_pem: str | None = None
    cert_pem: str | None = None
    key_pem: Secret | None = None
    verify_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """A grant of RFC 6749 at `token_endpoint`; `fields`: what is asked with besides, such as a
    refresh token. Without a secret (an empty one) the client only says its name. `ca_pem`: all that
    is trusted there; None: what the system trusts, and the cluster's connections. `access_token`:
    one that somebody gave; then nobody is asked, and the rest is empty."""

    token_endpoint: str
    client_id: str
    client_secret: Secret
    grant: Literal["client_credentials", "refresh_token", "password"] = "client_credentials"
    fields: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    access_token: Secret = Secret("")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanism: SaslMechanism
    username: str = ""
    password: Secret = Secret("")
    oauth: OAuthSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How one role (source reader, target writer, admin) of one link reaches one cluster."""

    alias: str
    bootstrap: tuple[tuple[str, int], ...]
    protocol: SecurityProtocol = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    client_id: str = "causeway"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    receive_buffer_bytes: int = -1  # of a socket; -1: left to the kernel
    send_buffer_bytes: int = -1
    max_request_bytes: int | None = None  # of a request with records; None: no limit of ours
    cluster_id: str | None = None  # the only cluster that may answer; None: as progress has it


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """[consumer.*] of a link: sizes in bytes, waits in milliseconds."""

    read_committed: bool = True
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_partition_bytes: int | None = None  # None: 4 MiB, over a long round trip more
    metadata_max_age_ms: int = 300_000
    start: Literal["earliest", "latest"] = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Heartbeats of one pair of clusters, which MirrorMaker 2 emits even where no flow runs."""

    source: str  # alias
    target: ClientSettings  # holds `topic` ([<target>.admin.*])
    topic: str = HEARTBEATS
    interval_s: float = 1
    replication_factor: int = 3

    @property
    def name(self) -> str:
        """`A->B`, as in the file."""
        return f"{self.source}->{self.target.alias}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """A schema registry [A.causeway.registry.*, causeway.transform.NAME.registry.*]; `url` is http
    or https. `place`: its key and line, for errors."""

    url: str
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None  # in place of both
    ca_pem: str | None = None  # None: the system's
    timeout_ms: int = 10_000
    place: str = ""

    def as_json(self) -> dict[str, Any]:
        """For workers: in JSON's types, with the password, without the place."""
        return {
            "url": self.url,
            "username": self.username,
            "password": self.password.reveal() if self.password else None,
            "token": self.token.reveal() if self.token else None,
            "ca_pem": self.ca_pem,
            "timeout_ms": self.timeout_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """[causeway.schemas.*] What becomes of the schemas of a link's records: `copy` keeps the ids,
    `translate` writes those of the target's registry into the records."""

    mode: Literal["copy", "translate"]
    source: RegistrySettings
    target: RegistrySettings
    interval_s: float = 30
    subjects: tuple[Pattern, ...] = ()  # besides those of topics
    names: Literal["mirror", "source", "both"] = "mirror"
    context: str = ""  # of the target's registry
    unknown: Literal["stop", "pass"] = "stop"
    parts: tuple[str, ...] = ("key", "value")  # of a record, that are translated


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSettings:
    """[A->B.causeway.transform.NAME.*] What becomes, on the way, of the records of some topics.

    One of `sql`, `python`, `rules` is set. `secrets` are what `${...}` named: they reach a
    transform as fields of the column `secrets`, never as text of a query. `dead_letters`: topic on
    the source cluster; None: a record that is refused stops its partition. `place` is the key and
    line of the text, for errors."""

    name: str
    topics: tuple[Pattern, ...]
    sql: str | None = None  # a SELECT over the view `records`
    python: str | None = None  # `module:function`, DataFrame to DataFrame
    rules: str | None = None  # see causeway.transform.rules
    place: str = ""
    key_format: TransformFormat = "binary"
    value_format: TransformFormat = "binary"
    key_schema: str | None = None  # Spark DDL
    value_schema: str | None = None
    registry: RegistrySettings | None = None
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    dead_letters: str | None = None
    lanes: int = 1  # how many lanes share its partitions

    @property
    def kind(self) -> Literal["sql", "python", "rules"]:
        return "sql" if self.sql is not None else "rules" if self.rules is not None else "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentSettings:
    """A step of what becomes of each record of a link, see causeway.relay.treatment. `decides`: all
    that decides what comes out, in JSON's types; it stands in claims. `needs`: what else lanes need
    for it. `text`: what it does, for people, such as `a header names its source`."""

    kind: str
    decides: Mapping[str, Any]
    text: str
    needs: Mapping[str, Any] = field(default_factory=dict, repr=False)


def directives_topic(source: str, target: str) -> str:
    """On `target`: what people ask of the link between these aliases."""
    return f"__causeway.{source}.{target}.directives"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """One flow `source->target`. Defaults are MirrorMaker 2's unless a comment differs."""

    source: ClientSettings  # reads the data and plans ([<source>.*, <source>.consumer.*])
    target: ClientSettings  # writes the data ([<target>.*, <target>.producer.*])
    source_admin: ClientSettings
    target_admin: ClientSettings
    policy: ReplicationPolicy
    topics: tuple[Pattern, ...]
    topics_exclude: tuple[Pattern, ...]
    config_properties_exclude: tuple[Pattern, ...]
    use_defaults_from: Literal["source", "target"] = "target"
    replication_factor: int = 2  # -1: the target broker's default
    refresh_topics_enabled: bool = True
    refresh_topics_interval_s: float = 600
    sync_topic_configs_enabled: bool = True
    sync_topic_configs_interval_s: float = 600
    heartbeats_replication_enabled: bool = True
    fetch: FetchSettings = FetchSettings()
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    # How a source partition maps to the target's. "by-key" (MirrorMaker 1) where the target topic
    # has another partition count: the key decides, as Java's default partitioner would.
    partitioning: Literal["same", "by-key"] = "same"
    # False where others may write to the target topics too (names are not ours alone).
    sole_writer: bool = True
    # Whether a partition goes on without records that the source lost before they were mirrored.
    on_data_loss: Literal["stop", "continue"] = "stop"
    group_id: str | None = None  # MirrorMaker 1 only: names the source in `source.alias`
    # No record is copied, whatever directives say: the file wants it so.
    records_paused: bool = False
    control: ControlSettings = field(default_factory=ControlSettings)
    transforms: tuple[TransformSettings, ...] = ()
    treatments: tuple[TreatmentSettings, ...] = ()  # one after the other, before all else
    schemas: SchemaSettings | None = None
    throttle_bytes_per_s: int | None = None  # unless a directive says otherwise; None: no limit
    geo: bool = False  # topics that people choose by directives are mirrored as well
    way_back: bool = False  # topics are mirrored only that a failback, or cutover, had begin
    chosen: ChosenTopics = field(default_factory=ChosenTopics, compare=False, repr=False)  # these
    # On the source, of all flows of the file: what may not leave its cluster is never mirrored.
    dead_letters: frozenset[str] = frozenset()
    # Of all flows of the file that have `causeway.rename`; names alone don't tell where those of
    # their mirrors came from.
    renaming: tuple[Renaming, ...] = field(default=(), repr=False)
    # A renamed topic may go to one that is there and has records [causeway.sole.writer = false].
    joins: bool = False
    # Others may write to the target topics, but the file does not say that they do: what is there
    # before the mirror may be a copy that another tool has made.
    stops_on_data: bool = False
    # Where the file sets a key of this flow, by its name as for all flows: `A->B.topics (line 4)`.
    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def transform_of(self, topic: str) -> TransformSettings | None:
        """What becomes of the records of `topic` (a name on the source); None: relayed as they are.
        The first transform that names the topic is its only one. A pattern that gives no answer in
        time counts as one that does: what may be protected is not let through as it is."""
        for transform in self.transforms:
            if excludes(transform.topics, topic):
                return transform
        return None

    @property
    def has_provenance(self) -> bool:
        """Whether headers tell where records came from [causeway.provenance]."""
        return any(each.kind == "provenance" for each in self.treatments)

    @property
    def mingles(self) -> bool:
        """Whether the topics of both clusters hold records of both clusters.

        An offset of one log then has no certain counterpart in the other log; see
        docs/explanation/provenance.md.
        """
        return self.has_provenance and not self.policy.tells_source(self.source.alias)

    def treatments_of(self, topic: str) -> tuple[TreatmentSettings, ...]:
        """What becomes of each record of `topic` (a name on the source), before its transform.
        Heartbeats tell of themselves where they come from."""
        if not self.treatments or self.policy.is_heartbeats_topic(topic):
            return ()
        return self.treatments

    @property
    def name(self) -> str:
        """`A->B`, as in the file."""
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def slug(self) -> str:
        """`A.B`: the name in topic names and ids, where `>` is not allowed."""
        return f"{self.source.alias}.{self.target.alias}"

    @property
    def transactional_id(self) -> str:
        """Whose epoch tells the drivers of the link apart."""
        return f"causeway.{self.slug}"

    @property
    def directives_id(self) -> str:
        """The transactional id by which people write directives, one at a time."""
        return f"causeway.{self.slug}.directives"

    @property
    def progress_topic(self) -> str:
        return f"__causeway.{self.slug}.progress"

    @property
    def directives_topic(self) -> str:
        """On the target: what people ask of the running link; see link_topics/directives.py."""
        return directives_topic(self.source.alias, self.target.alias)

    @property
    def offset_syncs_topic(self) -> str:
        """On the cluster that `control.offset_syncs_topic_location` names."""
        on_source = self.control.offset_syncs_topic_location == "source"
        return self.policy.offset_syncs_topic((self.target if on_source else self.source).alias)

    @property
    def checkpoints_topic(self) -> str:
        """On the target."""
        return self.policy.checkpoints_topic(self.source.alias)

    def decide_topic(self, topic: str) -> TopicDecision:
        """Whether this link mirrors `topic` of its source, under which name, or why not."""
        found = self.as_begun(topic)
        waits = self.way_back and found.mirrored and topic not in self.chosen.names
        return not_begun(self.name) if waits else found

    def as_chosen(self, topic: str) -> TopicDecision:
        """The same, if people choose `topic`."""
        return self._decide(topic, {topic})

    def as_begun(self, topic: str) -> TopicDecision:
        """The same, where a way back was told to begin with `topic`."""
        return self._decide(topic, () if self.way_back else self.chosen.names)

    def _decide(self, topic: str, chosen: Collection[str]) -> TopicDecision:
        return decide_topic(
            topic,
            dead_letters=self.dead_letters,
            chosen=chosen,
            source_alias=self.source.alias,
            target_alias=self.target.alias,
            policy=self.policy,
            topics=self.topics,
            topics_exclude=self.topics_exclude,
            heartbeats_replication_enabled=self.heartbeats_replication_enabled,
            renaming=self.renaming,
        )

    def cycle_source(self, topic: str) -> str | None:
        """The name on the target of `topic` of the source, if the topic came from the target; else
        None. Decides by the name alone; a claim in the progress topic knows both names exactly.
        Raises NoNameError."""
        return cycle_source(
            topic,
            source_alias=self.source.alias,
            target_alias=self.target.alias,
            policy=self.policy,
            renaming=self.renaming,
        )

    def upstream(self, name: str) -> str | None:
        """The source topic that this link mirrors to `name` of the target, if names show it."""
        by_rules = [
            flow.origin(name)
            for flow in self.renaming
            if (flow.source, flow.target) == (self.source.alias, self.target.alias)
        ]
        for found in (*by_rules, self.upstream_by_policy(name)):
            if found is not None and self.decide_topic(found).target_name == name:
                return found
        return None

    def upstream_by_policy(self, name: str) -> str | None:
        """The source topic of `name` of the target by the replication policy, also if this link
        does not mirror the topic."""
        try:
            if self.policy.topic_source(name) != self.source.alias:
                return None
            return self.policy.upstream_topic(name)
        except PolicyFailedError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """[causeway.http.*] The server in the driver. `port`: 0 for any free one, None for no server.
    The other three are paths of PEM files, read where the server starts; `client_ca`: who signs
    the certificates that clients must have."""

    port: int | None = None
    host: str = "127.0.0.1"
    token: Secret | None = None
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """[causeway.webhook.*] Where what happens is posted; `secret`: key of its signature."""

    url: Secret
    token: Secret | None = None
    secret: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """[causeway.*]: ours alone. Seconds unless named otherwise."""

    lanes: int | None = None  # None: by the cores that there are
    progress_interval_s: float = 1.0
    lease_s: float = 10.0
    deleted_topics_retention_s: float | None = 7 * 24 * 3600.0  # None: for ever
    connections: int = 2  # to each target broker, a lane
    # Produce requests unanswered on a connection. None: 16, over a long round trip more.
    in_flight: int | None = None
    lane_buffer_bytes: int | None = None  # None: 64 MiB, with a far source broker 256
    metrics_port: int | None = None  # None: metrics are not served
    metrics_host: str = "127.0.0.1"
    metrics_names: tuple[str, ...] = ()  # by which clients may call that port, too
    http: HttpSettings = HttpSettings()
    webhook: WebhookSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    links: tuple[LinkSettings, ...]
    heartbeat_links: tuple[HeartbeatSettings, ...] = ()
    run: RunSettings
    spark: Mapping[str, str | Secret]
    warnings: tuple[str, ...] = ()
    rereading: Rereading | None = field(default=None, compare=False, repr=False)


def is_local(spark: Mapping[str, str | Secret]) -> bool:
    """Whether Spark of these `spark.*` runs on this machine alone."""
    return spark_text(spark, "spark.master", "local[*]").startswith("local")


def spark_text(spark: Mapping[str, str | Secret], name: str, default: str) -> str:
    """One of these `spark.*` in clear text."""
    value = spark.get(name, default)
    return value.reveal() if isinstance(value, Secret) else value


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches `host`. No other name is asked for."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
