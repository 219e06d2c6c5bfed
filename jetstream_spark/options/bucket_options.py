"""The options of a key-value bucket as a source: `bucket`, `keys`, `kvMode`.

A bucket is a stream `KV_<bucket>` with the subjects `$KV.<bucket>.<key>` (ADR-8), so everything
else about reading it works as for streams; what makes no sense for a bucket is refused here
(docs/options.md#reading-a-key-value-bucket).
"""

from __future__ import annotations

import re

from jetstream_spark.options.option_map import OptionMap

BUCKET_STREAM_PREFIX = "KV_"
LATEST_VALUES = "latest"
HISTORY = "history"
CHANGES = "changes"

_BUCKET = re.compile(r"[A-Za-z0-9_-]+")
_KEY_TOKEN = re.compile(r"[A-Za-z0-9_/=\\-]+|[*>]")
_OF_STREAMS = {
    "stream": "a bucket is a stream of its own; give one of them",
    "streamPattern": "a bucket is a stream of its own; give one of them",
    "subjects": "use keys, which takes the same wildcards",
    "commitMode": "a bucket keeps what it holds, and nothing is acknowledged",
}


def read_bucket(options: OptionMap) -> tuple[str, tuple[str, ...]]:
    """The bucket (empty when there is none) and the patterns of its keys."""
    bucket = options.text("bucket")
    keys = options.words("keys")
    if bucket and not _BUCKET.fullmatch(bucket):
        options.add_problem("bucket", "is no name of a bucket: letters, digits, '-' and '_'")
    if not bucket:
        for key in ("keys", "kvMode"):
            if options.has(key):
                options.add_problem(key, "is about the option bucket, which is not given")
        return "", ()
    for key, reason in _OF_STREAMS.items():
        if options.has(key):
            options.add_problem(key, f"cannot be combined with bucket: {reason}")
    for pattern in keys:
        tokens = pattern.split(".")
        if not all(_KEY_TOKEN.fullmatch(token) for token in tokens) or ">" in tokens[:-1]:
            options.add_problem(
                "keys",
                f"has the entry '{pattern}': a key is letters, digits and _ = / \\ - in tokens "
                "separated by '.', '*' for one token, '>' for all that follow",
            )
    return bucket, keys


def read_sink_bucket(options: OptionMap) -> str:
    """The bucket to write into, empty when there is none."""
    bucket = options.text("bucket")
    if bucket and not _BUCKET.fullmatch(bucket):
        options.add_problem("bucket", "is no name of a bucket: letters, digits, '-' and '_'")
    for key in ("stream", "subject") if bucket else ():
        if options.has(key):
            reason = "a bucket is a stream of its own, and keys are its subjects"
            options.add_problem(key, f"cannot be combined with bucket: {reason}")
    return bucket


def kv_mode(text: str) -> str:
    """Read `latest`, `history` or `changes`, in any case; return it in lower case.

    Raises:
        ValueError: it is another word.
    """
    word = text.strip().lower()
    if word not in (LATEST_VALUES, HISTORY, CHANGES):
        raise ValueError(f"must be one of {LATEST_VALUES}, {HISTORY}, {CHANGES}")
    return word


def key_subjects(bucket: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The subjects of key patterns; none for all keys."""
    return tuple(f"$KV.{bucket}.{pattern}" for pattern in keys)
