"""The SQL page: every statement of it runs, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs/sql.md"


def statements() -> list[str]:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), flags=re.S)
    return [one.strip() for block in blocks for one in block.split(";") if one.strip()]


def test_every_statement_of_the_page(spark, bundled):
    bundled.create_stream("ORDERS", subjects=["orders.>"])
    bundled.create_bucket("prices")
    orders = [("orders.new.a", b"1"), ("orders.paid.a", b"2"), ("orders.new.b", b"3")]
    bundled.publish([*orders, ("orders.paid.b", b"4")])
    bundled.publish([("$KV.prices.apple", b"7"), ("$KV.prices.apple", b"8")])
    found = []
    for statement in statements():
        rows = spark.sql(statement.replace("nats://127.0.0.1:4222", bundled.url)).collect()
        if statement.startswith("SELECT"):
            found.append([tuple(row) for row in rows])
    assert found == [
        [("orders.new.b", "3", 3), ("orders.paid.b", "4", 4)],
        [(subject, 1) for subject in sorted([s for s, _ in orders] + ["orders.paid.b"])],
        [("apple", "8")],
        [(4,)],
        [(1,), (3,)],
    ]
    assert bundled.last_sequence("ORDERS") == 5, "the INSERT added one"
    spark.sql("DROP VIEW orders")
    spark.sql("DROP VIEW prices")
    bundled.delete_stream("ORDERS")
    bundled.delete_stream("KV_prices")


def test_a_table_without_options_says_what_to_write(spark):
    spark.sql("CREATE TABLE without_options (data BINARY) USING jetstream")
    with pytest.raises(Exception, match="select from it WITH"):
        spark.sql("SELECT * FROM without_options").collect()
    spark.sql("DROP TABLE without_options")


FILTERS = [
    ("seq > 10 AND seq <= 15", True),
    ("seq = 7", True),
    ("seq IN (3, 5)", False),
    ("seq > 30 AND seq < 20", True),
    ("subject = 'PUSHA.1'", True),
    ("subject IN ('PUSHA.1', 'PUSHB.2')", True),
    ("subject LIKE 'PUSHA.%'", True),
    ("subject LIKE 'PUSH%'", False),
    ("subject = 'PUSHA.*'", False),
    ("subject <> 'PUSHA.1'", False),
    ("subject = 'NO.WHERE'", True),
    ("stream = 'PUSHB' AND seq < 3", True),
    ("seq > 10 OR subject = 'PUSHA.1'", False),
    ("timestamp >= '{moment}'", False),
    ("timestamp < '{moment}' AND stream IN ('PUSHA')", False),
]


def test_filters_are_pushed_down_and_rows_are_the_same(spark, jetstream):
    for name in ("PUSHA", "PUSHB"):
        jetstream.create_stream(name)
        jetstream.publish_numbers(name, 0, 40)
    answer = jetstream.control.request("STREAM.MSG.GET.PUSHA", {"seq": 20})
    moment = answer["message"]["time"][:26].rstrip("Z") + "Z"
    reader = spark.read.format("jetstream").options(servers=jetstream.url, stream="PUSHA,PUSHB")
    conf = "spark.sql.python.filterPushdown.enabled"
    try:
        for condition, is_exact in FILTERS:
            found = {}
            for setting in ("false", "true"):
                spark.conf.set(conf, setting)
                rows = reader.load().where(condition.format(moment=moment))
                found[setting] = sorted(tuple(r) for r in rows.select("stream", "seq").collect())
                plan = rows._jdf.queryExecution().executedPlan().toString()
                assert ("Filter " not in plan) == (is_exact and setting == "true"), (
                    condition,
                    plan,
                )
            assert found["true"] == found["false"], condition
    finally:
        spark.conf.set(conf, "false")
        jetstream.delete_stream("PUSHA")
        jetstream.delete_stream("PUSHB")
