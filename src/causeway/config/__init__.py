"""The settings of a run, and the keys of the files that they come from.

`causeway.config.reading` makes settings from the keys of a file; `causeway.formats` reads files.
"""

from causeway.config.changes import (
    SettingChange,
    SettingRow,
    SettingRows,
    SettingSection,
    changed_rows,
    changes,
    rows_of,
)
from causeway.config.clients import (
    CLUSTER_ID,
    REGISTRY_TLS,
    SECURITY,
    ClientKeys,
    ClientSettings,
    FetchSettings,
    ProducerKeys,
    RegistryKeys,
    SchemaKeys,
    SecurityProtocol,
    from_wire,
    to_wire,
)
from causeway.config.described import (
    SALT_BYTES,
    DescribedSetting,
    described,
    digests,
    equal,
    restored,
)
from causeway.config.entries import (
    Entries,
    Entry,
    Problems,
    PropertyFile,
    Rereading,
    Stamp,
    have_changed,
    note,
    read,
    read_file,
    rereadable,
    stamp_of,
)
from causeway.config.key_table import Applies, Key, KeyTable, values_of
from causeway.config.keys import (
    OF_FLOWS,
    OLD_NAMES,
    PROVENANCE,
    SKIP_HEADER,
    ControlSettings,
    FlowKeys,
    FlowSwitch,
    HeartbeatKeys,
)
from causeway.config.logins import (
    AssertionSettings,
    AwsSettings,
    GoogleSettings,
    KerberosSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    TicketRenewal,
    TlsSettings,
)
from causeway.config.process import (
    IN_SECONDS,
    HttpSettings,
    RunSettings,
    WebhookSettings,
    in_millis,
    is_local,
    is_loopback,
)
from causeway.config.routes import (
    INTERNAL,
    MOST_PARTITIONS,
    NOT_A_NAME,
    NOT_A_PARTITION,
    RouteError,
    Routes,
    most_partitions,
)
from causeway.config.settings import (
    HeartbeatSettings,
    LinkSettings,
    RegistrySettings,
    ReverseFlow,
    SchemaSettings,
    Settings,
    TransformSettings,
    TreatmentSettings,
    links_of,
    reverse_of,
    unknown,
)
from causeway.config.transform_keys import (
    SECRET_FIELD,
    TRANSFORM_FAMILY,
    TRANSFORM_REGISTRY_TLS,
    TRANSFORM_SECRETS,
    TRANSFORMS,
    TransformKeys,
    is_transform_key,
    is_transform_text,
    key_in_transform,
    no_references,
    split_transform_key,
)
from causeway.config.values import FrozenMap, Secret, TransformFormat
