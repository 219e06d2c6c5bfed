"""What an attacker draws from: numbers at every bound, texts that are none, names that exist."""

from __future__ import annotations

import json
from random import Random
from typing import Any

SECOND = 10**9
LONG = 9 * (10**4999)  # 5,000 digits
INTEGERS = (
    0, -1, 1, 2, 3, 10, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**53, 2**63 - 1, 2**63,
    -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**18, SECOND, 60 * SECOND, 86_400 * SECOND,
    584 * 365 * 86_400 * SECOND, 253_402_300_799, 10**400,
)  # fmt: skip
# As JSON may have them; the last ones are written by hand.
JSON_NUMBERS = (
    b"1e400",
    b"-1e400",
    b"1e-400",
    b"0.5",
    b"-0",
    b"1E3",
    b"9" * 5000,
    b"1" + b"0" * 99,
)
TEXTS = (
    "", " ", "x", "é", "日本", "\x00", "\x7f", "\ud800", "a b", "a.b", "*", ">", "a.*.>", "..", ".",
    "$JS", "$JS.API.>", "$SYS.>", "_INBOX.>", "x" * 255, "x" * 256, "x" * 5000, "null", "-1", "1e3",
    "0x1", "1_000", "²", "٣", "1h", "never", "-5s", "9" * 5000, "9" * 19, "9" * 20, "America",
    "Europe/Berlin", "../..", "/etc", "2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z", "2026-13-45T99:99:99Z", "@every 1s",
    "@at 2026-01-02T03:04:05Z",
    "* * * * * *", "0 0 30 2 * *", "@every 0.000000001s", "{{wildcard(1)}}", "{{partition(9,1)}}",
    "{{split(1,-)}}", "$1", "$99999999999999999999", "+ACK", "S0", "S1", "C0", "GET", "all", "new",
)  # fmt: skip
RAW = (
    b"", b"\xff", b"\xc3\x28", b"\x00", b"\x7f", b"\xed\xa0\x80", b"\r", b"0", b"-1", b"+1", b"1_0",
    b"\xc2\xb2", b"9" * 5000, b"18446744073709551615", b"18446744073709551616", b"1e400",
    b"x" * 300,
    b"*", b">", b"$JS", b"9223372036854775807", b"9223372036854775808", b"inf", b"nan", b"1" * 20,
    b"0x10", b" 7", b"7 ", b"{}", b"[" * 2000,
)  # fmt: skip
STREAMS = ("S0", "S1", "S2", "S3", "S4", "S5")
CONSUMERS = ("C0", "C1", "C2")
LEAVES = (b"a", b"b", b"c", b"a.b", b"tick", b"\xff", b"\xc3\x28.x", b"x" * 200, b"a.b.c.d.e.f.g")


