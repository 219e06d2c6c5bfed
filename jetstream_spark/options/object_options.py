"""The options of an object store as a source or sink: `objectStore`, `maxObjectSize`.

An object store is a stream `OBJ_<store>` (`object_info.py`), so everything else about reading it
works as for streams; what makes no sense for objects is refused here (docs/objects.md).
"""

from __future__ import annotations

from jetstream_spark.object_info import STORE_NAME
from jetstream_spark.options.option_map import OptionMap

# Of all stores that a mirror may hold; see `object_info.chunk_subject`.
INFO_SUBJECTS = ("$O.*.M.*",)
OBJECT_BYTES_MAX = 64 << 20
# Of larger ones no column of bytes could hold two; Spark and Arrow end at twice as much.
_LIMIT_BYTES = 1 << 30

_STORE = "an object store is a stream of its own; give one of them"
_NOT_READ = {
    "stream": _STORE,
    "streamPattern": _STORE,
    "bucket": _STORE,
    "subjects": "all objects are read; filter by name in Spark",
    "commitMode": "a store keeps what it holds, and nothing is acknowledged",
    "fetchMode": "what objects are is read by a consumer",
}
_ONE_BY_ONE = "objects are written one by one"
_NOT_WRITTEN = {
    "stream": _STORE,
    "bucket": _STORE,
    "subject": "the name of an object is its subject",
    "publishMode": _ONE_BY_ONE,
    "maxInFlight": _ONE_BY_ONE,
    "onError": "an object that is refused has no message to send elsewhere",
    "nullData": "an object of no bytes is an empty value",
}


def read_object_store(options: OptionMap, *, is_sink: bool) -> tuple[str, int]:
    """The object store (empty when there is none), and the largest object in bytes."""
    store = options.text("objectStore")
    bytes_max = options.size("maxObjectSize", "64MiB")
    if not store:
        if options.has("maxObjectSize"):
            options.add_problem(
                "maxObjectSize", "is about the option objectStore, which is not given"
            )
        return "", bytes_max
    if not STORE_NAME.fullmatch(store):
        options.add_problem("objectStore", "is no name of a store: letters, digits, '-' and '_'")
    if bytes_max > _LIMIT_BYTES:
        options.add_problem("maxObjectSize", "is more than 1GiB, the most that a row may have here")
    for key, reason in (_NOT_WRITTEN if is_sink else _NOT_READ).items():
        if options.has(key):
            options.add_problem(key, f"cannot be combined with objectStore: {reason}")
    return store, bytes_max
