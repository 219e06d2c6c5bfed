"""Dashboards and alert rules are well-formed, and ask only for numbers that there are."""

from __future__ import annotations

import itertools
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.observation.prometheus import PrometheusCollector
from jetstream_spark.observation.query_numbers import METRICS, QueryNumbers
from tests.ports import free_port

MONITORING = Path(__file__).parents[1] / "monitoring"
DASHBOARDS = sorted(MONITORING.glob("grafana-*.json"))

# What Grafana's importer asks for, and what a panel needs to draw a line.
TEXT = {"type": "string", "minLength": 1}
WHOLE = {"type": "integer", "minimum": 0}
PANEL = {
    "type": "object",
    "required": ["id", "title", "type", "datasource", "gridPos", "targets"],
    "properties": {
        "id": WHOLE,
        "title": TEXT,
        "type": {"enum": ["timeseries"]},
        "gridPos": {
            "type": "object",
            "required": ["h", "w", "x", "y"],
            "properties": dict.fromkeys("hwxy", WHOLE),
        },
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["refId", "expr", "legendFormat"],
                "properties": dict.fromkeys(("refId", "expr", "legendFormat"), TEXT),
            },
        },
    },
}
DASHBOARD = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "uid": TEXT,
        "title": TEXT,
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 6, "items": PANEL},
        "templating": {"type": "object", "required": ["list"]},
    },
}
RULES = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "properties": {
                    "rules": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr", "labels", "annotations"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^[A-Z][A-Za-z]+$"},
                                "expr": TEXT,
                                "for": {"type": "string", "pattern": "^[0-9]+[smh]$"},
                                "labels": {"type": "object", "required": ["severity"]},
                                "annotations": {
                                    "type": "object",
                                    "required": ["summary", "action"],
                                },
                            },
                        },
                    }
                },
            },
        }
    },
}


def dashboard(path: Path) -> dict:
    return json.loads(path.read_text())


def rules() -> list[dict]:
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def names_in(expression: str) -> Iterator[str]:
    """The metrics that an expression asks for, patterns of names spelt out."""
    for pattern in re.findall(r'__name__=~"([^"]+)"', expression):
        parts = [part.split("|") for part in re.split(r"[()]", pattern)]
        yield from map("".join, itertools.product(*parts))
    without_labels = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", expression)
    yield from re.findall(r"\b(?:gnatsd|jetstream)_\w+", without_labels)


@pytest.fixture(scope="module")
def served() -> set[str]:
    """The names of the real `/metrics` of the server, and of what `observe` serves."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    with (
        JetStreamServer(arguments=["-m", str(port)]),
        urllib.request.urlopen(url, timeout=60) as answer,
    ):
        text = answer.read().decode()
    registry = CollectorRegistry()
    registry.register(PrometheusCollector(QueryNumbers()))
    text += generate_latest(registry).decode()
    return set(re.findall(r"^# TYPE (\w+)", text, flags=re.M))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_are_well_formed(path):
    told = dashboard(path)
    jsonschema.validate(told, DASHBOARD)
    panels = told["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_there_is_one_for_servers_and_one_for_queries():
    assert [path.stem for path in DASHBOARDS] == ["grafana-queries", "grafana-server"]
    assert len({dashboard(path)["uid"] for path in DASHBOARDS}) == 2


def test_alert_rules_are_well_formed():
    jsonschema.validate(yaml.safe_load((MONITORING / "alerts.yml").read_text()), RULES)
    assert len({rule["alert"] for rule in rules()}) == len(rules()) > 8


def test_only_numbers_that_there_are_are_asked_for(served):
    asked = {
        name
        for path in DASHBOARDS
        for panel in dashboard(path)["panels"]
        for target in panel["targets"]
        for name in names_in(target["expr"])
    }
    variables = {
        name
        for path in DASHBOARDS
        for variable in dashboard(path)["templating"]["list"]
        for name in names_in(str(variable["query"]))
    }
    alerted = {name for rule in rules() for name in names_in(rule["expr"])}
    assert len(asked) > 25 and len(variables) == 2 and len(alerted) > 9
    assert (asked | variables | alerted) - served == set()


def test_labels_that_are_asked_for_are_those_of_the_numbers():
    for path in DASHBOARDS:
        for panel in dashboard(path)["panels"]:
            [target] = panel["targets"]
            for name in names_in(target["expr"]):
                metric = METRICS.get(name.removeprefix("jetstream_spark_").removesuffix("_total"))
                shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                if metric is not None:
                    assert shown <= set(metric.labels), (panel["title"], shown)


def test_every_number_of_a_query_is_shown_somewhere():
    text = (MONITORING / "grafana-queries.json").read_text()
    assert [one.name for one in METRICS.values() if one.name not in text] == []
