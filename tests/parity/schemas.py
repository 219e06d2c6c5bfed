"""What servers send, held against the published schemas (`schemas/`, see its README).

A document is a reply of the API, an acknowledgement of a publish, an advisory or a metric. The
schemas are older than the servers, so the genuine server breaks some; the bundled one may break
them in no other way than the genuine one does in the same scenario.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema import Draft7Validator, ValidationError

SCHEMAS = Path(__file__).parent / "published"
PUB_ACK = "io.nats.jetstream.api.v1.pub_ack_response"
UNTYPED = "no type"
_DIGITS = re.compile(r"\d+")


class Document(NamedTuple):
    """What a server sent, and the type it has, or should say it has."""

    type: str
    body: Any


class Breach(NamedTuple):
    """A place in the documents of a type, and what is wrong there."""

    type: str
    place: str
    reason: str


class Comparison(NamedTuple):
    """Documents of one scenario.

    Attributes:
        valid: how many of the bundled server keep their schema, by type.
        excused: how many break it only as the genuine server does.
        faults: the others, as text.
        unknown: types without a schema.
    """

    valid: Counter[str]
    excused: Counter[str]
    faults: list[str]
    unknown: set[str]


def documents(subject_payloads: Iterable[tuple[str, bytes]]) -> list[Document]:
    """Return the documents among messages, each given by what it answers and its payload.

    Args:
        subject_payloads: for a reply the subject that was asked, for others their own subject.
    """
    found = []
    for subject, payload in subject_payloads:
        if payload[:1] != b"{":
            continue
        try:
            body = json.loads(payload)
        except ValueError:
            continue
        kind = body.get("type") if isinstance(body, dict) else None
        if isinstance(kind, str) and kind.startswith("io.nats."):
            found.append(Document(kind, body))
        elif _is_publish_ack(body):
            found.append(Document(PUB_ACK, body))
        elif ".API." in subject and subject.startswith("$JS."):
            found.append(Document(UNTYPED, body))
    return found


def _is_publish_ack(body: Any) -> bool:
    return isinstance(body, dict) and "seq" in body and ("stream" in body or "error" in body)


@cache
def _by_type() -> dict[str, Any]:
    read = [json.loads(path.read_text()) for path in sorted(SCHEMAS.rglob("*.json"))]
    return {schema["title"]: schema for schema in read}


@cache
def _validators(kind: str, failed: bool) -> tuple[Draft7Validator, ...]:
    """Return what checks documents of a type, nothing for a type without a schema.

    A schema that says "either an answer or an error" is taken apart, so that a breach names the
    field and not only that neither fits.
    """
    schema = _by_type().get(kind)
    if schema is None:
        return ()
    whole = {key: value for key, value in schema.items() if key != "oneOf"}
    branch = [one for one in schema.get("oneOf", ()) if ("error" in one["required"]) == failed]
    return tuple(Draft7Validator(one) for one in (whole, *branch[:1]))


def breaches(document: Document) -> set[Breach]:
    """Return every way in which a document breaks its schema."""
    if document.type == UNTYPED:
        return {Breach(UNTYPED, "", "")}
    return {
        Breach(document.type, _place(error), _DIGITS.sub("N", error.message))
        for validator in _validators(document.type, "error" in document.body)
        for error in validator.iter_errors(document.body)
    }


def _place(error: ValidationError) -> str:
    return ".".join("N" if isinstance(key, int) else key for key in error.absolute_path)


def compare(ours: list[Document], theirs: list[Document]) -> Comparison:
    """Hold what both servers sent in one scenario against the schemas."""
    genuine = {breach for document in theirs for breach in breaches(document)}
    valid: Counter[str] = Counter()
    excused: Counter[str] = Counter()
    faults = []
    for document in ours:
        if not (found := breaches(document)):
            valid[document.type] += bool(_validators(document.type, "error" in document.body))
        elif found <= genuine:
            excused[document.type] += 1
        else:
            broken = "\n".join(map(str, sorted(found - genuine)))
            faults.append(f"{broken}\n  in {json.dumps(document.body)[:2000]}")
    kinds = {document.type for document in [*ours, *theirs]} - {UNTYPED}
    return Comparison(valid, excused, faults, kinds - set(_by_type()))
