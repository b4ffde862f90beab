from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.filters import Verdict
from causeway.formats import load_mm2
from tests.harness.pems import make_pem

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN = """
clusters = A, B
A.bootstrap.servers = a1:9092, a2:9092
B.bootstrap.servers = [::1]:9093
A->B.enabled = true
"""


def load(tmp_path: Path, text: str, **environment: str) -> Settings:
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    return load_mm2(path, environment=environment)


def link(tmp_path: Path, text: str) -> LinkSettings:
    (only,) = load(tmp_path, PLAIN + text).links
    return only


def test_a_plain_file_has_mirror_makers_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, PLAIN)
    (flow,) = settings.links
    assert flow.name == "A->B"
    assert flow.source.bootstrap == (("a1", 9092), ("a2", 9092))
    assert flow.target.bootstrap == (("::1", 9093),)
    assert flow.source.protocol == "PLAINTEXT"
    assert [p.pattern for p in flow.topics] == [".*"]
    assert [p.pattern for p in flow.topics_exclude] == [
        r"mm2.*\.internal",
        r".*\.replica",
        "__.*",
    ]
    assert len(flow.config_properties_exclude) == 6
    assert flow.replication_factor == 2
    assert flow.refresh_topics_interval_s == 600
    assert flow.fetch.start == "earliest"
    assert flow.fetch.read_committed
    assert flow.delivery == "exactly-once"
    assert flow.sole_writer
    assert flow.use_defaults_from == "target"
    assert settings.warnings == ()
    assert settings.run.lanes is None


def test_a_flow_beats_the_top_level(tmp_path: Path) -> None:
    flow = link(
        tmp_path,
        "topics = x\nA->B.topics = y, z\nreplication.factor=3\nrefresh.topics.interval.seconds=5\n",
    )
    assert [p.pattern for p in flow.topics] == ["y", "z"]
    assert flow.replication_factor == 3
    assert flow.refresh_topics_interval_s == 5


def test_the_old_names_of_excludes(tmp_path: Path) -> None:
    assert link(tmp_path, "topics.blacklist = x").topics_exclude[0].pattern == "x"
    settings = load(tmp_path, PLAIN + "topics.blacklist = x\ntopics.exclude = y\n")
    assert settings.links[0].topics_exclude[0].pattern == "y"
    assert "topics.blacklist (line 6) is not used" in settings.warnings[0]


def test_clusters_fall_back_to_the_top_level(tmp_path: Path) -> None:
    text = "clusters=A,B\nbootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true"
    (flow,) = load(tmp_path, text).links
    assert flow.source.bootstrap == (("h", 1),)
    assert flow.target_admin.bootstrap == (("h", 2),)


def test_keys_of_one_client(tmp_path: Path) -> None:
    flow = link(
        tmp_path,
        "A.consumer.auto.offset.reset = latest\nA.consumer.isolation.level = read_uncommitted\n"
        "A.consumer.fetch.max.bytes = 1000\nA.admin.client.id = me\n"
        "A->B.consumer.fetch.min.bytes = 7\nB.producer.request.timeout.ms = 5\n"
        "A->B.source.consumer.max.partition.fetch.bytes = 9\n",
    )
    assert flow.fetch.start == "latest"
    assert not flow.fetch.read_committed
    assert (flow.fetch.max_bytes, flow.fetch.min_bytes) == (1000, 7)
    assert flow.fetch.max_partition_bytes == 9
    assert flow.source_admin.client_id == "me"
    assert flow.source.client_id == "causeway"
    assert (flow.target.request_timeout_ms, flow.target_admin.request_timeout_ms) == (5, 30_000)


def test_several_flows_and_fan_in(tmp_path: Path) -> None:
    text = (
        "clusters=A,B,C\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n"
        "C.bootstrap.servers=c:1\nA->C.enabled=true\nB->C.enabled=TRUE\nA->B.enabled=false\n"
        "B->C.causeway.delivery=at-least-once\n"
    )
    links = load(tmp_path, text).links
    assert [flow.name for flow in links] == ["A->C", "B->C"]
    assert [flow.delivery for flow in links] == ["exactly-once", "at-least-once"]


def test_identity_policy(tmp_path: Path) -> None:
    package = "org.apache.kafka.connect.mirror."
    flow = link(tmp_path, f"replication.policy.class = {package}IdentityReplicationPolicy")
    assert flow.policy.kind == "identity"
    assert flow.policy.source_alias == "A"
    assert flow.decide_topic("orders").target_name == "orders"
    assert not flow.sole_writer


