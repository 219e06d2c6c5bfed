"""The kernels by themselves: what peers send and what stands in blocks, to the twin that is in use.

What others make of the input (positions of a run, ids, flags) is made from it, so that it is as
kernels may expect it. The pure twin is asked for the same now and then, always in tests, and has to
say the same.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from jetstream_server.core.provenance import OWN
from jetstream_server.kernels import (
    acks,
    columns,
    deliveries,
    direct_gets,
    filters,
    frames,
    message_ids,
    records,
    seen_ids,
    single_gets,
    subjects,
)
from jetstream_server.kernels.acks import pure as acks_pure
from jetstream_server.kernels.columns import pure as columns_pure
from jetstream_server.kernels.deliveries import pure as deliveries_pure
from jetstream_server.kernels.direct_gets import pure as direct_gets_pure
from jetstream_server.kernels.filters import pure as filters_pure
from jetstream_server.kernels.frames import pure as frames_pure
from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.message_ids import pure as message_ids_pure
from jetstream_server.kernels.record_format import SEQUENCE_MAX
from jetstream_server.kernels.records import pure as records_pure
from jetstream_server.kernels.seen_ids import pure as seen_ids_pure
from jetstream_server.kernels.single_gets import pure as single_gets_pure
from jetstream_server.kernels.subjects import pure as subjects_pure
from jetstream_server.node import reserved
from jetstream_server.protocol.ops import STRIDE, PubRun

from tests.fuzz.parsers.blocks import sound
from tests.fuzz.parsers.targets import Target

# One input in so many is given to the pure twin, too, which takes most of the time where it is.
compared_every = 1


def compare_every(inputs: int) -> None:
    """Have the pure twin asked for one input in so many; for the same ones each time."""
    global compared_every
    compared_every = inputs


def _is_compared(data: bytes) -> bool:
    return zlib.crc32(data) % compared_every == 0


def _beside(
    data: bytes, ask: Callable[..., Any], used: tuple[Any, ...], pure: tuple[Any, ...]
) -> None:
    """Ask the kernels in use, and maybe the pure ones, which say the same."""
    said = ask(data, *used)
    if _is_compared(data):
        assert said == ask(data, *pure)


_BITS = bytes(byte & 1 for byte in range(256))
_STEPS = bytes(byte % 4 + 1 for byte in range(256))
_EIGHT = bytes(byte % 8 for byte in range(256))


# -- runs --------------------------------------------------------------------------------------


def publishes(data: bytes) -> None:
    """Frames of clients behind a byte that says what is allowed; and to subscribers."""
    _beside(data, _publishes, (frames,), (frames_pure,))


def _publishes(data: bytes, kernel: Any) -> object:
    allowed, chunk = data[0] if data else 0, data[1:]
    fields = array("i")
    headers = bool(allowed & 4)
    line_max, payload_max = (20, 200)[allowed & 1], (10, 1000)[allowed >> 1 & 1]
    stop = kernel.scan_publishes(chunk, 0, fields, line_max, payload_max, headers)
    count = len(fields) // STRIDE
    if not count:
        return stop
    start = count - 1 if allowed & 8 else 0
    sent, content = kernel.encode_messages(chunk, fields, start, count, b"12", bool(allowed & 16))
    assert kernel.delivered_bytes(sent) == content
    several = kernel.encode_for_each(chunk, fields, start, count, [b"12", b"3"], bool(allowed & 16))
    traced = kernel.first_traced(chunk, fields, start, count)
    return stop, fields, sent, content, several, traced, kernel.published_bytes(fields)


# Of so many messages a short run is made, as others take most of the time.
_FEW = 8
_FIELDS_MAX = _FEW * STRIDE


def lines(data: bytes) -> array[int]:
    """Return the fields of a run of messages `subject reply payload`, with a bar between two."""
    fields = array("i")
    start, size = 0, len(data)
    while start < size and len(fields) < _FIELDS_MAX:
        stop = data.find(b"|", start)
        if stop < 0:
            stop = size
        a = data.find(b" ", start, stop)
        if a != start and stop > start:  # a subject is not empty
            if a < 0:
                a = b = c = stop
            else:
                b = a + 1
                c = data.find(b" ", b, stop)
            if c < 0:
                c = stop
            payload = min(c + 1, stop)
            fields.extend((start, a, b, c, payload, payload, stop))
        start = stop + 1
    return fields


_A, _B, _C, _D = "one", "two", "three", "four"
_ROUTES = {b"a": _A, b"b": _A, b"c": _B, b"a.c": _B, b"$JS.API.INFO": _C, b"x.y.z": _A, b"dd": _D}
_FAMILIES: list[dict[bytes, str]] = [
    {},
    {b"f": _A, b"g.h": _B, b"f.": _C},
    {b"i": _B, b"j.k": _A},
    {b"l": _C},
    {b"m": _A},
    {b"$JS.ACK.S.C": _D, b"$JS.ACK.S.D": _A},
]


def names(data: bytes) -> None:
    """Subjects and replies: where a run is cut, and what only servers may use."""
    fields = lines(data)
    _beside(data, _names, (subjects, fields), (subjects_pure, fields))


def _names(data: bytes, kernel: Any, fields: array[int]) -> object:
    count = len(fields) // STRIDE
    said: list[object] = []
    start = 0
    if len(data) % 2:
        said.append(kernel.admitted(data, fields, reserved.SUBJECTS, reserved.REPLIES))
        while start < count:
            start = kernel.first_reserved(
                data, fields, start, count, reserved.SUBJECTS, reserved.REPLIES
            )
            said.append(start)
            start += 1
        return said
    while start < count:
        cut, target = kernel.segment(data, fields, start, count, _ROUTES, _FAMILIES)
        said.append((cut, target))
        start = cut if target is not None else cut + 1
    return [*said, kernel.prefixes(data[fields[0] : fields[1]]) if count else None]


_HEAD = b'{"stream":"S","seq":'


def acknowledgements(data: bytes) -> None:
    """Acks that come, and replies that are answered."""
    fields = lines(data)
    _beside(data, _acknowledgements, (acks, fields), (acks_pure, fields))


def _acknowledgements(data: bytes, kernel: Any, fields: array[int]) -> object:
    count = len(fields) // STRIDE
    said: list[object] = []
    start = 0
    if len(data) % 2:
        while start < count:
            cut, reply, is_exact = kernel.reply_run(data, fields, start, count)
            assert start < cut <= count
            said.append((cut, reply, is_exact))
            if reply:
                seq = 10 ** (len(data) % 19) - 1 or 1
                said.append(kernel.encode_pub_acks(data, fields, start, cut, b"7", _HEAD, seq))
            start = cut
        return said
    given = array("Q")
    while start < count:
        start = kernel.take_plain_acks(data, fields, start, count, given)
        said.append(start)
        start += 1
    if given:
        given = array("Q", sorted(given))
        pending = array("Q", accumulate(data[:20].translate(_STEPS)))
        live, taken = bytearray(data[: len(pending)].translate(_BITS)), array("Q")
        said.append((kernel.settle(pending, live, given, 0, taken), live, taken))
    return [*said, given]


def questions(data: bytes) -> None:
    """Direct gets of single messages."""
    fields = lines(data)
    _beside(data, _questions, (single_gets, fields), (single_gets_pure, fields))


def _questions(data: bytes, kernel: Any, fields: array[int]) -> object:
    count = len(fields) // STRIDE
    said: list[object] = []
    for start in range(min(count, 4)):
        address_bytes = fields[start * STRIDE + 1] - fields[start * STRIDE]
        said.append(kernel.sequences_asked(data, fields, start, count, address_bytes))
        said.append(kernel.subjects_asked(data, fields, start, count, min(address_bytes, 4)))
    return said


def ids_in_headers(data: bytes) -> None:
    """Blocks of headers with a bar between two: who asks for what, and which ids are new."""
    used = (message_ids, frames, records, seen_ids.SeenIds)
    pure = (message_ids_pure, frames_pure, records_pure, seen_ids_pure.SeenIds)
    _beside(data, _ids_in_headers, used, pure)


def _ids_in_headers(
    data: bytes, kernel: Any, tracing: Any, counting: Any, seen_type: Any
) -> object:
    fields = array("i")
    at = 0
    # The ids of long runs are looked for sixteen at once.
    for block in data.split(b"|", -1 if data[-1:] == b"|" else _FEW - 4):
        stop = at + len(block)
        fields.extend((at, at, at, at, at, stop, stop))
        at = stop + 1
    count = len(fields) // STRIDE
    said: list[object] = [
        kernel.first_special(data, fields, 0, count),
        kernel.first_special(data, fields, 0, count, b"S"),
        tracing.first_traced(data, fields, 0, count),
        counting.count_headed(fields, count // 2, count),
    ]
    seen = seen_type()
    start, first_seq = 0, 5
    while start < count:
        spans = kernel.id_spans(data, fields, start, count, b"S")
        said.append(spans)
        found = len(spans) // 2
        place = 0
        while place < found:
            cut = seen.take(data, spans, place)
            said.append(cut)
            if cut == place:
                said.append(seen.sequences(data, spans, place))
                cut += 1
            elif len(spans) % 3:
                seen.keep(first_seq)
                first_seq += cut - place
            else:
                seen.drop()
            place = cut
        if found:
            seen.restore(data, spans, array("Q", range(found)))
            said.append([seen.find(data[spans[at] : spans[at + 1]]) for at in (0, 2 * found - 2)])
            seen.forget(start & 1)
        start += max(found, 1)
    return said, len(seen)


# -- blocks ------------------------------------------------------------------------------------


def stored(data: bytes) -> None:
    """A block of records, with right checksums or not; what is asked of those that are sound."""
    block = data[1:] if data[:1] < b"\x10" else sound(data[1:])
    used = (records, columns, deliveries, direct_gets, message_ids, single_gets, block)
    pure = (
        records_pure, columns_pure, deliveries_pure, direct_gets_pure, message_ids_pure,
        single_gets_pure, block,
    )  # fmt: skip
    _beside(data, _stored, used, pure)


def _stored(
    data: bytes, kernel: Any, column: Any, sending: Any, direct: Any, ids: Any, single: Any,
    block: bytes,
) -> object:  # fmt: skip
    positions, subject_ids, sequences = array("I"), array("I"), array("Q")
    known = Interned()
    stop = kernel.scan_records(block, 0, len(block), positions, subject_ids, sequences, known)
    count = len(positions)
    said: list[object] = [stop, positions, subject_ids, sequences, known.names]
    if not count or sequences[-1] > SEQUENCE_MAX:  # a block is cut there
        return said
    option = data[0]
    first_seq, offsets = sequences[0], array("I", [each - sequences[0] for each in sequences])
    alive = data[-count:].translate(_BITS) if option & 1 else b""
    flags = data[: len(known)].translate(_BITS) if option & 2 else b""
    flags = flags.ljust(len(known), b"\1") if flags else b""
    said.append(kernel.measure(block, positions, alive, 0, count, option & 3, 50, 7))
    target, moved = bytearray(len(block)), (array("I"), array("I"), array("Q"))
    used = kernel.gather(
        block, positions, subject_ids, alive, 0, count, first_seq, offsets, target, 0, *moved
    )
    said += (used, target[:used], moved)
    local = array("I")
    said += (column.localize(subject_ids, count, local), local)
    lengths_of = column.names_of(block, positions, local, count)
    said += (lengths_of, column.number_names(*lengths_of, Interned()))
    wide, chosen, sizes = array("Q"), array("Q"), array("Q")
    said.append(
        column.select(
            block, positions, subject_ids, flags, alive, 0, count, first_seq, offsets,
            1 + option % 5, 60, wide, chosen, sizes,
        )
    )  # fmt: skip
    said += (wide, chosen, sizes)
    taken = len(wide)
    picks = array("Q", range(option % 2, taken, 2)) if option & 4 else None
    said.append(
        sending.encode_deliveries(
            block, wide, chosen, 0, taken, b"9", b"$JS.ACK.S.C.", 1 + option % 3, 5, option,
            bool(option & 8), picks, bool(option & 32), b"A: b\r\n" * (option >> 6 & 1),
            bool(option & 128),
        )
    )  # fmt: skip
    stream = b"S" * (option & 1)
    said.append(direct.encode_answers(block, wide, chosen, taken, b"r 9", stream, 99, 0, 200))
    said.append(
        single.encode_found(
            [block if byte & 3 else None for byte in data[:taken]], wide, chosen, 0,
            b"ab", array("i", (0, 1, 1, 2, 2, 2, 2)) * taken, 0, b"9", b"S",
        )
    )  # fmt: skip
    said.append(ids.recorded_ids(block, wide, 0, 2**62))
    living, counts = bytearray(alive or b"\1" * count), array("Q", bytes(8 * len(known)))
    firsts, lasts, ranges = counts[:], counts[:], array("Q")
    said.append(
        column.add_to_counters(subject_ids, 0, count, first_seq, offsets, counts, firsts, lasts)
    )
    said.append(
        column.bury(
            block, positions, subject_ids, flags, living, 0, count, 3, first_seq, offsets,
            array("I"), counts, ranges,
        )
    )  # fmt: skip
    return [*said, living, counts, firsts, lasts, ranges]


def numbers(data: bytes) -> None:
    """Columns of numbers, as they stand in indexes; the sets and counters of subjects."""
    _beside(data, _numbers, (columns, filters), (columns_pure, filters_pure))


def _numbers(data: bytes, kernel: Any, chosen: Any) -> object:
    option, given = data[0] if data else 0, data[1:25]
    ids, size = array("I", [*given.translate(_EIGHT)]), len(given)
    offsets = array("I", accumulate(given.translate(_STEPS)) if option & 1 else ())
    alive = given[::-1].translate(_BITS) if option & 2 else b""
    flags = (given + bytes(8))[:8].translate(_BITS)
    first_seq = (1, 2**32 - 3, 2**63 - 40)[option % 3]
    counts = array("Q", bytes(64))
    firsts, lasts = counts[:], counts[:]
    start = min(option >> 5, size)
    said: list[object] = [
        kernel.add_to_counters(ids, 0, size, first_seq, offsets, counts, firsts, lasts)
    ]
    if option & 16:
        return [
            *said,
            (counts, firsts, lasts),
            chosen.total(flags, counts),
            chosen.present(flags, counts, lasts, lasts[0], first_seq + 9),
            chosen.order(ids, lasts),
            chosen.rising(ids, lasts),
            chosen.among(ids, 8),
            chosen.spread(flags, ids),
            chosen.newest(flags, counts, lasts),
            chosen.next_bound(flags, counts, firsts, lasts, first_seq + option % 16),
        ]
    pending, found, held, gone = bytearray(flags), array("Q"), array("Q"), array("I")
    kernel.last_of_each(ids, alive, start, size, array("I"), pending, first_seq, offsets, 3, found)
    steps = array("Q", accumulate(given[:8].translate(_EIGHT), initial=first_seq))
    kernel.living(steps, 0, len(steps), first_seq, start, size, alive, offsets, held, gone)
    said += (
        kernel.count(ids, flags if option & 4 else b"", alive, start, size),
        kernel.find(ids, alive, start, size, option % 8),
        kernel.find(ids, alive, start, size, option % 8, is_last=True),
        kernel.withdraw(ids, alive, start, size, array("I"), counts),
    )
    three = ids[:3]
    sums = [array("I", each[: len(three)]) for each in ((1, 2, 3), (0, 1, 5), (option, 2**31, 9))]
    said.append(
        kernel.merge(
            three, *sums, first_seq, first_seq + 30, sparse=bool(option & 8), counts=counts,
            firsts=firsts, lasts=lasts,
        )
    )  # fmt: skip
    return [*said, pending, found, held, gone, counts, firsts, lasts]


_PATTERNS = (b"a.*", b"*.b", b">", b"a.>", b"*", b"x.*.z", b"aa.*.>", b"a*", b"*a.b>", b"a.b")


def patterns(data: bytes) -> None:
    """Names with a bar between two, which patterns match."""
    _beside(data, _patterns, (filters,), (filters_pure,))


def _patterns(data: bytes, kernel: Any) -> object:
    option, given = data[0] if data else 0, data[1:].split(b"|")
    wanted = _PATTERNS[option % 10 : option % 10 + 1 + option // 64]
    last = given.pop()
    if last and b".." not in last and last[:1] != b"." != last[-1:]:
        wanted += (last,)
    flags = bytearray(len(given))
    kernel.mark(given, 0, len(given), wanted, flags)
    stood = kernel.mark_stored(b"".join(given), array("H", map(len, given)), wanted)
    assert stood == flags
    return flags, stood


def _records() -> bytes:
    run = PubRun.of(
        [
            (b"s.%d" % (at % 3), b"", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n" * (at % 2), b"%d" % at)
            for at in range(6)
        ]
    )
    buffer = bytearray(500)
    _, used = records.encode_run(
        run.chunk, run.fields, 0, 6, 5, 7, buffer, 0, array("I"), array("I"), Interned()
    )
    return bytes(buffer[:used])


TARGETS = {
    "kernel-frames": Target(
        publishes,
        (
            b"\x1fPUB a.b r 5\r\nhello\r\nHPUB a 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
            b"\x17HPUB a r 31 31\r\nNATS/1.0\r\nTraceParent: 00-1\r\n\r\n\r\nPUB a 0\r\n\r\n",
            b"\x0eHPUB a 33 34\r\nNATS/1.0\r\nNats-Trace-Dest: a.b\r\n\r\n1\r\n",
        ),
        longest=400,
    ),
    "kernel-subjects": Target(
        names,
        (
            b"a|a|a.c|$JS.API.INFO r|c|f.1|f.2|j.k.1.2|$JS.ACK.S.C.1.2.3.4.5|$JS.ACK.S.C.1.2.3.4.6",
            b"$NRG.x|a $JS.ACK.S|a _R_.x|_GR_.1 _GR_.2|a $GR.|m.1.2.3.4|g.h.1|l.1.2.3|x.y.z|dd",
            b"a " + OWN[0] + b"x|a " + OWN[0],
        ),
        longest=150,
    ),
    "kernel-acks": Target(
        acknowledgements,
        (
            b"$JS.ACK.S.C.1.22.3.4.5|$JS.ACK.S.C.1.23.3.4.5  +ACK|$JS.ACK.S.C.1.24.3.4.5  +OK",
            b"a _INBOX.x.1 p|a _INBOX.x.2 q|b _INBOX.y|b _INBOX.y|c|c r.|c .r",
            b"$JS.ACK.S.C.1.9223372036854775808.3.4.5|$JS.ACK.S.C.1.0.3.4.5 r +NAK",
        ),
        longest=200,
    ),
    "kernel-gets": Target(
        questions,
        (
            b'$A r {"seq":5}|$A r { "seq" :\t999999999999999999 }\r\n|$A r {"seq":0}|$A r',
            b"$A.S.a.b r|$A.S.* r|$A.S.a|$A.S. r|$A.S.c r ",
        ),
        longest=200,
    ),
    "kernel-ids": Target(
        ids_in_headers,
        (
            b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n|NATS/1.0\r\nA:b\r\nNats-Msg-Id:2\r\n\r\n",
            b"NATS/1.0\r\nNats-Msg-Id: 1\r\nNats-Expected-Stream: S\r\n\r\n|"
            b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n|NATS/1.0\r\nNats-Rollup: all\r\n\r\n|"
            b"NATS/1.0\r\ntraceparent: x\r\n\r\n|NATS/1.0 503\r\n\r\n",
        ),
        longest=400,
    ),
    "kernel-records": Target(
        stored, tuple(option + _records() for option in (b"\x40", b"\xff", b"\x8d")), longest=600
    ),
    "kernel-columns": Target(numbers, (bytes(range(40)), b"\xff\x03\x03\x05" * 9), longest=80),
    "kernel-filters": Target(
        patterns, (b"\x00a.b|a.b.c|x.y.z|a..b|.a|a.|", b"\x83aa.b.c|a*|b|a.b|*.b.>"), longest=200
    ),
}
