"""Writes `errors.md`: every JetStream error code, and what shows that a client can meet it.

    python docs/generate_errors.py            from the tables and the tests
    python docs/generate_errors.py --play     the same, after playing every scenario

Codes and texts come from `jetstream_server/jetstream/errors.py`. Which scenario reaches a code is
seen by playing them on the bundled server, which takes a minute; without `--play` what the file
says of them is kept. `tests/test_error_docs.py` compares the rest with the file.
"""

from __future__ import annotations

import importlib
import queue
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from jetstream_server.jetstream import errors

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "errors.md"
UNIT_TESTS = ROOT / "tests" / "server"
LANES = 4

HEAD = """\
# Error codes

Written by `docs/generate_errors.py`; do not edit. Numbers and texts are those of nats-server,
because client libraries compare them; `{}` stands for what the server fills in. An answer carries
them as
`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`.

## Sent by this server

A scenario is one of `tests/parity/scenarios`, where the genuine server gives the same answer. Unit
tests are below `tests/server`. Codes without a scenario: 10051 answers a purge if the disk fails
while it runs; 10066 to 10068 and 10073 belong to stream templates, which nats-server has dropped;
10132 never gets its turn, on nats-server either: other checks refuse the same request first.

| Number | Code | Text | Scenario | Unit test |
|---|---|---|---|---|
"""

NOT_SENT = """
## Never sent by this server

nats-server defines these too, but a single server never has a reason to send them.

| Number | Code | Text | Why not |
|---|---|---|---|
"""

_CLUSTER = "clusters only"
_INTERNAL = "internal failures that do not arise here"
_LEGACY = "no longer sent by nats-server"

# Number: code, text, reason.
UNSENT: dict[int, tuple[int, str, str]] = {
    10004: (503, "incomplete results", _CLUSTER),
    10005: (400, "{}", _CLUSTER),
    10006: (500, "JetStream not in clustered mode", _CLUSTER),
    10007: (500, "JetStream cluster not assigned to this server", _CLUSTER),
    10008: (503, "JetStream system temporarily unavailable", _CLUSTER),
    10009: (500, "JetStream cluster can not handle request", _CLUSTER),
    10011: (400, "tags placement not supported for operation", _CLUSTER),
    10016: (
        400,
        "consumer expected to be durable but no durable name set in subject",
        "a subject without the name matches no request",
    ),
    10019: (
        400,
        "consumer expected to be ephemeral but detected a durable name set in subject",
        "the form of the subject decides first",
    ),
    10022: (
        400,
        "stream external delivery prefix {} overlaps with stream subject {}",
        "nats-server accepts it",
    ),
    10029: (500, "{}", _INTERNAL),
    10032: (
        400,
        "stream mirrors can not have both start seq and start time configured",
        "nats-server accepts it",
    ),
    10033: (400, "stream mirrors can not contain filtered subjects", "by now they can"),
    10035: (503, "account not found", _INTERNAL),
    10036: (503, "not currently supported in clustered mode", _CLUSTER),
    10040: (400, "peer not a member", _CLUSTER),
    10041: (500, "{}", _CLUSTER),
    10042: (500, "JetStream unable to subscribe to restore snapshot {}: {}", _INTERNAL),
    10044: (400, "server is not a member of the cluster", _CLUSTER),
    10045: (500, "{}", _INTERNAL),
    10048: (500, "{}", _CLUSTER),
    10050: (500, "{}", _INTERNAL),
    10053: (500, "{}", "limits have codes of their own"),
    10061: (400, "Replicas configuration can not be updated", _CLUSTER),
    10063: (503, "expected stream sequence does not match", _INTERNAL),
    10072: (500, "JetStream unable to open temp storage for restore", "reported as 10062"),
    10075: (503, "peer remap failed", _CLUSTER),
    10076: (503, "JetStream not enabled", "without JetStream nobody answers: 503 No Responders"),
    10078: (400, "consumer config required", "an absent config stands for the defaults"),
    10085: (400, "consumer in pull mode requires a durable name", _LEGACY),
    10087: (400, "consumer max waiting needs to be positive", "a negative number is the default"),
    10092: (400, "consumer direct on a mapped consumer", _LEGACY),
    10093: (
        400,
        "consumer filter subject is not a valid subset of the interest subjects",
        "any filter is accepted",
    ),
    10096: (500, "stream not valid", _INTERNAL),
    10103: (400, "durable name can not contain '.', '*', '>'", "refused with 10052"),
    10104: (500, "error creating store for consumer: {}", "reported as 10012"),
    10105: (400, "consumer already exists and is still active", _LEGACY),
    10106: (400, "consumer replacement durable config not the same", _LEGACY),
    10114: (
        400,
        "consumer max request batch needs to be > 0",
        "a negative number is the default",
    ),
    10117: (500, "subject details would exceed maximum allowed", "they come in pages"),
    10118: (500, "stream is offline", "sent as 10194, with the reason"),
    10119: (500, "consumer is offline", "sent as 10195, with the reason"),
    10123: (400, "can not move and scale a stream in a single update", _CLUSTER),
    10124: (400, "stream move already in progress", _CLUSTER),
    10126: (400, "consumer config replica count exceeds parent stream", "10074 comes first"),
    10129: (400, "stream reconfiguration not in progress", _CLUSTER),
    10134: (
        400,
        "consumer config replicas must match interest retention stream's replicas",
        "10074 comes first",
    ),
    10158: (409, "duplicate message id is in process", _CLUSTER),
    10163: (503, "expected last sequence per subject temporarily unavailable", _CLUSTER),
    10180: (412, "min last sequence", _CLUSTER),
    10181: (400, "consumer ack policy invalid", "an unknown word is 10025"),
    10182: (400, "consumer replay policy invalid", "an unknown word is 10025"),
    10202: (400, "cluster member change is in progress", _CLUSTER),
    10216: (400, "duplicate stream source consumer detected", "refused with 10140"),
    10224: (400, "JetStream system rescue not applied: {}", _CLUSTER),
    10226: (400, "stream reconfiguration already in progress", _CLUSTER),
}

