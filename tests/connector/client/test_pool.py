"""The pool lends live connections and forgets broken, old and inherited ones."""

from __future__ import annotations

import os
import time

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import this_host
from jetstream_spark.options.connection_options import read_connection_options
from jetstream_spark.options.option_map import OptionMap
from tests.leasing import lease

pytestmark = pytest.mark.genuine


@pytest.fixture
def options(genuine):
    pool.close_all(this_host())
    yield read_connection_options(OptionMap({"servers": genuine.url}))
    pool.close_all(this_host())


def test_a_connection_is_used_again(options):
    with lease(options, "test") as first, lease(options, "test") as second:
        assert second.inner is not first.inner
    with lease(options, "test") as again:
        assert again.inner in (first.inner, second.inner)
    with lease(options, "other") as other:
        assert other.inner not in (first.inner, second.inner)


def test_after_an_error_it_is_not(options):
    with pytest.raises(RuntimeError), lease(options, "test") as flow:
        raise RuntimeError
    assert not flow.is_open
    with lease(options, "test") as again:
        assert again.inner is not flow.inner


def test_a_dead_or_old_one_is_replaced(options):
    with lease(options, "test") as flow:
        pass
    flow.inner.idle_since = time.monotonic() - pool.CHECK_AFTER_S - 1
    flow.link.carrier.socket.shutdown(2)
    with lease(options, "test") as again:
        assert again.inner is not flow.inner and again.check(30)
    again.inner.idle_since = time.monotonic() - pool.IDLE_MAX_S - 1
    with lease(options, "test") as young:
        assert young.inner is not again.inner
    assert not again.is_open


def test_one_whose_server_is_leaving_is_not_kept(options):
    with lease(options, "test") as flow:
        flow.inner.is_leaving = True
    assert not flow.is_open
    with lease(options, "test") as again:
        assert again.inner is not flow.inner


def test_a_child_process_starts_with_none(options, monkeypatch):
    with lease(options, "test") as flow:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with lease(options, "test") as own:
        assert own.inner is not flow.inner
    assert flow.is_open, "the parent goes on using it"
    flow.close()
