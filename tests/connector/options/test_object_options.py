"""Options of object stores: what they mean, and what does not go with them."""

from __future__ import annotations

import pytest

from jetstream_spark.errors import OptionsError
from jetstream_spark.options.format_options import SinkOptions, SourceOptions

SERVERS = {"servers": "nats://a:1"}


def test_a_store_is_its_stream() -> None:
    options = SourceOptions.parse(SERVERS | {"objectStore": "files", "maxObjectSize": "2MiB"})
    assert (options.streams, options.subjects) == (("OBJ_files",), ("$O.*.M.*",))
    assert (options.max_object_bytes, options.expects_removals) == (2 << 20, True)
    assert SinkOptions.parse(SERVERS | {"objectStore": "files"}).stream == "OBJ_files"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"objectStore": "a.b"}, "is no name of a store"),
        ({"objectStore": "a", "maxObjectSize": "2000m"}, "is more than 1GiB"),
        ({"objectStore": "a", "stream": "S"}, "cannot be combined with objectStore"),
        ({"objectStore": "a", "bucket": "S"}, "cannot be combined with objectStore"),
        ({"stream": "S", "maxObjectSize": "1m"}, "is about the option objectStore"),
    ],
)
@pytest.mark.parametrize("side", [SourceOptions, SinkOptions])
def test_options_that_do_not_fit(side, options, problem) -> None:
    with pytest.raises(OptionsError, match=problem):
        side.parse(SERVERS | options)


@pytest.mark.parametrize(
    "options",
    [{"subjects": "a"}, {"commitMode": "purge"}, {"fetchMode": "direct"}, {"streamPattern": "a"}],
)
def test_what_a_read_does_not_take(options) -> None:
    with pytest.raises(OptionsError, match="cannot be combined with objectStore"):
        SourceOptions.parse(SERVERS | {"objectStore": "a"} | options)


@pytest.mark.parametrize(
    "options",
    [
        {"subject": "a"},
        {"publishMode": "atomic"},
        {"maxInFlight": "7"},
        {"nullData": "empty"},
        {"onError": "deadLetter", "deadLetterSubject": "d"},
        {"dedupe": "column"},
    ],
)
def test_what_a_write_does_not_take(options) -> None:
    with pytest.raises(OptionsError, match="objectStore"):
        SinkOptions.parse(SERVERS | {"objectStore": "a"} | options)