def test_clusters_called_source_and_target(tmp_path: Path) -> None:
    """A common choice, and `source.cluster.alias` then gives the real names."""
    text = (
        "clusters=source,target\nsource.bootstrap.servers=a:1\ntarget.bootstrap.servers=b:1\n"
        "source->target.enabled=true\nsource.cluster.alias=usdf\ntarget.cluster.alias=ukdf\n"
        "source.consumer.fetch.min.bytes=7\n"
    )
    settings = load(tmp_path, text)
    (flow,) = settings.links
    assert flow.name == "usdf->ukdf"
    assert flow.decide_topic("orders").target_name == "usdf.orders"
    assert not flow.decide_topic("ukdf.orders").mirrored
    assert flow.source.bootstrap == (("a", 1),)
    assert flow.fetch.min_bytes == 7
    assert settings.warnings == ()


def test_our_own_keys(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        PLAIN + "causeway.lanes=3\ncauseway.progress.interval.seconds=0.5\ncauseway.lease.ms=4000\n"
        "causeway.in.flight=2\nspark.master=local[3]\nspark.hidden.password=hunter2\n",
    )
    assert settings.run.lanes == 3
    assert settings.run.progress_interval_s == 0.5
    assert settings.run.lease_s == 4
    assert settings.run.in_flight == 2
    assert settings.spark["spark.master"] == "local[3]"
    assert "hunter2" not in repr(settings)
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", False),
        ("spark.authenticate=false\n", True),
        ("spark.master=spark://h:7077\n", True),
        ("spark.master=${env:MASTER}\n", True),
        ("spark.master=yarn\nspark.authenticate=true\n", False),
    ],
)
def test_a_spark_without_authentication_gets_a_warning(
    tmp_path: Path, said: str, told: bool
) -> None:
    settings = load(tmp_path, PLAIN + said, MASTER="k8s://https://h")
    assert len(settings.warnings) == told
    assert all("spark.authenticate is not true" in each for each in settings.warnings)


def test_two_way_default_flows_and_fan_out_are_fine(tmp_path: Path) -> None:
    assert len(load(tmp_path, PLAIN + "B->A.enabled = true").links) == 2


def test_references(tmp_path: Path) -> None:
    (flow,) = load(tmp_path, PLAIN + "A->B.topics=${env:TOPICS}", TOPICS="t.*").links
    assert flow.topics[0].pattern == "t.*"


def test_warnings_name_every_key_without_effect(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        PLAIN + "predicates=p\nA->B.errors.retry.timeout=1\ntasks.max=4\n"
        "A.offset.flush.timeout.ms=1\nB.producer.acks=1\n"
        "topcis=x\nA.bootstrap.server=y\nA->B.refresh.topic.enabled=true\ncauseway.lane=1\n"
        "consumer.fetch.max.bytes=1\nB.replication.factor=1\n",
    )
    meaningless, not_yet, misplaced, unknown = settings.warnings
    assert meaningless == (
        "without meaning here, because they are about Connect: predicates (line 6),"
        " A->B.errors.retry.timeout (line 7), tasks.max (line 8),"
        " A.offset.flush.timeout.ms (line 9)"
    )
    assert not_yet == "not acted on in this version: B.producer.acks (line 10)"
    assert misplaced == (
        "without effect in this place: consumer.fetch.max.bytes (line 15)"
        " (write it as CLUSTER.consumer.fetch.max.bytes), B.replication.factor (line 16)"
        " (write it as replication.factor, or for a flow as A->B.replication.factor)"
    )
    assert unknown == (
        "unknown keys: topcis (line 11) (did you mean topics?), A.bootstrap.server (line 12)"
        " (did you mean A.bootstrap.servers?), A->B.refresh.topic.enabled (line 13)"
        " (did you mean A->B.refresh.topics.enabled?), causeway.lane (line 14)"
        " (did you mean causeway.lanes?)"
    )


def test_what_causeway_does_anyway_is_no_warning(tmp_path: Path) -> None:
    text = (
        "B.producer.acks=all\nkey.converter=org.apache.kafka.connect.converters.ByteArrayConverter\n"
        "A.ssl.protocol=TLSv1.3\nB.producer.enable.idempotence=true\n"
        "A.consumer.enable.auto.commit=false\n"
    )
    assert load(tmp_path, PLAIN + text).warnings == ()


