"""What many others make of each thing that one client says: consumers that hear of it, pulls that
wait, subscriptions that are like it, imports that follow it."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.stall import surroundings
from benchmarks.stall.inputs import TIMEOUT_S, USER, Act, Input, consumer, stream
from benchmarks.wire import LoadError, Wire

_CREDENTIALS = tuple(USER.items())
_LONG = b".".join([b"a"] * 1500)
_STARS_OF_LONG = 400  # and more, in patterns that match it


@contextlib.contextmanager
def readers(port: int, said: bytes, **credentials: str) -> Iterator[None]:
    """Have a client that says something and then reads whatever it is sent."""
    with Wire(port, TIMEOUT_S, {"headers": True, **credentials}) as wire:
        wire.sock.sendall(said)
        wire.ping()
        with reading([wire.sock]):
            yield


@contextlib.contextmanager
def reading(socks: Sequence[socket.socket]) -> Iterator[None]:
    """Read whatever comes meanwhile, and end the connections."""

    def read(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while sock.recv(1 << 20):
                pass

    threads = [threading.Thread(target=read, args=[sock], daemon=True) for sock in socks]
    for thread in threads:
        thread.start()
    yield
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


def say(port: int, frames: Sequence[bytes], **credentials: str) -> None:
    """Say frames in one write, and wait until all are acted on, each PING among them as well."""
    with Wire(port, TIMEOUT_S, {"headers": True, "no_responders": True, **credentials}) as wire:
        said = b"".join(frames) + b"PING\r\n"
        left, kept = said.count(b"PING\r\n"), b""
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(wire.sock.sendall, said)
            while left:
                received = wire.sock.recv(1 << 20)
                if not received:
                    raise LoadError("the server has closed the connection")
                kept += received
                left -= kept.count(b"PONG\r\n")
                kept = kept.rpartition(b"PONG\r\n")[2][-6:]
            sending.result()


def say_together(port: int, said: Sequence[bytes]) -> None:
    """Have clients say this at the same time, one each, and wait until all is acted on.

    One thread writes to whichever socket takes more. Four wanted both processors of the machine,
    which clients of other machines do not, and the server waited for one of them.
    """
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(port, TIMEOUT_S)) for _ in said]
        time.sleep(0.3)  # what they are told when they come
        selector = stack.enter_context(selectors.DefaultSelector())
        for wire, frames in zip(wires, said, strict=True):
            wire.sock.setblocking(False)
            selector.register(wire.sock, selectors.EVENT_WRITE, memoryview(frames))
        while selector.get_map():
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                if left := key.data[key.fileobj.send(key.data) :]:
                    selector.modify(key.fileobj, selectors.EVENT_WRITE, left)
                else:
                    selector.unregister(key.fileobj)
        for wire in wires:
            wire.sock.settimeout(TIMEOUT_S)
            wire.ping()


def _large_messages(clients: int, size: int, times: int) -> Act:
    """Have so many clients publish so many messages each at the same time, to nobody."""
    frames = b"PUB nobody %d\r\n%b\r\n" % (size, bytes(size)) * times
    return lambda port: say_together(port, [frames] * clients)


def said(frame: Callable[[int], bytes], count: int, before: bytes = b"") -> Act:
    """Say so many frames, while another client that has said something listens."""

    def act(port: int) -> None:
        with readers(port, before):
            say(port, [frame(number) for number in range(count)])

    return act


def message(subject: bytes, reply: bytes = b"", after: bytes = b"") -> Callable[[int], bytes]:
    """Return what makes a message of its number, which takes the place of `{}`."""
    frame = b"PUB %b %b0\r\n\r\n%b" % (subject, reply and reply + b" ", after)
    return lambda number: frame.replace(b"{}", b"%d" % number)


def _consumers(count: int, filter_of: Callable[[int], str], **settings: object) -> Act:
    """Make stream S, and so many consumers in memory."""

    def prepare(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **settings})
            for number in range(count):
                name = f"c{number}"
                config = {"name": name, "durable_name": name, "ack_policy": "explicit"}
                config |= {"mem_storage": True, "filter_subject": filter_of(number)}
                wire.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})

    return prepare


def _all(number: int) -> str:
    return "S.>"


def _stars(number: int) -> str:
    """Return one of a thousand patterns that all match the same subjects."""
    return "S." + ".".join("*" if number >> bit & 1 else "a" for bit in range(10)) + ".>"


def _long(number: int) -> str:
    return "S." + "*." * (_STARS_OF_LONG + number) + ">"


def _pulls(
    count: int,
    body: dict[str, object],
    then: bytes = b"PUB S.x 0\r\n\r\nPING\r\n",
    times: int = 10_000,
    **config: object,
) -> Act:
    """Have so many pulls wait, and say something so many times: publish a message, with a PING."""
    text = json.dumps({"batch": 1, "expires": 60_000_000_000, **body}).encode()
    ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c q.%d %d\r\n%b\r\n"

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
            settings = {"name": "c", "durable_name": "c", "ack_policy": "explicit", **config}
            wanted = {"stream_name": "S", "config": {**settings, "max_waiting": count}}
            wire.api("CONSUMER.CREATE.S.c", wanted)
        asked = b"".join(ask % (number, len(text), text) for number in range(count))
        said(lambda number: then, times, b"SUB q.* 1\r\n" + asked)(port)

    return act


def _unread(consumers: int) -> Act:
    """Have a client ask so many consumers for 30 MB each and read nothing, for 6 seconds."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire, Wire(port, TIMEOUT_S) as stuck:
            wire.subscribe_inbox()
            for number in range(300):
                wire.request(f"S.x{number}", b"x" * 100_000)
            stuck.sock.sendall(b"SUB unread 2\r\n")
            for number in range(consumers):
                ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c%d unread 3\r\n300\r\n"
                stuck.sock.sendall(ask % number)
            time.sleep(6)

    return act


