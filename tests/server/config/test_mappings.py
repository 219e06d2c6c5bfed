"""The `mappings` block."""

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.mappings import read_mappings
from jetstream_server.config.options import MappingDestination, SubjectMapping


def mappings(text: str) -> tuple[tuple[SubjectMapping, ...], list[str]]:
    errors: list[ConfigError] = []
    token = parse_text(f"mappings {{ {text} }}", "f", {}).value["mappings"]
    return read_mappings("mappings", token, errors), [error.text for error in errors]


def test_one_destination() -> None:
    made, errors = mappings('"foo.*": "bar.$1"')
    assert errors == []
    assert made == (SubjectMapping("foo.*", (MappingDestination("bar.$1"),)),)


def test_weighted_destinations() -> None:
    made, errors = mappings("foo: [{dest: a, weight: 80%}, {destination: b, weight: 20}]")
    assert errors == []
    assert made[0].destinations == (MappingDestination("a", 80), MappingDestination("b", 20))


def test_weights_count_for_each_cluster() -> None:
    made, errors = mappings(
        "foo: [{dest: a, weight: 80, cluster: x}, {dest: b, weight: 80, cluster: y}]"
    )
    assert errors == []
    assert [destination.cluster for destination in made[0].destinations] == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"foo..x": a', 'Subject "foo..x" is not a valid subject'),
        ("foo: 5", "Expected an entry for the mapping destination"),
        ("foo: [{dest: a}]", 'Missing weight for mapping destination "a"'),
        ("foo: [{dest: a, weight: x%}]", 'Invalid weight "x" for mapping destination'),
        ("foo: [{dest: a, weight: 120}]", "Invalid weight 120 for mapping destination"),
        ("foo: {dest: a, weight: 1, zz: 1}", 'Unknown field "zz" for mapping destination'),
        (
            "foo: [{dest: a, weight: 80}, {dest: b, weight: 30}]",
            'Error adding mapping for "foo" : total weight needs to be <= 100',
        ),
    ],
)
def test_mistakes(text: str, error: str) -> None:
    _, errors = mappings(text)
    assert errors == [error]
