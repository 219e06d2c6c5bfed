"""Reading an option map: everything is collected, nothing secret is shown."""

from __future__ import annotations

import pytest

from jetstream_spark.options.option_map import SPARK_KEYS, OptionMap, masked


def test_every_mistake_is_collected_and_reading_goes_on():
    options = OptionMap({"a": "x", "b": "-1", "c": "", "d": "maybe", "list": "p,,q", "e": "7"})
    assert options.number("a", 5) == 5
    assert options.number("b", 6) == 6
    assert options.text("c", "z") == "z"
    assert options.flag("d", True) is True
    assert options.words("list") == ()
    assert options.number("e", 1) == 7
    assert len(options.problems) == 5
    assert options.problems[0] == "option 'a' = 'x' is not a whole number"


def test_keys_ignore_case_and_choices_too():
    options = OptionMap({"MAXrows": "3", "mode": "PURGE"})
    assert options.number("maxRows", 1) == 3
    assert options.choice("mode", ("none", "purge"), "none") == "purge"
    options.check_unknown()
    assert options.problems == []


def test_unknown_keys_get_a_suggestion_and_those_of_spark_pass():
    options = OptionMap(
        {"maxrowz": "3", "other": "1", "option.x": "y", **dict.fromkeys(SPARK_KEYS, "v")}
    )
    options.number("maxRows", 1)
    options.check_unknown(known_elsewhere=("other",))
    assert options.problems == [
        "option 'maxrowz' is not known; did you mean 'maxRows'?",
        "option 'other' = '1' does not apply here",
    ]


@pytest.mark.parametrize("key", ["passwrd", "pass", "nkey", "user.pw"])
def test_what_an_unknown_key_holds_is_not_shown(key):
    options = OptionMap({key: "s3cr3t"})
    options.secret("password")
    options.check_unknown()
    (problem,) = options.problems
    assert key in problem and "s3cr3t" not in problem


def test_repetitions_in_a_list():
    options = OptionMap({"stream": "A, B,A"})
    assert options.words("stream") == ()
    assert "names A more than once" in options.problems[0]


def test_values_that_must_not_be_shown():
    assert masked("password", "x") == masked("nkeySeedSecret", "x") == masked("token", "x") == "***"
    assert masked("servers", "nats://a:b@h") == "***"
    assert masked("tokenFile", "/p") == "/p"
    assert masked("stream", "S") == "S"
