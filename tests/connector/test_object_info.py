"""What is said of an object: as the clients say it, and whatever somebody else may."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.errors import ObjectDamagedError
from jetstream_spark.object_info import (
    ObjectInfo,
    chunk_subject,
    digest_text,
    info_json,
    info_subject,
    is_digest,
    parse_info,
)

SUBJECT = info_subject("S", "a")
DIGEST = digest_text(sha256(b"x").digest())


def test_what_is_said_is_understood() -> None:
    said = ObjectInfo("größe", SUBJECT, "nuid", 7, 2, DIGEST, False, "text", {"K": ["1", "2"]})
    found = parse_info(info_json(said, "S"), SUBJECT, 3, 4)
    assert (found.revision, found.modified_ns) == (3, 4)
    assert ObjectInfo(*(getattr(found, name) for name in said.__slots__[:-3])) == said


def test_what_go_clients_say() -> None:
    text = (
        '{"name":"a","description":"d","headers":{"K":["v"]},"options":{"max_chunk_size":131072},'
        '"bucket":"S","nuid":"ZXjpsUSfVyMtqAM2lHPp2A","size":1,"mtime":"0001-01-01T00:00:00Z",'
        f'"chunks":1,"digest":"{DIGEST}"}}'
    )
    info = parse_info(text.encode(), SUBJECT, 1, 2)
    assert (info.nuid, info.size, info.chunks) == ("ZXjpsUSfVyMtqAM2lHPp2A", 1, 1)
    assert info.has_content and is_digest(info.digest, sha256(b"x").digest())
    assert chunk_subject(info) == "$O.S.C.ZXjpsUSfVyMtqAM2lHPp2A"


def test_links_and_deletes() -> None:
    def parse(**fields: object) -> ObjectInfo:
        return parse_info(json.dumps({"name": "a", **fields}).encode(), SUBJECT, 1, 2)

    link = {"bucket": "T", "name": "b/c"}
    assert parse(options={"link": link}, nuid="n").link == "T/b/c"
    assert parse(options={"link": {"bucket": "T"}}, nuid="n").link == "T"
    assert parse(deleted=True).is_deleted
    marker = parse_info(b"", SUBJECT, 1, 2)
    assert (marker.name, marker.is_deleted, marker.has_content) == ("a", True, False)


@pytest.mark.parametrize("text", [DIGEST, DIGEST.rstrip("="), "sha-256=" + DIGEST[8:]])
def test_a_digest_in_any_spelling(text: str) -> None:
    assert is_digest(text, sha256(b"x").digest())
    assert not is_digest(text, sha256(b"y").digest())


@pytest.mark.parametrize("text", ["", "SHA-256=", DIGEST[8:], "SHA-512=" + DIGEST[8:]])
def test_what_is_no_digest(text: str) -> None:
    assert not is_digest(text, sha256(b"x").digest())


@pytest.mark.parametrize(
    "payload",
    [
        b"no json",
        b"[]",
        b"1",
        b"{}",
        b"[" * 100_000,
        b'{"name":"a"}',
        b'{"name":null,"nuid":"n"}',
        b'{"name":"\\ud800","nuid":"n"}',
        b'{"name":"a","nuid":"a.b"}',
        b'{"name":"a","nuid":">"}',
        b'{"name":"a","nuid":"a\\r\\nPUB x 0"}',
        b'{"name":"a","nuid":"%b"}' % (b"n" * 5000),
        b'{"name":"a","nuid":"n","size":-1}',
        b'{"name":"a","nuid":"n","size":1.5}',
        b'{"name":"a","nuid":"n","size":true}',
        b'{"name":"a","nuid":"n","size":%b}' % (b"9" * 5000),
        b'{"name":"a","nuid":"n","chunks":9223372036854775808}',
        b'{"name":"a","nuid":"n","digest":7}',
        b'{"name":"a","nuid":"n","options":[1]}',
        b'{"name":"a","options":{"link":{"bucket":"a.>"}}}',
        b'{"name":"a","options":{"link":"b"}}',
        b'{"name":"a","nuid":"n","headers":{"a":[1]}}',
        b'{"name":"a","nuid":"n","headers":[1]}',
    ],
)
def test_what_says_nothing_of_an_object_is_named(payload: bytes) -> None:
    with pytest.raises(ObjectDamagedError, match=r"message 12 of an object store"):
        parse_info(payload, SUBJECT, 12, 2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = [
    "name",
    "nuid",
    "size",
    "chunks",
    "digest",
    "deleted",
    "description",
    "headers",
    "options",
    "link",
    "bucket",
]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_anything_is_an_object_or_damage(fields: dict[str, object]) -> None:
    fields = {"name": "a", "nuid": "n"} | fields
    try:
        info = parse_info(json.dumps(fields).encode(), SUBJECT, 1, 2)
    except ObjectDamagedError:
        return
    info_json(info, "S")
    assert "\n" not in chunk_subject(info)
