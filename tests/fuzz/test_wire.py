"""Random and mutated protocol bytes over real sockets: refused or ignored, never fatal."""

from __future__ import annotations

import time
from random import Random

CONNECTIONS = 60

VALID = [
    b"PUB a.b 5\r\nhello\r\n",
    b"PUB a.b _INBOX.fuzz.1 5\r\nhello\r\n",
    b"HPUB a.b 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b"HPUB a.b r 22 22\r\nNATS/1.0\r\nNats-A: 1\r\n\r\n\r\n",
    b"SUB a.> 7\r\n",
    b"SUB a.* queue 8\r\n",
    b"UNSUB 7\r\n",
    b"UNSUB 8 3\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"INFO {}\r\n",
    b"+OK\r\n",
    b"-ERR 'no'\r\n",
    b'CONNECT {"verbose":true,"pedantic":true,"echo":false,"protocol":1}\r\n',
    b"PUB $JS.API.INFO _INBOX.fuzz.2 0\r\n\r\n",
    b"PUB $JS.API.STREAM.NAMES _INBOX.fuzz.3 2\r\n{}\r\n",
    b"PUB $JS.ACK.S.C.1.2.3.4.5 0\r\n\r\n",
    b"PUB $SYS.REQ.USER.INFO _INBOX.fuzz.4 0\r\n\r\n",
]
INTERESTING = [
    b"", b" ", b"\t", b"\r",
    b"\n", b"\r\n", b"\0", b"\xff" * 4, b"-1", b"0", b"99999999999999999999", b"2147483648",
    b"9223372036854775808", b"1048577", b".", b"..", b">", b"*", b"a" * 4200, b"{", b"[",
    b'{"verbose":1}', b'{"protocol":-7}', b"[" * 3000, b"$JS.ACK.", b"_R_.x", b"\xc3\x28", b"1e9",
]  # fmt: skip


def mutated(random: Random, data: bytes) -> bytes:
    """Return bytes that were sensible once."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(changed))
        match random.randrange(6):
            case 0:
                changed[at:at] = random.choice(INTERESTING)
            case 1:
                del changed[at : at + random.randint(1, 6)]
            case 2:
                changed[at : at + 1] = bytes([random.randrange(256)])
            case 3:
                changed[at:at] = changed[: random.randint(0, len(changed))]
            case 4:
                words = bytes(changed).split(b" ")
                words[random.randrange(len(words))] = random.choice(INTERESTING)
                changed = bytearray(b" ".join(words))
            case _:
                changed[at:at] = random.choice(VALID)
    return bytes(changed)


def spoken(random: Random) -> bytes:
    """Return what one rude client says."""
    match random.randrange(4):
        case 0:
            return random.randbytes(random.randint(1, 5000))
        case 1:
            return b"".join(random.choices(VALID, k=random.randint(1, 20)))
        case _:
            frames = random.choices(VALID, k=random.randint(1, 12))
            return b"".join(
                mutated(random, frame) if random.random() < 0.4 else frame for frame in frames
            )


def test_rude_clients(seed, unharmed, connect):
    random = Random(f"wire {seed}")
    peers = []
    for _ in range(CONNECTIONS):
        peer = connect(unharmed.port, b"" if random.random() < 0.3 else b"CONNECT {}\r\n")
        peers.append(peer)
        data = spoken(random)
        while data:
            cut = random.choice((1, 7, 500, len(data)))
            if not peer.say(data[:cut]):
                break
            data = data[cut:]
        if random.random() < 0.3:
            random.choice(peers).close()
    for peer in peers:
        peer.close()


def test_clients_that_hang_up_while_they_are_answered(seed, unharmed, connect):
    random = Random(f"hang up {seed}")
    asked = b"".join(b"PUB $JS.API.INFO _INBOX.fuzz.%d 0\r\n\r\n" % n for n in range(200))
    for _ in range(15):
        peer = connect(unharmed.port)
        peer.say(b"SUB _INBOX.fuzz.* 1\r\n" + asked[: random.randint(1, len(asked))])
        peer.close()


def test_a_line_without_end_is_cut_off(unharmed, connect):
    peer = connect(unharmed.port)
    said = 0
    while peer.say(b"PUB " + b"a" * 4000) and said < 1000:
        said += 1
    assert said < 1000
    peer.close()


def test_connections_that_say_nothing(unharmed, connect):
    peers = [connect(unharmed.port, b"") for _ in range(200)]
    assert unharmed.view("/varz")["connections"] >= 200
    for peer in peers:
        peer.close()


def test_subscriptions_of_one_client_go_with_it(unharmed, connect):
    before = unharmed.census()
    peer = connect(unharmed.port)
    peer.say(b"".join(b"SUB s.%d.> %d\r\n" % (n, n) for n in range(20_000)) + b"PING\r\n")
    while peer.line() != b"PONG":
        pass
    assert unharmed.census().subscriptions == before.subscriptions + 20_000
    peer.close()


def test_memory_returns(rounds, unharmed, connect):
    """The same load again and again must not need more each time."""

    def load() -> None:
        peers = [connect(unharmed.port) for _ in range(20)]
        for number, peer in enumerate(peers):
            peer.say(b"".join(b"SUB m.%d.%d %d\r\n" % (number, n, n) for n in range(300)))
            peer.say(b"PUB m.nobody.%d 60000\r\n" % number + b"x" * 60_000 + b"\r\nPING\r\n")
        for peer in peers:
            while peer.line() != b"PONG":
                pass
            peer.close()

    for _ in range(4):
        load()
    before = unharmed.resident_bytes()
    files = unharmed.open_files()
    for _ in range(8 * rounds):
        load()
    deadline = time.monotonic() + 60
    while unharmed.open_files() > files and time.monotonic() < deadline:
        time.sleep(0.05)
    assert unharmed.open_files() <= files
    assert unharmed.resident_bytes() - before < 8 << 20
