"""What the environment of a developer says to Spark's processes, and a user's does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Options for a JVM that starts soon and stays slow; and a Python that keeps no bytecode, so that
# each of Spark's processes compiles the connector, which `pip` does once when it installs it.
NOT_AT_USERS = ("SPARK_SUBMIT_OPTS", "PYTHONDONTWRITEBYTECODE")


@contextmanager
def as_at_users() -> Iterator[None]:
    """Take it out of this process's environment for as long as it starts others."""
    kept = {key: os.environ.pop(key) for key in NOT_AT_USERS if key in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
