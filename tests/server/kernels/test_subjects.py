"""The subjects kernel: cutting runs by target, finding reserved subjects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.kernels.subjects import pure as subjects_pure
from jetstream_server.protocol.ops import PubRun

NONE: list[dict[bytes, Any]] = [{} for _ in range(6)]


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.subjects")


def subjects_run(*subjects: bytes) -> PubRun:
    return PubRun.of((subject, b"", b"", b"x") for subject in subjects)


def test_segment_cuts_where_the_target_changes(kernel: Any) -> None:
    one, two = ["target"], ["target"]
    routes = {b"a": one, b"b": one, b"c": two}
    run = subjects_run(b"a", b"b", b"a", b"c", b"c", b"nobody", b"a")
    cuts = [kernel.segment(run.chunk, run.fields, start, 7, routes, NONE) for start in (0, 3, 5, 6)]
    assert [cut for cut, _ in cuts] == [3, 5, 5, 7]
    assert cuts[0][1] is one
    assert cuts[1][1] is two
    assert cuts[2][1] is None
    assert cuts[3][1] is one
    assert kernel.segment(run.chunk, run.fields, 1, 2, routes, NONE) == (2, one)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=12))
def test_segments_cover_the_run(kernel: Any, subjects: list[bytes]) -> None:
    run = subjects_run(*subjects)
    routes = {b"a": "one", b"b": "one", b"c": "two"}
    start = 0
    while start < len(subjects):
        cut, target = kernel.segment(run.chunk, run.fields, start, len(subjects), routes, NONE)
        assert target is routes.get(subjects[start])
        if target is None:
            assert cut == start
            cut += 1
        assert all(routes.get(subject) is target for subject in subjects[start:cut])
        if target is not None and cut < len(subjects):
            assert routes.get(subjects[cut]) is not target
        start = cut


@pytest.mark.parametrize(
    ("subject", "prefixes"),
    [
        (b"a", []),
        (b".a", []),
        (b"a.", []),
        (b"a.b", [(b"a", 1)]),
        (b"a..b", [(b"a.", 1)]),
        (b".a.b", [(b".a", 1)]),
        (b"a.b.c", [(b"a.b", 1), (b"a", 2)]),
        (b"a..c.d", [(b"a..c", 1), (b"a.", 2)]),
        (b"a.b.c.", []),
        (
            b"aa.b.c.d.e.f",
            [(b"aa.b.c.d.e", 1), (b"aa.b.c.d", 2), (b"aa.b.c", 3), (b"aa.b", 4)],
        ),
        (b"$JS.ACK.S.C.1.2.3.4.5", [(b"$JS.ACK.S.C", 5)]),
        (b"$JS.ACK.S.C.1.2.3.4", []),
        (b"$JS.ACK.S.C.1.2.3.4.5.6", []),
        (b"$JS.ACK.S.C.1..3.4.5", []),
        (b"$JS.ACK.S.C.1.2.3.4.", []),
        (b"$JS.ACK.S", []),
        (b"$JS.ACK.", []),
        (b"", []),
    ],
)
def test_prefixes(kernel: Any, subject: bytes, prefixes: list[tuple[bytes, int]]) -> None:
    assert kernel.prefixes(subject) == prefixes


@given(st.lists(st.sampled_from([b"a", b"$JS", b"ACK", b"", b"cc"]), max_size=12))
def test_prefixes_are_those_of_the_twin(kernel: Any, tokens: list[bytes]) -> None:
    subject = b".".join(tokens)
    assert kernel.prefixes(subject) == subjects_pure.prefixes(subject)


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            [
                b"a",
                b"f.1",
                b"f.2",
                b"f.",
                b"f.1.2",
                b"g.1",
                b"w.1.x",
                b"w.2.x",
                b"w..x",
                b"w.1.2.3",
                b"w.9.2.3",
                b"w.1.2.3.4.5",
                b"$JS.ACK.S.C.1.2.3.4.5",
                b"$JS.ACK.S.C.1.3.4.5.6",
                b"$JS.ACK.S.C.1",
                b"$JS.ACK.S.C.1.2.3.4.5.6",
                b"$JS.ACK.S.D.1.2.3.4.5",
            ]
        ),
        min_size=1,
        max_size=8,
    )
)
def test_segments_go_by_family(kernel: Any, subjects: list[bytes]) -> None:
    run = subjects_run(*subjects)
    one, two = "one", "two"
    routes = {b"a": one, b"f.1": two, b"f.1.2": two, b"$JS.ACK.S.D.1.2.3.4.5": one, b"w.9.2.3": one}
    families: list[dict[bytes, str]] = [{} for _ in range(6)]
    families[1][b"f"] = families[2][b"w"] = families[3][b"w"] = families[4][b"w.1"] = one
    families[5][b"$JS.ACK.S.C"] = two
    targets = []
    for subject in subjects:
        found = [families[tail].get(prefix) for prefix, tail in subjects_pure.prefixes(subject)]
        found[1:1] = [routes.get(subject)]
        targets.append(next((each for each in found if each), None))
    cut, target = kernel.segment(run.chunk, run.fields, 0, run.count, routes, families)
    assert target is targets[0]
    expected = 0
    while target is not None and expected < len(targets) and targets[expected] is target:
        expected += 1
    assert cut == expected


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"$GR.", b"$GR.a", b"a", b"a.$GR.b", b"$JS.ACK.x", b"$NRG.x"]),
            st.sampled_from([b"", b"r", b"$JS.ACK.", b"$JS.ACK.x", b"$GR.a"]),
        ),
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_first_reserved(kernel: Any, names: list[tuple[bytes, bytes]], start: int) -> None:
    run = PubRun.of([(subject, reply, b"", b"$GR.x $JS.ACK.y") for subject, reply in names])
    reserved = [
        index
        for index, (subject, reply) in enumerate(names)
        if index >= start and (subject in (b"$GR.a", b"$NRG.x") or reply == b"$JS.ACK.x")
    ]
    find = kernel.first_reserved
    found = find(run.chunk, run.fields, start, run.count, (b"$GR.", b"$NRG."), (b"$JS.ACK.",))
    assert found == (reserved[0] if reserved else max(start, run.count))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"$GR.", b"$GR.a", b"a", b"a.b"]),
            st.sampled_from([b"", b"r", b"$JS.ACK.x"]),
            st.sampled_from(
                [
                    b"",
                    b"NATS/1.0\r\nA: b\r\n\r\n",
                    b"NATS/1.0\r\nA: b\r\nTraceParent: c\r\n\r\n",
                    b"NATS/1.0\r\nNats-Trace-Dest: d\r\n\r\n",
                    b"NATS/1.0\r\nnats-trace-dest: d\r\n\r\n",
                ]
            ),
            st.binary(max_size=3),
        ),
        max_size=5,
    )
)
def test_admitted(kernel: Any, messages: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
    run = PubRun.of(messages)
    stops = [
        index
        for index, (subject, reply, block, _) in enumerate(messages)
        if subject == b"$GR.a"
        or reply == b"$JS.ACK.x"
        or b"TraceParent" in block
        or b"Nats-Trace" in block
    ]
    content_bytes = sum(len(block) + len(payload) for _, _, block, payload in messages)
    found = kernel.admitted(run.chunk, run.fields, (b"$GR.", b"$NRG."), (b"$JS.ACK.",))
    assert found == (content_bytes, stops[0] if stops else len(messages))
