"""The `jetstream` block: limits of batches and of what a stream takes in, and mistakes in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import options_of
from jetstream_server.config.options import JetStreamOptions


def read(text: str) -> JetStreamOptions:
    return options_of(parse_text(text, "n.conf")).jetstream


def test_limits() -> None:
    options = read(
        """
        jetstream {
          max_buffered_msgs: 7, max_buffered_size: 1KB
          limits {
            max_ack_pending: 5
            batch { max_inflight_per_stream: 1, max_inflight_total: 2, max_msgs: 3, timeout: "4s" }
          }
        }
        """
    )
    assert (options.max_buffered_messages, options.max_buffered_size) == (7, 1024)
    assert options.max_ack_pending == 5
    assert (options.batches_per_stream, options.batches_total) == (1, 2)
    assert (options.batch_messages_max, options.batch_timeout_ns) == (3, 4 * SECOND)


MISTAKES = [
    "jetstream: 5",
    "jetstream: maybe",
    "jetstream { limits: 5 }",
    "jetstream { limits { batch: 5 } }",
    "jetstream { limits { batch { nonsense: 5 } } }",
    'jetstream { limits { batch { max_msgs: "x" } } }',
    "jetstream { limits { batch { timeout: 5 } } }",
    'jetstream { limits { batch { timeout: "zz" } } }',
]


@pytest.mark.genuine
@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named_as_the_genuine_server_names_them(
    text: str, genuine_binary: str, tmp_path: Path
) -> None:
    (tmp_path / "n.conf").write_text(text)
    with pytest.raises(ConfigError) as refused:
        read(text)
    judged = subprocess.run(
        [genuine_binary, "-t", "-c", "n.conf"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    said = judged.stderr.splitlines()[0].removeprefix("nats-server: ")
    assert str(refused.value).splitlines()[0] == said


def test_a_folder_named_twice_is_refused() -> None:
    """The genuine server says the same, at either key: it walks the block in random order."""
    with pytest.raises(ConfigError, match="1:28: Duplicate 'store_dir' configuration"):
        read('jetstream { store_dir: "a", storedir: "b" }')


def test_keys_that_cannot_be_had_are_refused() -> None:
    with pytest.raises(ConfigError, match='"tpm": keys from a TPM are not supported'):
        read("jetstream { tpm { keys_file: a } }")