def test_a_key_set_twice_is_reported(tmp_path: Path) -> None:
    settings = load(tmp_path, PLAIN + "topics=a\ntopics=b\n")
    assert settings.links[0].topics[0].pattern == "b"
    assert settings.warnings == ("topics (line 6) is set again below; the last one counts",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics=x", "it names no clusters"),
        ("clusters=\n", "it names no clusters"),
        ("clusters=A,B\nA->B.topics=x", "no flow is enabled"),
        ("clusters=A B\nA->B.enabled=true", "characters that topic names cannot have"),
        ("clusters=spark,B", "'spark' cannot be an alias"),
        (PLAIN + "A->C.enabled=true", r"A->C.enabled \(line 6\): clusters does not name C"),
        (PLAIN + "A -> B.enabled=true", r"A \(line 6\): a flow is written A->B.key"),
        (PLAIN + "A->B.topics=*", r"A->B.topics \(line 6\): .*there is nothing to repeat before"),
        (PLAIN + "topics.exclude=(", r"topics.exclude \(line 6\): .*is not closed"),
        (PLAIN + "B.bootstrap.servers=", "cluster B has no bootstrap.servers"),
        (PLAIN + "B.bootstrap.servers=h", r"\(line 6\): 'h' is not host:port"),
        (PLAIN + "B.bootstrap.servers=h:99999", "'h:99999' is not host:port"),
        (PLAIN + "replication.factor=0", r"\(line 6\) must be 1 to 32767, or -1, not '0'"),
        (PLAIN + "replication.factor=two", "not 'two'"),
        (PLAIN + "A->B.enabled=maybe", r"A->B.enabled \(line 6\) must be true or false"),
        (
            PLAIN + "A->B.enabled = false # passive",
            r"not 'false # passive' \(# does not end a value",
        ),
        ("clusters = A, B # two", r"'B # two' has characters .* \(# does not end a value"),
        (PLAIN + "refresh.topics.interval.seconds=0", "a whole number of at least 1"),
        (PLAIN + "use.defaults.from=mars", "must be 'source' or 'target', not 'mars'"),
        (PLAIN + "A.consumer.auto.offset.reset=none", "'earliest' or 'latest', not 'none'"),
        (PLAIN + "causeway.delivery=twice", "'exactly-once' or 'at-least-once'"),
        (PLAIN + "causeway.in.flight=0", "must be 1 to 1000, not '0'"),
        (PLAIN + "causeway.lease.ms=5000\ncauseway.lease.seconds=5", "set the same value twice"),
        (PLAIN + "causeway.lease.seconds=soon", "must be a number of seconds"),
        (PLAIN + "topic.filter.class=com.x.F", r"'com\.x\.F' cannot be loaded"),
        (PLAIN + "group.filter.class=com.x.G", "cannot be loaded, only DefaultGroupFilter"),
        (PLAIN + "A->B.transforms=mask", "Connect's transforms cannot run here"),
        (PLAIN + "replication.policy.class=com.x.P", r"line 6: .*com\.x\.P.*there are"),
        (PLAIN + "replication.policy.separator=:", "replication.policy.separator"),
        (PLAIN + "source.cluster.alias=", r"source.cluster.alias \(line 6\) must be an alias"),
        (PLAIN + "replication.policy.separator=", "for unchanged names: replication.policy.class"),
        (
            PLAIN + "C.bootstrap.servers=c:1\nclusters=A,B,C\nC->B.enabled=true\n"
            "source.cluster.alias=x",
            "two flows would be called x->B",
        ),
        (PLAIN + "security.protocol=TLS", "must be one of PLAINTEXT, SSL"),
        (PLAIN + "B.security.protocol=SASL_SSL", "Kafka's default of sasl.mechanism"),
        (
            PLAIN + "B->A.enabled=true\nreplication.policy.class=IdentityReplicationPolicy",
            "go round for ever through A->B and B->A",
        ),
        (
            "clusters=us.a,B\nbootstrap.servers=h:1\nus.a->B.enabled=true\nB->us.a.enabled=true",
            "us.a holds the separator",
        ),
        (
            "clusters=A,B\nbootstrap.servers=h:1\nA->B.enabled=true\n"
            "replication.policy.class=IdentityReplicationPolicy",
            "would mirror topics onto themselves: both clusters are h:1",
        ),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        load(tmp_path, text)
    assert "\n" not in str(raised.value)
    assert "mm2.properties" in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_circle_over_three_clusters_is_refused(tmp_path: Path) -> None:
    text = (
        "clusters=A,B,C\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n"
        "C.bootstrap.servers=c:1\nA->B.enabled=true\nB->C.enabled=true\nC->A.enabled=true\n"
        "A->B.replication.policy.class=IdentityReplicationPolicy\n"
    )
    with pytest.raises(ConfigError, match="A->B and B->C and C->A"):
        load(tmp_path, text)


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = PLAIN + "A->B.topics=*\nreplication.factor=0\nA->X.y=1\ncauseway.lanes=0\n"
    text += "A.consumer.isolation.level=x\nB.bootstrap.servers=b\n"
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    first, *lines = str(raised.value).split("\n")
    assert "6 problems" in first
    assert len(lines) == 6


def test_an_empty_secret_is_as_if_the_key_were_missing(tmp_path: Path) -> None:
    text = PLAIN + "causeway.webhook.url=https://h/x\ncauseway.webhook.secret=\n"
    text += "A.causeway.registry.url=http://a:1\nA.causeway.registry.password=\n"
    text += "B.causeway.registry.url=http://b:1\nA->B.causeway.schemas=copy\n"
    settings = load(tmp_path, text)
    assert settings.run.webhook is not None
    assert settings.run.webhook.secret is None
    assert settings.links[0].schemas is not None
    assert settings.links[0].schemas.source.password is None


def test_a_flow_that_is_off_may_be_wrong(tmp_path: Path) -> None:
    settings = load(tmp_path, PLAIN + "B->A.replication.factor=0\n")
    assert [flow.name for flow in settings.links] == ["A->B"]


def test_secrets_are_nowhere_in_the_settings(tmp_path: Path) -> None:
    """Every kind of secret, in the file or from outside: not in repr, not in a warning."""
    key, cert = make_pem()
    text = (
        PLAIN
        + "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\n"
        + f'A.sasl.jaas.config={LOGIN} required username=ann password="${{env:PW}}";\n'
        + "A.ssl.keystore.type=PEM\nA.ssl.keystore.key="
        + key.replace("\n", "\\n")
        + "\nA.ssl.keystore.certificate.chain="
        + cert.replace("\n", "\\n")
        + "\nspark.ssl.keyPassword=${env:PW}\nA.unknown.password=${env:PW}\n"
        + "B.sasl.jaas.config=x required password=hunter2;\nA.ssl.provider=${env:PW}\n"
    )
    settings = load(tmp_path, text, PW="hunter2")
    client = settings.links[0].source
    assert client.sasl is not None
    assert client.sasl.password.reveal() == "hunter2"
    assert client.tls is not None
    assert client.tls.key_pem is not None
    shown = repr(settings) + "".join(settings.warnings)
    assert "hunter2" not in shown
    assert "PRIVATE KEY" not in shown
    body = client.tls.key_pem.reveal().splitlines()[3]
    assert body not in shown


def test_errors_hide_what_came_from_outside(tmp_path: Path) -> None:
    text = PLAIN + "replication.factor=${PW}\nA.bootstrap.servers=${PW}\nB.bootstrap.servers=${PW}"
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text, PW="hunter2")
    assert "hunter2" not in str(raised.value)
    assert "not (hidden)" in str(raised.value)