_ROW = re.compile(r"^\| (\d{5}) \| \d{3} \| .*? \| ([^|]*?) \| ([^|]*?) \|$", re.M)


class Told(NamedTuple):
    """What a file says of each code: the scenario, and the file of unit tests."""

    scenarios: dict[int, str]
    tests: dict[int, str]


def read(text: str) -> Told:
    """Return what the file says."""
    rows = _ROW.findall(text.partition("## Never sent")[0])
    return Told(
        {int(number): scenario for number, scenario, _ in rows if scenario},
        {int(number): test for number, _, test in rows if test},
    )


def unit_tests(told: dict[int, str]) -> dict[int, str]:
    """Return a test file that names each code, by number or by its constant.

    Args:
        told: those to be kept while they are true, so that new tests change nothing.
    """
    names = {
        number: name
        for name, refusal in vars(errors).items()
        if isinstance(refusal, errors.Refusal)
        for number in [refusal.err_code]
    }
    files = sorted(UNIT_TESTS.rglob("test_*.py"))
    texts = {path: path.read_text() for path in files}
    found = {}
    for number, name in names.items():
        wanted = re.compile(rf"\b({number}|{name})\b")
        kept = UNIT_TESTS / told.get(number, "")
        for path, text in [(kept, texts.get(kept, "")), *texts.items()]:
            if wanted.search(text):
                found[number] = str(path.relative_to(UNIT_TESTS))
                break
    return found


def document(told: Told) -> str:
    """Return the text of the file."""
    scenarios, tested = told.scenarios, unit_tests(told.tests)
    text = HEAD
    for number, refusal in sorted(errors.TABLE.items()):
        row = (refusal.code, _cell(refusal.template), scenarios.get(number, ""))
        text += f"| {number} | {row[0]} | {row[1]} | {row[2]} | {tested.get(number, '')} |\n"
    text += NOT_SENT
    for number, (code, template, reason) in sorted(UNSENT.items()):
        text += f"| {number} | {code} | {_cell(template)} | {reason} |\n"
    return text


def _cell(template: str) -> str:
    return template.replace("|", "\\|").replace("*", "\\*").replace(">", "\\>")


def play() -> dict[int, str]:
    """Return the first scenario that reaches each code, played on the bundled server."""
    sys.path.append(str(ROOT))
    player = importlib.import_module("tests.parity.player")
    paths = filter(player.is_supported, sorted(player.SCENARIOS.glob("*.txt")))
    scenarios = [scenario for path in paths for scenario in player.read_scenarios(path)]
    scenarios = [scenario for scenario in scenarios if " / " not in scenario.title]
    # Servers are started anew for each configuration.
    scenarios.sort(key=lambda scenario: scenario.config)
    servers = [player.ServerProcess(player.bundled_command()) for _ in range(LANES)]
    free: queue.SimpleQueue[object] = queue.SimpleQueue()
    for server in servers:
        server.start()
        free.put(server)

    def reached(scenario) -> set[int]:
        server = free.get()
        try:
            server.configure(scenario.config_text)
            transcript = "\n".join(player.Play(server).run(scenario))
        finally:
            server.revive()
            free.put(server)
        return {int(number) for number in re.findall(r'err_code\\?":(\d+)', transcript)}

    found: dict[int, str] = {}
    # Those written for codes say so in their names, and come first.
    scenarios.sort(key=lambda scenario: not scenario.title.startswith("error_codes"))
    try:
        with ThreadPoolExecutor(LANES) as pool:
            for scenario, numbers in zip(scenarios, pool.map(reached, scenarios), strict=True):
                for number in numbers:
                    if not scenario.deviates:
                        found.setdefault(number, scenario.title)
    finally:
        for server in servers:
            server.end()
    return found


def main() -> None:
    """Write the file."""
    told = read(TARGET.read_text()) if TARGET.exists() else Told({}, {})
    if "--play" in sys.argv[1:]:
        told = told._replace(scenarios=play())
    TARGET.write_text(document(told))
    unseen = [number for number in sorted(errors.TABLE) if number not in told.scenarios]
    print(f"{TARGET}: {len(errors.TABLE)} codes; no scenario for {unseen}")


if __name__ == "__main__":
    main()
