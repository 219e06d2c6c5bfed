"""Versions and clocks, and what is said of them."""

from __future__ import annotations

import pytest

from jetstream_spark.command.environment import (
    of_clocks,
    of_driver,
    of_info,
    of_java,
    of_worker,
)
from jetstream_spark.command.finding import FAIL, OK, WARN

FACTS = {
    "host": "w1", "python": "3.11.7", "executable": "/usr/bin/python3", "pyspark": "4.3.0",
    "connector": "0.1.0", "kernels": {"a": "compiled"}, "connected": None, "error": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        (None, FAIL, "no java"),
        ('openjdk version "17.0.9" 2023-10-17\n', OK, "17.0.9"),
        ('java version "1.8.0_392"\n', FAIL, "8.0_392"),
        ('openjdk version "16" 2021', FAIL, "16"),
        ('openjdk version "25-ea" 2025', OK, "25-ea"),
        ("Segmentation fault", WARN, "not known"),
        ("", WARN, "not known"),
    ],
)
def test_java(output, status, said):
    found = of_java(output)
    assert (found.status, said in found.what) == (status, True)
    assert bool(found.remedy) == (status != OK)


def test_a_driver_that_is_well():
    assert {one.status for one in of_driver(FACTS, [])} == {OK}


def test_a_driver_that_is_not():
    facts = FACTS | {"python": "3.10.13", "kernels": {"a": "pure", "b": "compiled"}}
    python, pyspark, connector, kernels = of_driver(facts, ["streaming writes"])
    assert (python.status, pyspark.status, connector.status) == (FAIL, WARN, OK)
    assert (kernels.status, kernels.what.endswith("slower: a")) == (WARN, True)


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ({"python": "3.12.1"}, "python 3.12.1, the driver 3.11.7"),
        ({"connector": "0.2.0"}, "connector 0.2.0"),
        ({"pyspark": None}, "pyspark None"),
        (
            {"connector": None, "error": ["X", "No module named 'jetstream_spark'", ""]},
            "no connector",
        ),
        (
            {"connected": False, "error": ["CONNECTION_FAILED", "none.", "Look."]},
            "[CONNECTION_FAILED]",
        ),
    ],
)
def test_a_worker_that_differs(worker, said):
    [found] = of_worker(FACTS, FACTS | worker)
    assert (found.status, found.check) == (FAIL, "worker w1")
    assert said in found.what and found.remedy


def test_a_worker_that_is_well():
    [found] = of_worker(FACTS, FACTS | {"python": "3.11.2", "connected": True})
    assert (found.status, "reaches the servers" in found.what) == (OK, True)
    [slow] = of_worker(FACTS, FACTS | {"kernels": {"a": "pure"}})
    assert slow.status == WARN


@pytest.mark.parametrize(
    ("apart_s", "error_s", "status"),
    [(0.1, 0.05, OK), (-3, 0.1, WARN), (3, 1.5, OK), (601, 0.5, FAIL), (-700, 0, FAIL)],
)
def test_clocks(apart_s, error_s, status):
    found = of_clocks("clock", apart_s, error_s)
    assert found.status == status
    if status != OK:
        assert ("ahead of" if apart_s > 0 else "behind") in found.what


@pytest.mark.parametrize(
    ("info", "status", "said"),
    [
        ({"jetstream": True, "headers": True}, OK, "within 3 ms"),
        ({"headers": True}, FAIL, "no JetStream"),
        ({"jetstream": True}, FAIL, "headers"),
    ],
)
def test_servers(info, status, said):
    found = of_info("server", {"version": "2.14.0"} | info, 3.2)
    assert (found.status, said in found.what, bool(found.remedy)) == (status, True, status == FAIL)