def _many_stars(count: int, bits: int, rest: bytes) -> bytes:
    """Return subscriptions that are alike in their first tokens, each in its own way."""
    return b"".join(
        b"SUB %b.%b %d\r\n"
        % (b".".join(b"*" if n >> bit & 1 else b"a" for bit in range(bits)), rest, n)
        for n in range(count)
    )


def _groups(groups: int, members: int) -> Act:
    """Have so many consumers push to groups of so many readers each, and 2,000 messages."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
            for number in range(groups):
                name = f"c{number}"
                config = {"name": name, "durable_name": name, "deliver_group": "q"}
                config |= {"deliver_subject": f"d{number}", "ack_policy": "none"}
                wire.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
        places = range(groups * members)
        heard = b"".join(b"SUB d%d q %d\r\n" % (each % groups, each) for each in places)
        said(message(b"S.x", after=b"PING\r\n"), 2000, heard)(port)

    return act


def _streams(count: int) -> Act:
    """Make so many streams in memory, which forget ids soon."""

    def prepare(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            for number in range(count):
                settings = {"name": f"T{number}", "subjects": [f"t.{number}"], "storage": "memory"}
                settings |= {"max_age": 2_000_000_000, "duplicate_window": 2_000_000_000}
                wire.api(f"STREAM.CREATE.T{number}", settings)

    return prepare


def _first_messages(count: int) -> Act:
    """Publish a message with an id to each stream, and wait until they are gone."""
    block = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"
    frame = b"HPUB t.%d %d %d\r\n%b\r\n"
    frames = [frame % (number, len(block), len(block), block) for number in range(count)]

    def act(port: int) -> None:
        say(port, frames)
        time.sleep(4)

    return act


def _ending(number: int) -> bytes:
    """Return 10,000 subscriptions that end with a message, and that."""
    line = b"SUB m%d %d\r\nUNSUB %d 1\r\n"
    sids = range(number * 10_000, (number + 1) * 10_000)
    return b"".join(line % (number, sid, sid) for sid in sids) + b"PUB m%d 0\r\n\r\n" % number


def _asked(verb: str, bodies: Sequence[dict[str, object]]) -> Act:
    """Ask for all of it in one write."""
    texts = [json.dumps(body).encode() for body in bodies]
    frames = [b"PUB $JS.API.%b r %d\r\n%b\r\n" % (verb.encode(), len(t), t) for t in texts]
    return lambda port: say(port, frames)


def _subscribed(frame: bytes, count: int) -> Act:
    frames = [frame.replace(b"{}", b"%d" % number) for number in range(count)]
    return lambda port: say(port, frames, user="importer", **{"pass": "s3cret"})


def _mapped(count: int) -> Act:
    frames = [b"PUB m.%d.%d.b 0\r\n\r\n" % (number % 2000, number) for number in range(count)]
    return lambda port: say(port, frames, **USER)


def _push_in_accounts(port: int) -> None:
    """Have 60 accounts store what they import, each with 50 consumers that push it."""
    pushing = {"ack_policy": "none", "mem_storage": True}
    for account in range(_IMPORTERS):
        with Wire(port, TIMEOUT_S, _importer(account)) as wire:
            wire.subscribe_inbox()
            wire.api(*stream(storage="memory"))
            for number in range(50):
                wire.api(*consumer(f"c{number}", deliver_subject=f"d.{number}", **pushing))


def _hear_in_accounts(port: int) -> None:
    """Publish 200 messages, with a PING each, that readers in 60 accounts hear."""
    with contextlib.ExitStack() as stack:
        for account in range(_IMPORTERS):
            stack.enter_context(readers(port, b"SUB d.* 1\r\n", **_importer(account)))
        say(port, [b"PUB S.a 0\r\n\r\nPING\r\n"] * 200, user="e", **{"pass": "s3cret"})
        time.sleep(2)


def _importer(number: int) -> dict[str, str]:
    return {"user": f"u{number}", "pass": "s3cret"}


_IMPORTERS = 60  # accounts
_TOKENS = b".".join([b"*"] * 1989)

CROWDS = [
    Input(
        "1,000 subscriptions of 1,000 tokens, and away",
        lambda port: say(
            port, [b"SUB a%d.%b.> %d\r\n" % (n, _LONG[:1997], n) for n in range(1000)]
        ),
    ),
    Input(
        "200 messages that 1,000 patterns of 2,000 tokens match",
        said(message(b"a." * 10 + b"b." * 1988 + b"{}"), 200, _many_stars(1000, 10, _TOKENS)),
    ),
    Input(
        "20 messages that 65,536 patterns nearly match",
        said(message(b"a." * 16 + b"{}.y"), 20, _many_stars(65_536, 16, b"*.x")),
    ),
    Input(
        "10,000 messages with a PING each for 1,000 consumers",
        said(message(b"S.x", after=b"PING\r\n"), 10_000),
        _consumers(1000, _all),
    ),
    Input(
        "10,000 messages with a PING each for 1,000 consumers with filters",
        said(message(b"S." + b"a." * 10 + b"{}", after=b"PING\r\n"), 10_000),
        _consumers(1000, _stars),
    ),
    Input(
        "10,000 messages of interest for 1,000 consumers with filters",
        said(message(b"S." + b"a." * 10 + b"{}"), 10_000),
        _consumers(1000, _stars, retention="interest"),
    ),
    Input(
        "5,000 messages of 1,500 tokens for 1,000 filters as long",
        said(message(b"S." + _LONG + b".{}"), 5000),
        _consumers(1000, _long),
    ),
    Input(
        "20,000 pulls with too small a limit of bytes",
        _pulls(20_000, {"max_bytes": 10}),
    ),
    Input(
        "20,000 pulls for when more is pending",
        _pulls(
            20_000,
            {"group": "g", "min_pending": 1_000_000},
            priority_policy="overflow",
            priority_groups=["g"],
        ),
    ),
    Input(
        "20,000 pulls while another one is pinned",
        _pulls(
            20_000,
            {"group": "g"},
            priority_policy="pinned_client",
            priority_groups=["g"],
            priority_timeout=1_000_000_000,
        ),
    ),
    Input(
        "2,000 looks at a consumer with 20,000 pulls",
        _pulls(20_000, {}, b"PUB $JS.API.CONSUMER.INFO.S.c looked 0\r\n\r\nPING\r\n", 2000),
    ),
    Input(
        "300 consumers of a client that does not read",
        _unread(300),
        _consumers(300, _all),
    ),
    Input(
        "500 updates of a stream with 1,000 consumers",
        _asked(
            "STREAM.UPDATE.S",
            [{"name": "S", "subjects": ["S.>"], "description": str(n)} for n in range(500)],
        ),
        _consumers(1000, _all),
    ),
    Input(
        "2,000 acks to 1,000 subscriptions",
        said(
            message(b"S.x", b"crowd"),
            2000,
            b"".join(b"SUB crowd %d\r\n" % number for number in range(1000)),
        ),
        _consumers(0, _all),
    ),
    Input(
        "3,000 requests answered to 1,000 subscriptions",
        said(
            message(b"$JS.API.STREAM.INFO.S", b"crowd"),
            3000,
            b"".join(b"SUB crowd %d\r\n" % number for number in range(1000)),
        ),
        _consumers(0, _all),
    ),
    Input(
        "5,000 subscriptions beside 2,000 imports",
        _subscribed(b"SUB x.{}.> {}\r\n", 5000),
        config=surroundings.many_imports,
        credentials=_CREDENTIALS,
    ),
    Input(
        "100 subscriptions to all of 2,000 imports",
        _subscribed(b"SUB x.*.{} {}\r\n", 100),
        config=surroundings.many_imports,
        credentials=_CREDENTIALS,
    ),
    Input(
        "200 messages for 60 accounts with 50 consumers each",
        _hear_in_accounts,
        _push_in_accounts,
        config=surroundings.many_importers,
        credentials=_CREDENTIALS,
    ),
    Input(
        "20,000 messages beside 2,000 mappings",
        _mapped(20_000),
        config=surroundings.many_mappings,
        credentials=_CREDENTIALS,
    ),
    Input("2,000 messages for 100 groups of 200 readers", _groups(100, 200)),
    Input(
        "the first messages of 2,000 streams, which age together",
        _first_messages(2000),
        _streams(2000),
    ),
    Input(
        "20 messages each of which ends 10,000 subscriptions",
        lambda port: say(port, [_ending(number) for number in range(20)]),
    ),
    Input("200 clients with 3 messages of 900 KB", _large_messages(200, 900_000, 3)),
    Input(
        "2,000 messages for 5,000 subscriptions, and one more each time",
        said(
            lambda number: b"SUB crowd %d\r\nPUB crowd 0\r\n\r\nPING\r\n" % (number + 10_000),
            2000,
            b"".join(b"SUB crowd %d\r\n" % number for number in range(5000)),
        ),
    ),
]
