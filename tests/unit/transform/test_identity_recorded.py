"""Identities that claims on existing clusters hold: the same transform keeps its hash.

A changed hash stops links whose targets were written before. The hashes were recorded with Causeway
as of November 2026, with the versions below in place of the installed ones.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from causeway.config import RegistrySettings, Secret, TransformSettings
from causeway.filters import compile_patterns
from causeway.transform import identity as identities
from causeway.transform.rules import to_sql

VERSIONS = {
    "pyspark": "4.3.0",
    "fastavro": "1.12.0",
    "protobuf": "6.33.1",
    "pandas": "2.3.3",
    "pyarrow": "22.0.0",
    "fastfpe": "1.0.0",
}
AES = "000102030405060708090a0b0c0d0e0f"
SECRETS = {"salt": Secret("pepper, and more than 16 bytes"), "aes": Secret(AES)}
REGISTRY = RegistrySettings(url="http://registry")
RULES = {
    "mask": "mask value.$.a; mask value.$.b keep first 1 keep last 2 with '#' only digits;"
    " mask value.$.mail keep domain; mask value.$.c only 'xyz'; mask value.$.d only letters",
    "hash": "hash value.$.a with salt; hash value.$.b with salt as base64",
    "tokenise": "tokenise value.$.a with aes; tokenise value.$.b as hex with aes;"
    " tokenise value.$.c[*].d as 'abcdef' with aes",
    "encrypt": "encrypt value.$.a with aes; encrypt value.$.b with aes id in header;"
    " encrypt value.$.c[*] with aes",
    "generalise": "generalise value.$.a to year; generalise value.$.b to month;"
    " generalise value.$.c to day; generalise value.$.d to hour;"
    " generalise value.$.e to ranges of 10; generalise value.$.f to ranges of 10 as number",
    "truncate": "truncate value.$.a to 3; truncate value.$.b[0].c to 4 optional",
    "drop": "drop value.$.a; drop value.$.b.*; drop value.$.c[*]['x y'] required",
    "drop record": "drop record where value.$.a is 'x'; drop record where value.$.b is not null;"
    " drop record where value.$.c is not in (1, 2.5, true, 'x''y');"
    " drop record where value.$.d is null; drop record where value.$.e is 7",
    "overlap": "mask value.$.a; truncate value.$.a to 2; drop value.$.a.b; drop value.$.*.c",
    "key": "mask key.$.a; hash value.$.b with salt",
    "headers": "drop headers.x; mask headers.y; hash headers.* with salt; drop headers.z.$.a;"
    " encrypt headers.w with aes; encrypt headers.v.$.a[*] with aes;"
    " drop record where headers.u is 'x'; drop record where headers.t is not null;"
    " truncate headers['x.y'] to 2; generalise headers.s to month; encrypt headers.* with aes",
}
WHOLE = (
    "mask key keep last 2; hash value with salt",
    "tokenise key as digits with aes; encrypt value with aes id in field",
    "drop record where value is not in ('a', 1); truncate key to 2; generalise value to year",
    "drop key; encrypt value with aes",
)


def transform(**changes: Any) -> TransformSettings:
    settings: dict[str, Any] = {
        "name": "pii",
        "topics": compile_patterns("customers"),
        "secrets": SECRETS,
        "place": "here",
        "value_format": "json",
        "key_format": "json",
    }
    return TransformSettings(**settings | changes)


KINDS: dict[str, TransformSettings] = {
    "sql": transform(sql="SELECT sha2(concat(key, secrets.salt), 256) AS key FROM records"),
    "sql, text": transform(sql="SELECT 1 AS key FROM records", value_format="string"),
    "sql, schema": transform(sql="SELECT * FROM records", value_schema="a INT", key_schema="b INT"),
    "sql, avro": transform(sql="SELECT * FROM records", value_format="avro", registry=REGISTRY),
    "python": transform(python="theirs:mask", value_format="protobuf", registry=REGISTRY),
    **{f"rules, {name}": transform(rules=text) for name, text in RULES.items()},
    **{
        f"rules, whole {at}": transform(rules=text, key_format="string", value_format="string")
        for at, text in enumerate(WHOLE)
    },
    "rules, bytes": transform(rules=WHOLE[3], key_format="binary", value_format="binary"),
    "rules, schema": transform(rules=RULES["mask"], value_schema="a STRING, b INT, mail STRING"),
    "rules, avro": transform(rules=RULES["mask"], value_format="avro", registry=REGISTRY),
    "rules, protobuf": transform(rules=RULES["drop"], value_format="protobuf", registry=REGISTRY),
}
RECORDED: dict[str, str] = {
    "sql": "20830ee912143194aeb9f56ae307ca927b6b007958c9abddfeee524847c17634",
    "sql, text": "87ddaababd2a3dce8c69a072aa479b471b7fb70ddb403c8710c56124a3673b95",
    "sql, schema": "c385e1b4375cfdd92131417be67fb7719e5c127ec33eca89f80973d89682c2da",
    "sql, avro": "3dc1296ba3a0c9fd7e319bf265e41dbbd98e4f78d0bbee9238116bb85599eabe",
    "python": "4f10f4c904cec985a53fe9e0d750cb1630b639aff8f02905350bb7a6a6441aef",
    "rules, mask": "ae073fafa65017c5eac9a1c4734a95077bd644f72facb0d5c9ef7e19c418a093",
    "rules, hash": "6420e5eee70ba2df11be311108a601ec69251129901fdabae2fd2084198eb5ea",
    "rules, tokenise": "0d88ace7fec1a95c11c942fb0e92251614d51e03d6f01b03724f997c4a4c001c",
    "rules, encrypt": "8e2b33e410f3c25bf4a2c992a1889afdb18b03be9696588a4d166a14c0392dbb",
    "rules, generalise": "cca626b8873311f7e9d44ce0b55557f9ab12c31595b714524fb976d42f87aa35",
    "rules, truncate": "501dc46073700dba4036509337f8bfee72a732ed938e5090ad053996c810119f",
    "rules, drop": "39995f6f5248c8a46fda579cde19bfef0ef68f7c125398cb94f168c53b4939fe",
    "rules, drop record": "65fd6de240ea8abe8b917cb7c517ffa6dc832f3d7b480cecc963683b6ca9d815",
    "rules, overlap": "642576db07c7af7b92a439a7061b68d54af136a5f65bdb4d7c16aee111cc1913",
    "rules, key": "b65387de2675feb97fc3e06d52aee73c3aac6016298c66eef7e52c7f5836ce30",
    "rules, headers": "08522f5a09f26524741c80433551a7ed4f070fabc279a36e2dfd84903ae27af6",
    "rules, whole 0": "027bf12693d378e1ac6ad923265194232df71dc5ce3879da800eee2c6b9cf2a1",
    "rules, whole 1": "1ccff8ab67b763982c351e0850f01a3748d60dd015307d1bbebe0f55777e03c0",
    "rules, whole 2": "4bdc3f47e308d60e06ca5e106ce6af498ae4bd25a66b2064dcdba6a4f402f398",
    "rules, whole 3": "c20c730cd679c5e48b0dc2dfac97b97a2560ba34346adee7ea90139d778ad729",
    "rules, bytes": "c5033fa055c322b301c8c07781cbf0b3fdb85677cd2036daac138ab7c8802b9c",
    "rules, schema": "68ccaf97896a835242ecadfe8735250cbfde6aa2b2b803fd578f81f3a856151e",
    "rules, avro": "a5db9145614c16ffc4d34b79b8359c9d5e28d3cb686e5083d0e7dbda9d6d13a5",
    "rules, protobuf": "dbcfd9dac434342e2c67eda764e05a3d1212f9d84846540c949c662beda832da",
}


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identities, "version", VERSIONS.__getitem__)
    version = SimpleNamespace(major=3, minor=12)
    monkeypatch.setattr(identities, "sys", SimpleNamespace(version_info=version, path=[]))
    (tmp_path / "theirs.py").write_text("import beside\n\ndef mask(records): return records\n")
    (tmp_path / "beside.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("theirs", None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transform_keeps_its_recorded_identity(kind: str) -> None:
    found = identities.identity_of(KINDS[kind], {"spark.sql.x": "1", "spark.y": "2"}, 17)

    assert found == RECORDED[kind]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("rules")])
def test_rules_become_the_recorded_query(kind: str) -> None:
    """Says which of the two has changed, the query or what is hashed besides it."""
    assert hashlib.sha256(to_sql(KINDS[kind]).encode()).hexdigest()[:16] == QUERIES[kind]


QUERIES: dict[str, str] = {
    "rules, mask": "61024cb3aee09d3a",
    "rules, hash": "735c0ab4d8206256",
    "rules, tokenise": "ca021bd9ff1009fb",
    "rules, encrypt": "8b1e8a7be2fb37ff",
    "rules, generalise": "db99ae1933c3e1b9",
    "rules, truncate": "a2673326c50392a4",
    "rules, drop": "ea181b2e91ef2e5c",
    "rules, drop record": "8d5c5940cff15a80",
    "rules, overlap": "4bd81983c5deae8b",
    "rules, key": "f3352c993e9bd314",
    "rules, headers": "474df2f688f08732",
    "rules, whole 0": "736898efa95004ef",
    "rules, whole 1": "68f6cff0c9a8606a",
    "rules, whole 2": "fa4d4f5cf26df0ec",
    "rules, whole 3": "8d00615c8ca74cdc",
    "rules, bytes": "c5604008bfa2bc5f",
    "rules, schema": "36e4e10f24001b10",
    "rules, avro": "23a53f0b880b42e7",
    "rules, protobuf": "40eb800bfa937de2",
}