def test_the_shared_brokers_default_replication_factor(tmp_path: Path) -> None:
    assert link(tmp_path, "replication.factor=-1").replication_factor == -1


def test_a_variable_that_is_not_set_hides_no_other_mistake(tmp_path: Path) -> None:
    text = """
clusters = A, B
A.bootstrap.servers = ${env:A}
B.bootstrap.servers = b
A->B.enabled = ${env:ON}
A->B.topics = (
A->B.tasks.max = ${env:TASKS}
replication.factor = ${env:COPIES}
topic.filter.class = ${env:FILTER}
source.cluster.alias = ${env:NAME}
causeway.lease.seconds = ${env:LEASE}
causeway.read.only.mirrors = true
causeway.principal = ${env:WHO}
A.security.protocol = SASL_SSL
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = x.PlainLoginModule required username="u" password="${env:WORD}";
A.ssl.truststore.location = /no/such.jks
A.ssl.truststore.password = ${env:WORD}
B.security.protocol = SASL_PLAINTEXT
B.sasl.mechanism = ${env:HOW}
offset.lag.max = many
"""
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)

    first, *lines = str(raised.value).splitlines()
    assert first.endswith("14 problems")
    not_set = [line for line in lines if line.endswith("is not set")]
    assert len(not_set) == 11
    assert [line.strip().partition(": ")[0] for line in lines if line not in not_set] == [
        "A->B.topics (line 6)",
        "B.bootstrap.servers (line 4)",
        "offset.lag.max (line 21) must be a whole number of at least 0, not 'many'",
    ]


