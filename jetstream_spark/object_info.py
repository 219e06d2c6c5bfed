"""How an object store describes an object: the JSON that every NATS client writes and reads.

An object store is a stream `OBJ_<store>` (ADR-20). The content of an object is cut into chunks,
messages of the subject `$O.<store>.C.<nuid>`; one message of the subject `$O.<store>.M.<name>`, the
name in base64url, describes them and removes the one before it (a rollup). So an object exists when
that message does, whatever chunks there are.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import Any

from jetstream_spark.errors import ObjectDamagedError

STORE_STREAM_PREFIX = "OBJ_"
CHUNK_BYTES = 128 << 10

STORE_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
# One token of a subject that is read, and purged; no client makes it longer than 22 letters.
_NUID = re.compile(r"[A-Za-z0-9_=/-]{1,255}")
_DIGEST = "SHA-256="
_COUNT_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object, as its last message describes it.

    Attributes:
        subject: of the message; clients rename an object without changing it.
        nuid: what the subject of its chunks ends with, "" when it has none.
        digest: `SHA-256=` and base64url.
        link: `<store>/<name>` of the object that this one links to, `<store>` for a whole store, ""
            when it is not a link.
        revision: the sequence of the message.
        modified_ns: when it was stored, in nanoseconds since 1970.
    """

    name: str
    subject: str = ""
    nuid: str = ""
    size: int = 0
    chunks: int = 0
    digest: str = ""
    is_deleted: bool = False
    description: str | None = None
    headers: dict[str, list[str]] = field(default_factory=dict)
    link: str = ""
    revision: int = 0
    modified_ns: int = 0

    @property
    def has_content(self) -> bool:
        """Whether there are, or were, chunks of it."""
        return not self.is_deleted and not self.link


def chunk_subject(info: ObjectInfo) -> str:
    """The subject of an object's chunks; in a mirror it has the name of the mirrored store."""
    return f"$O.{info.subject.split('.')[1]}.C.{info.nuid}"


def info_subject(store: str, name: str) -> str:
    """The subject of the message about an object."""
    return f"$O.{store}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def digest_text(sha256: bytes) -> str:
    """A digest as the clients write it."""
    return _DIGEST + base64.urlsafe_b64encode(sha256).decode()


def is_digest(text: str, sha256: bytes) -> bool:
    """Whether a text is this digest; clients differ in case and in the padding."""
    head, body = text[: len(_DIGEST)], text[len(_DIGEST) :]
    return head.upper() == _DIGEST and body.rstrip("=") == digest_text(sha256)[
        len(_DIGEST) :
    ].rstrip("=")


def info_json(info: ObjectInfo, store: str, chunk_bytes: int = CHUNK_BYTES) -> bytes:
    """The payload of the message about an object."""
    fields: dict[str, Any] = {"name": info.name}
    if info.description:
        fields["description"] = info.description
    if info.headers:
        fields["headers"] = info.headers
    fields["options"] = {"max_chunk_size": chunk_bytes}
    # The time of the message counts; Go's clients write none here.
    fields |= {"bucket": store, "nuid": info.nuid, "size": info.size}
    fields |= {"mtime": "0001-01-01T00:00:00Z", "chunks": info.chunks}
    if info.digest:
        fields["digest"] = info.digest
    if info.is_deleted:
        fields["deleted"] = True
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def parse_info(payload: bytes, subject: str, revision: int, modified_ns: int) -> ObjectInfo:
    """Read the message about an object; a marker that a server left in place of one is a delete.

    Raises:
        ObjectDamagedError: it does not describe an object.
    """
    try:
        fields = json.loads(payload) if payload else {"name": _name_in(subject), "deleted": True}
        return _checked(fields, subject, revision, modified_ns)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ObjectDamagedError(
            f"message {revision} of an object store ('{subject}') should say what an object is, "
            f"and cannot be read ({type(error).__name__}): {payload[:80]!r}.",
            "Put the object again, or remove the message from the stream.",
        ) from None


def _name_in(subject: str) -> str:
    try:
        return base64.urlsafe_b64decode(subject.rpartition(".")[2]).decode()
    except (binascii.Error, UnicodeDecodeError):
        return subject


def _checked(fields: dict[str, Any], subject: str, revision: int, modified_ns: int) -> ObjectInfo:
    name, nuid = fields["name"], fields.get("nuid") or ""
    digest, description = fields.get("digest") or "", fields.get("description")
    for text in (name, digest, description or ""):
        text.encode()  # half of a surrogate pair is not text
    is_deleted = fields.get("deleted") is True
    link = _link((fields.get("options") or {}).get("link"))
    if not _NUID.fullmatch(nuid) and (nuid or not (is_deleted or link)):
        raise ValueError
    return ObjectInfo(
        name,
        subject,
        nuid,
        _count(fields.get("size")),
        _count(fields.get("chunks")),
        digest,
        is_deleted,
        description or None,
        _headers(fields.get("headers")),
        link,
        revision,
        modified_ns,
    )


def _count(value: object) -> int:
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= _COUNT_MAX:
        raise ValueError
    return value


def _link(value: object) -> str:
    if not value:
        return ""
    if not isinstance(value, dict):
        raise TypeError
    store, name = value["bucket"], value.get("name") or ""
    name.encode()
    if not STORE_NAME.fullmatch(store):
        raise ValueError
    return f"{store}/{name}" if name else store


def _headers(value: object) -> dict[str, list[str]]:
    """Headers as Go's clients write them, with a list for each; a plain text counts as a list of
    one."""
    if not value:
        return {}
    if not isinstance(value, dict):
        raise TypeError
    found = {}
    for key, texts in value.items():
        listed = [texts] if isinstance(texts, str) else list(texts)
        for text in (key, *listed):
            text.encode()
        found[key] = listed
    return found
