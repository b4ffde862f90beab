"""Amazon's own login library for MSK in a JVM: the oracle of what a client sends to a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from causeway.java import find_java
from tests.harness.kafka.jars import msk_classpath


class MskLibrary:
    """`properties` are Java's system properties, such as `aws.accessKeyId`; `options` are those of
    the login module."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._iam = gateway.jvm.software.amazon.msk.auth.iam

    def payload(
        self, host: str, properties: Mapping[str, str], options: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """What AWS_MSK_IAM sends to the broker with this name."""
        found: dict[str, str] = json.loads(self._begun(host, properties, options or {})[1])
        return found

    def takes(self, answer: bytes, properties: Mapping[str, str]) -> bool:
        """Whether the client of AWS_MSK_IAM takes the broker's answer for a success."""
        client, _ = self._begun("b.kafka.us-east-1.amazonaws.com", properties, {})
        try:
            client.evaluateChallenge(answer)
        except Py4JJavaError:
            return False
        return bool(client.isComplete())

    def _begun(
        self, host: str, properties: Mapping[str, str], options: Mapping[str, str]
    ) -> tuple[Any, bytes]:
        """A client, and what it has sent."""
        handler = self._iam.IAMClientCallbackHandler()
        module = "software.amazon.msk.auth.iam.IAMLoginModule"
        with self._set(properties):
            self._configure(handler, "AWS_MSK_IAM", module, options)
            generator = self._iam.internals.AWS4SignedPayloadGenerator()
            client = self._iam.internals.IAMSaslClient("AWS_MSK_IAM", handler, host, generator)
            return client, bytes(client.evaluateChallenge(b""))

    def token(self, properties: Mapping[str, str], options: Mapping[str, str] | None = None) -> str:
        """The token of OAUTHBEARER."""
        handler = self._iam.IAMOAuthBearerLoginCallbackHandler()
        oauth = self._jvm.org.apache.kafka.common.security.oauthbearer
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        with self._set(properties):
            self._configure(handler, "OAUTHBEARER", module, options or {})
            callbacks = self._gateway.new_array(self._jvm.javax.security.auth.callback.Callback, 1)
            callbacks[0] = oauth.OAuthBearerTokenCallback()
            handler.handle(callbacks)
            return str(callbacks[0].token().value())

    def node_count(self, client: Mapping[str, str], properties: Mapping[str, str]) -> int:
        """How many brokers a client of Kafka's finds that logs in by this library."""
        with self._set(properties):
            admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(dict(client))
            try:
                return int(admin.describeCluster().nodes().get().size())
            finally:
                admin.close()

    def _configure(
        self, handler: Any, mechanism: str, module: str, options: Mapping[str, str]
    ) -> None:
        entries = self._jvm.javax.security.auth.login
        required = getattr(entries, "AppConfigurationEntry$LoginModuleControlFlag").REQUIRED
        entry = entries.AppConfigurationEntry(module, required, dict(options))
        handler.configure({}, mechanism, [entry])

    @contextmanager
    def _set(self, properties: Mapping[str, str]) -> Iterator[None]:
        system = self._jvm.java.lang.System
        for name, value in properties.items():
            system.setProperty(name, value)
        try:
            yield
        finally:
            for name in properties:
                system.clearProperty(name)


@contextmanager
def msk_library() -> Iterator[MskLibrary]:
    """The JVM ends with the context, and with this process at the latest. PySpark, if a test has
    used it in this process, converts the errors of every JVM: not of this one."""
    converting = java_gateway.get_return_value
    java_gateway.get_return_value = protocol.get_return_value
    port, token = launch_gateway(
        classpath=msk_classpath(),
        java_path=str(find_java()),
        javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    try:
        yield MskLibrary(gateway)
    finally:
        gateway.shutdown()
        java_gateway.get_return_value = converting
