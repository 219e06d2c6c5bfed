"""Options of a connection: combinations that cannot work are named."""

from __future__ import annotations

import pickle

import pytest

from jetstream_spark.options.connection_options import read_connection_options
from jetstream_spark.options.option_map import OptionMap


def read(**options):
    option_map = OptionMap({"servers": "nats://h:1", **options})
    return read_connection_options(option_map), option_map.problems


def test_defaults():
    connection, problems = read()
    assert problems == []
    assert connection.api_prefix == "$JS.API"
    assert not connection.wants_tls
    assert pickle.loads(pickle.dumps(connection)) == connection
    assert hash(connection) == hash(read()[0])


@pytest.mark.parametrize(
    ("options", "prefix"),
    [({"domain": "hub"}, "$JS.hub.API"), ({"apiPrefix": "acme.js.api."}, "acme.js.api")],
)
def test_where_the_api_lives(options, prefix):
    assert read(**options)[0].api_prefix == prefix


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"domain": "a", "apiPrefix": "b"}, "cannot be combined with apiPrefix"),
        ({"domain": "a.b"}, "must be one word"),
        ({"apiPrefix": "a.*"}, "without wildcards"),
        ({"user": "u"}, "needs the option password"),
        ({"password": "p"}, "needs the option user"),
        ({"user": "u", "password": "p", "token": "t"}, "cannot be combined with token"),
        ({"credsFile": "f", "nkeyFile": "g"}, "give one kind of credential"),
        ({"tlsCertFile": "c"}, "needs the option tlsKeyFile"),
        ({"tlsKeyFile": "k"}, "needs the option tlsCertFile"),
        ({"tls": "false", "tlsFirst": "true"}, "contradicts"),
        ({"tls": "perhaps"}, "must be true or false"),
        ({"servers": "nats://a,tls://b"}, "mixes nats:// and tls://"),
        ({"servers": "ftp://a"}, "'ftp'"),
        ({"servers": "nats://u:hunter2@a"}, "must not carry credentials"),
        ({"connectTimeout": "0s"}, "more than zero"),
    ],
)
def test_mistakes(options, expected):
    _, problems = read(**options)
    assert any(expected in problem for problem in problems), problems
    assert not any("hunter2" in problem for problem in problems)


def test_servers_are_required():
    option_map = OptionMap({})
    read_connection_options(option_map)
    assert "option 'servers' is required" in option_map.problems[0]