def test_without_the_clusters_names_nothing_else_can_be_judged(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, "clusters = ${env:ALL}\nA->B.enabled = true\n")
    assert str(raised.value).endswith("clusters (line 1): the environment variable ALL is not set")


def test_a_token_endpoint_without_tls_is_warned_of_unless_it_is_on_this_machine(
    tmp_path: Path,
) -> None:
    def warnings(url: str) -> tuple[str, ...]:
        path = tmp_path / "mm2.properties"
        path.write_text(
            "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
            "A->B.enabled = true\nA.security.protocol = SASL_SSL\n"
            "A.sasl.mechanism = OAUTHBEARER\n"
            "A.sasl.oauthbearer.client.credentials.client.id = me\n"
            "A.sasl.oauthbearer.client.credentials.client.secret = s\n"
            f"A.sasl.oauthbearer.token.endpoint.url = {url}\n"
        )
        return load_mm2(path, environment={}).warnings

    (line,) = warnings("http://login.example.com/token")
    assert line.startswith("the token endpoint of cluster A is an http:// address")
    assert warnings("https://login.example.com/token") == ()
    assert warnings("http://127.0.0.1:8080/token") == warnings("http://localhost/t") == ()


def test_a_pattern_nested_too_deeply_is_a_clear_error(tmp_path: Path) -> None:
    def load(pattern: str) -> None:
        path = tmp_path / "mm2.properties"
        path.write_text(
            "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
            f"A->B.enabled = true\ntopics = {pattern}\n"
        )
        load_mm2(path, environment={})

    load("(" * 5_000 + "a" + ")" * 5_000)
    with pytest.raises(ConfigError, match=r"topics \(line 5\): .*nested too deeply"):
        load("[" * 5_000 + "a" + "]" * 5_000)


def test_rules_that_rename_topics_are_read_with_commas_and_all(tmp_path: Path) -> None:
    flow = link(
        tmp_path,
        "A->B.causeway.rename = orders\\\\.(.{2,3}) => sales.$1 ; \\\n  audit => trail \\n\\\n"
        "  log(.*) => logs$1\n",
    )
    names = ("orders.eu", "orders.europe", "audit", "log.a")
    targets = [flow.decide_topic(name).target_name for name in names]
    assert targets == ["sales.eu", "A.orders.europe", "trail", "logs.a"]
    assert flow.sole_writer
    assert not flow.joins
    assert link(tmp_path, "A->B.causeway.sole.writer = false\n").joins


@pytest.mark.parametrize("rule", ["orders > sales", "(orders => sales", "orders => $1"])
def test_an_unusable_rule_is_reported_with_its_line(tmp_path: Path, rule: str) -> None:
    with pytest.raises(ConfigError, match=r"line 6: .*orders"):
        link(tmp_path, f"A->B.causeway.rename = {rule}\n")


TWO_WAY = PLAIN + "B->A.enabled = true\n"


def test_a_flow_back_knows_what_the_other_one_renamed(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO_WAY + "A->B.causeway.rename = orders(.*) => sales$1\n")
    there, back = settings.links
    assert there.decide_topic("orders.eu").target_name == "sales.eu"
    assert back.decide_topic("sales.eu").verdict is Verdict.CYCLE
    assert "as orders.eu" in back.decide_topic("sales.eu").reason
    assert back.decide_topic("purchases").target_name == "B.purchases"
    assert there.upstream("sales.eu") == "orders.eu"
    assert there.upstream("A.payments") == "payments"
    assert there.upstream("A.orders.eu") is None  # it would have another name
    assert back.upstream("sales.eu") is None


def test_a_rule_that_hides_origins_is_refused_where_a_long_way_leads_back(tmp_path: Path) -> None:
    circle = TWO_WAY + (
        "clusters=A,B,C\nC.bootstrap.servers=c:1\nB->C.enabled=true\nC->A.enabled=true\n"
    )
    assert len(load(tmp_path, circle + "A->B.causeway.rename = o(.*) => p$1\n").links) == 4
    with pytest.raises(
        ConfigError, match=r"A->B: the names that .* B->C and C->A may mirror it back"
    ):
        load(tmp_path, circle + "A->B.causeway.rename = o.* => p\n")


def test_the_id_of_a_cluster_reaches_each_of_its_clients(tmp_path: Path) -> None:
    flow = link(tmp_path, "A.causeway.cluster.id = 4L6g3nShT-eMCtK--X86sw\n")
    assert flow.source.cluster_id == flow.source_admin.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert flow.target.cluster_id is None
