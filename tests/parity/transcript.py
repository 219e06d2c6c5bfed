"""How a transcript shows what a server sent: what differs between two runs is masked."""

from __future__ import annotations

import itertools
import re

from tests.parity.wire import Message

_MASKS = [
    (re.compile(r"(\$JS\.SNAPSHOT\.RESTORE\.\S+\.)[0-9A-Za-z]{22}"), r"\1<nuid>"),
    (re.compile(r'"N[A-Z2-7]{55}"'), '"<nkey>"'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"(\$JS\.ACK\.[^ ]+\.\d+\.\d+\.\d+)\.\d{19}\.(\d+)"), r"\1.<ts>.\2"),
    (re.compile(r'(\\?"leader\\?":)\\?"[^"]+"'), r"\1<server>"),
    (re.compile(r'"id":"[0-9A-Za-z]{22}"'), '"id":"<nuid>"'),
    (re.compile(r'(\\?"_nats.ver\\?":\\?")[^"\\]+'), r"\1<version>"),
    (re.compile(r'(\\?"_nats.level\\?":\\?")\d'), r"\1<level>"),
    (re.compile(r'(\\?"api\\?":\{\\?"level\\?":)\d'), r"\1<level>"),
    (re.compile(r'"(ack_time|rtt|pause_remaining|active)":\d+'), r'"\1":<ns>'),
    (re.compile(r"(current API level: )\d"), r"\1<level>"),
    (re.compile(r'(restore_complete","id.*"bytes":)\d+'), r"\1<compressed>"),
    # A stream of advisories stores times, which have fewer digits where the last ones are noughts.
    (
        re.compile(r'("\$JS\.EVENT\.ADVISORY\.[^"]*"\].*?"state":\{"messages":\d+,"bytes":)\d+'),
        r"\1<bytes>",
    ),
    (re.compile(r'"client":\{[^}]*\}'), '"client":{<client>}'),
    (re.compile(r"_INBOX\.[0-9A-Za-z.]+"), "<inbox>"),
    (re.compile(r'("server":)"[^"]+"'), r'\1"<server>"'),
    (re.compile(r"(Nats-Pin-Id: |pinned_(?:client_)?id\":\")[0-9A-Za-z]{22}"), r"\1<nuid>"),
    (re.compile(r"\$JS\.FC\.(\S+)\.[0-9A-Za-z]{4}\b"), r"$JS.FC.\1.<fc>"),
    (re.compile(r"(Nats-Stream-Source: (?:\S+ ){5})[0-9A-Za-z]{8}"), r"\1<identity>"),
    (re.compile(r"(Nats-Stream-Identity: |identity does not match: )\w{8}"), r"\1<identity>"),
    (re.compile(r"(JS_(?:MIRROR|SRC)_)\w{8}"), r"\1<name>"),
    (re.compile(r"(JS_(?:MIRROR|SRC)_<name>-)\w{8}"), r"\1<more>"),
    (re.compile(r"\$JS\.([MS])\.\w{8}"), r"$JS.\1.<token>"),
    (re.compile(r'"server":\{"name":.*?"time":"<time>"\}'), '"server":{<server>}'),
    # The genuine server marks the requests that it times.
    (re.compile(r"_R_\.\w+\.\w+(\.\w{8}\.T)?"), "<reply>"),
    (re.compile(r'"service":\d+,"system":\d+,"total":[1-9]\d*'), '"service":<ns>,<more>'),
    (re.compile(r'"id":\d+,"acc"'), '"id":<cid>,"acc"'),
    (re.compile(r'"cid":\d+,"name":"[^"]*"|"cid":\d+'), '"cid":<cid>'),
    (re.compile(r"(.)\1{79,}"), lambda run: f"<{run[1]}*{len(run[0])}>"),
]  # fmt: skip


def masked(text: str) -> str:
    """Return a line with everything that differs between two runs replaced."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)  # type: ignore[call-overload]
    return text


_SIZE = re.compile(r"(MSG .+ )\d+")


def masked_frames(lines: list[str]) -> list[str]:
    """Return lines of the protocol with everything replaced that differs between two runs: also the
    size of what holds a time, which has fewer digits where the last ones are noughts."""
    known = [masked(line) for line in lines]
    return [
        _SIZE.sub(r"\1<bytes>", line) if "<time>" in after else line
        for line, after in zip(known, [*known[1:], ""], strict=False)
    ]


def shown(message: Message | None) -> str:
    """Return a message as one line of transcript."""
    if message is None:
        return "silence"
    parts = [message.subject]
    if message.reply:
        parts.append("<- " + message.reply)
    if message.headers:
        parts.append(repr(message.headers.decode("latin-1")))
    parts.append(message.payload.decode("utf-8", "backslashreplace"))
    return masked(" ".join(parts))


_WINDOW = 120


def difference(ours: list[str], theirs: list[str]) -> str:
    """Return where two transcripts part: the step, and the lines of either from there on.

    Of two lines that begin alike only what surrounds the first difference is shown.
    """
    for number, (our, their) in enumerate(itertools.zip_longest(ours, theirs, fillvalue="(end)")):
        if our == their:
            continue
        steps = [line for line in ours[: number + 1] if line.startswith("> ")]
        alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(our, their, strict=False))
        at = max(0, sum(1 for _ in alike) - _WINDOW)
        rest = len(ours) - number - 1
        return "\n".join(
            [
                f"line {number}, after {steps[-1] if steps else 'the beginning'}",
                f"ours:   ...{our[at : at + 3 * _WINDOW]}",
                f"theirs: ...{their[at : at + 3 * _WINDOW]}",
                f"then {rest} more lines of ours, {len(theirs) - number - 1} of theirs",
            ]
        )
    return ""
