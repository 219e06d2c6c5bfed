"""The error families say what, where, and whose fault."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from jetstream_server.base import errors
from jetstream_server.base.errors import (
    ApiError,
    ConfigError,
    JetStreamServerError,
    ProtocolError,
    StoreError,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ProtocolError("Stale Connection"), "Stale Connection"),
        (ProtocolError("", reason="Parse Error"), "Parse Error"),
        (ApiError(404, 10059, "stream not found"), "stream not found"),
        (
            StoreError("checksum mismatch", "/d/1.blk", 64),
            "checksum mismatch (/d/1.blk at byte 64)",
        ),
        (StoreError("cannot be read", "/d"), "cannot be read (/d)"),
        (StoreError("disk full"), "disk full"),
        (ConfigError("unknown field", "a.conf", 3, 5), "a.conf:3:5: unknown field"),
        (ConfigError("port in use"), "port in use"),
    ],
)
def test_texts(error, text):
    assert str(error) == text
    assert isinstance(error, JetStreamServerError)


def test_a_protocol_error_says_whether_it_ends_the_connection():
    assert ProtocolError("x").closes
    assert not ProtocolError("Invalid Subject", closes=False).closes


def test_every_exception_is_drawn():
    drawn = set(re.findall(r"\b[A-Z]\w*Error\b", errors.__doc__))
    made = {
        node.name
        for path in Path(errors.__file__).parents[1].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and re.fullmatch(r"[A-Z]\w*Error", node.name)
    }
    assert drawn - {"ValueError"} == made