class Draw:
    """Chance, in the shapes that are needed.

    Args:
        random: everything follows from it.
        rudeness: how often something is not as it should be.
    """

    def __init__(self, random: Random, rudeness: float) -> None:
        self.random = random
        self.rudeness = rudeness
        self.one = random.choice
        self._replies = 0

    def often(self, chance: float) -> bool:
        """Tell whether something happens that often."""
        return self.random.random() < chance

    @property
    def is_rude(self) -> bool:
        """Tell whether this one is to be wrong."""
        return self.often(self.rudeness)

    def reply(self) -> bytes:
        """Return a reply subject of its own, or now and then another one."""
        self._replies += 1
        if self.often(0.04):
            return self.one((b"", b"$JS.API.INFO", b"s0.a", b"a..b", b"$JS.ACK.S0.C0.1.1.1.1.1",
                             b"_INBOX.\xff", b"$JSC.R.x", b"x.b1.2.ok.1.0.$FI"))  # fmt: skip
        return b"_INBOX.r%d" % self._replies

    def stream(self) -> str:
        """Return a stream's name."""
        return self.one(TEXTS) if self.often(0.02) else self.one(STREAMS)

    def consumer(self) -> str:
        """Return a consumer's name."""
        return self.one(TEXTS) if self.often(0.02) else self.one(CONSUMERS)

    def subject(self) -> bytes:
        """Return a subject that some stream may take."""
        return b"s%d.%b" % (self.random.randrange(6), self.one(LEAVES))

    def pattern(self) -> str:
        """Return a filter."""
        if self.is_rude:
            return self.one(TEXTS)
        return self.one(("s%d.>", "s%d.*", "s%d.a", "s%d.a.*", "s%d.b")) % self.random.randrange(6)

    def number(self) -> int:
        """Return an integer at some bound."""
        return self.random.randrange(12) if self.often(0.4) else self.one(INTEGERS)

    def digits(self) -> bytes:
        """Return a number as headers and tokens have them, or what is none."""
        if self.is_rude:
            return self.one(RAW)
        number = self.number()
        return b"%d" % number if abs(number) < 10**400 else b"9" * 400

    def duration(self) -> int:
        """Return nanoseconds: a sensible time, or any number."""
        if self.is_rude:
            return self.number()
        return self.one((0, 10**6, SECOND // 10, SECOND, 5 * SECOND, 3600 * SECOND))

    def text(self) -> str:
        """Return some text."""
        return self.one(TEXTS)

    def value(self) -> Any:
        """Return any JSON value."""
        match self.random.randrange(9):
            case 0 | 1:
                return self.number()
            case 2 | 3:
                return self.text()
            case 4:
                return self.one((None, True, False, 0.5, -1.5, 1e300))
            case 5:
                return [self.value() for _ in range(self.random.randrange(3))]
            case 6:
                return {self.text(): self.value() for _ in range(self.random.randrange(3))}
            case 7:
                return self.one(([[]], [None], {"": ""}, {"name": {}}, [{}], [{"name": 1}]))
            case _:
                return [self.text()] * self.one((1, 2, 50))

    def spoiled(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return fields of which some have another value than they should."""
        while fields and self.is_rude:
            path = fields
            key = self.one(sorted(path))
            while isinstance(path[key], dict) and path[key] and self.often(0.7):
                path[key] = dict(path[key])
                path = path[key]
                key = self.one(sorted(path))
            path[key] = self.value()
        return fields

    def body(self, fields: dict[str, Any]) -> bytes:
        """Return a JSON body of these fields, or of nearly these."""
        data = json.dumps(self.spoiled(dict(fields)), ensure_ascii=self.often(0.5)).encode(
            errors="surrogatepass"
        )
        if self.often(self.rudeness / 3):
            data = self.with_odd_number(data)
        if self.often(self.rudeness / 4):
            at = self.random.randrange(len(data) + 1)
            data = data[:at] + self.one(RAW) + data[at + self.random.randrange(3) :]
        return data

    def with_odd_number(self, data: bytes) -> bytes:
        """Return JSON in which a value is a number that Python would not write."""
        at = data.find(b": ", self.random.randrange(len(data) or 1))
        stops = [found for mark in b",}" if (found := data.find(mark, at)) >= 0]
        if at < 0 or not stops:
            return data
        return data[: at + 2] + self.one(JSON_NUMBERS) + data[min(stops) :]

    def block(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return a header block, or nearly one."""
        first = b"NATS/1.0"
        if self.often(self.rudeness / 3):
            first += self.one((b" 100 Idle Heartbeat", b" 503", b" 404 x", b" " + self.one(RAW)))
        lines = [
            b"%b:%b%b" % (key, self.one((b" ", b" ", b"", b"  ")), value) for key, value in headers
        ]
        block = b"\r\n".join((first, *lines)) + b"\r\n\r\n"
        if self.often(self.rudeness / 5):
            block = block[: self.random.randrange(len(block))] + self.one(
                (b"", b"\r\n", b"\r\n\r\n")
            )
        return block
