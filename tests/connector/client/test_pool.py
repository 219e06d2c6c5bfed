"""The pool lends live connections and forgets broken, old and inherited ones."""

from __future__ import annotations

import time

import pytest

from jetstream_spark.client import pool
from jetstream_spark.connection_options import read_connection_options
from jetstream_spark.option_map import OptionMap

pytestmark = pytest.mark.genuine


@pytest.fixture
def options(genuine):
    pool.close_all()
    yield read_connection_options(OptionMap({"servers": genuine.url}))
    pool.close_all()


def test_a_connection_is_used_again(options):
    with pool.lease(options, "test") as first, pool.lease(options, "test") as second:
        assert second is not first
    with pool.lease(options, "test") as again:
        assert again in (first, second)
    with pool.lease(options, "other") as other:
        assert other not in (first, second)


def test_after_an_error_it_is_not(options):
    with pytest.raises(RuntimeError), pool.lease(options, "test") as flow:
        raise RuntimeError
    assert not flow.is_open
    with pool.lease(options, "test") as again:
        assert again is not flow


def test_a_dead_or_old_one_is_replaced(options):
    with pool.lease(options, "test") as flow:
        pass
    flow.idle_since = time.monotonic() - pool.CHECK_AFTER_S - 1
    flow._socket.shutdown(2)
    with pool.lease(options, "test") as again:
        assert again is not flow and again.check(2)
    again.idle_since = time.monotonic() - pool.IDLE_MAX_S - 1
    with pool.lease(options, "test") as young:
        assert young is not again
    assert not again.is_open


def test_a_child_process_starts_with_none(options, monkeypatch):
    with pool.lease(options, "test") as flow:
        pass
    monkeypatch.setattr(pool.os, "getpid", lambda: -1)
    with pool.lease(options, "test") as own:
        assert own is not flow
    assert flow.is_open, "the parent goes on using it"
    flow.close()
