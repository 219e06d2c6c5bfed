"""Damages to single files of stores whose server was killed in the middle of work, or stopped.

    python -m tests.damage --minutes 10
    python -m tests.damage --stopped --seed 17 --seeds 1

Each seed is some work, its end, and a few damages, one at a time; what is told with its seed is
missing or false without anybody having been told.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.store_folder import ENCRYPTION_NAME

from tests.damage.killed import (
    START,
    KilledError,
    MortalDisk,
    Server,
    SilentError,
    Work,
    check,
)

STEPS_MAX = 60
CALLS_MAX = 40
DAMAGES = 8
KINDS = ("bit", "bit", "bit", "bit", "cut", "cut", "removed", "emptied", "garbage", "longer")


def damaged(content: bytes, kind: str, random: Random) -> bytes | None:
    """Return what a file holds after a damage, None when it is gone."""
    match kind:
        case "bit":
            changed = bytearray(content)
            if changed:
                changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
            return bytes(changed)
        case "cut":
            return content[: random.randrange(len(content) + 1)]
        case "removed":
            return None
        case "emptied":
            return b""
        case "garbage":
            return random.randbytes(len(content) or 20)
        case _:
            return content + random.randbytes(30)


def killed(folder: Path, random: Random, terms: dict[str, object]) -> Work:
    """Leave a store whose server was killed; return what it had answered."""
    server = Server(folder, START, **terms)  # type: ignore[arg-type]
    work = Work(server, random)
    steps = random.randrange(3, STEPS_MAX)
    try:
        for step in range(steps + STEPS_MAX):
            if step == steps:
                MortalDisk.calls_left = random.randrange(CALLS_MAX)
            work.step()
    except KilledError:
        pass
    server.end()
    work.ended_at = server.now
    return work


def stopped(folder: Path, random: Random, terms: dict[str, object]) -> Work:
    """Leave a store whose server was told to stop; return what it had answered."""
    server = Server(folder, START, **terms)  # type: ignore[arg-type]
    work = Work(server, random)
    for _ in range(random.randrange(3, STEPS_MAX)):
        work.step()
    server.stop()
    server.end()
    work.ended_at = server.now
    return work


def gone_with(file: Path) -> set[str]:
    """Return the stream, or the consumer, of which nothing is left without this file."""
    place = file.parent
    left = {each.name for each in place.rglob("*") if each.is_file()}
    if file.name != "meta.json" or left - {"key"}:
        return set()
    is_stream = place.parent.name == "streams"
    return {place.name if is_stream else f"{place.parent.parent.name} {place.name}"}


def look(
    folder: Path, work: Work, terms: dict[str, object], gone: set[str], *, is_damaged: bool
) -> list[str]:
    """Start a server on a store, and check; return the streams that are offline.

    Raises:
        SilentError: something is missing or false.
    """
    try:
        server = Server(folder, work.ended_at, **terms)  # type: ignore[arg-type]
    except StoreError as error:
        # Without the key that everything is encrypted with, there is nothing to serve.
        if is_damaged and str(folder / "jetstream" / ENCRYPTION_NAME) in str(error):
            return []
        raise SilentError(f"it does not start: {error}") from None
    try:
        check(server, work, gone, is_damaged=is_damaged)
        return [name for name in work.known if "error" in server.ask(f"$JS.API.STREAM.INFO.{name}")]
    finally:
        server.end()


def attempt(place: Path, seed: int, *, is_stopped: bool = False) -> int:
    """Play one seed; return the number of damages.

    Args:
        place: where stores are.
        seed: what is done, and damaged.
        is_stopped: whether the server was told to stop, and not killed.

    Raises:
        SilentError: something is missing or false.
    """
    random = Random(f"damage {seed}")
    terms: dict[str, object] = {
        "block_bytes": random.choice((2000, 20_000, 1 << 23)),
        "key": random.choice(("", "", "k")),
    }
    place.mkdir(exist_ok=True)
    origin = place / "origin"
    work = (stopped if is_stopped else killed)(origin, random, terms)
    chance = Random(f"damages {seed}")
    files = sorted(path for path in origin.rglob("*") if path.is_file())
    for number in range(DAMAGES + 1):
        copy = place / "copy"
        shutil.copytree(origin, copy)
        where, gone = "no damage", set[str]()
        try:
            if number:
                file, kind = chance.choice(files), chance.choice(KINDS)
                where = f"{kind} {file.relative_to(origin)}"
                target = copy / file.relative_to(origin)
                content = damaged(target.read_bytes(), kind, chance)
                if content is None:
                    target.unlink()
                    gone = gone_with(target)
                else:
                    target.write_bytes(content)
            offline = look(copy, work, terms, gone, is_damaged=number > 0)
            _accept(copy, work, terms, offline)
        except SilentError as error:
            raise SilentError(f"damage {number}, {where}: {error}") from None
        finally:
            shutil.rmtree(copy)
    return DAMAGES


def _accept(folder: Path, work: Work, terms: dict[str, object], offline: list[str]) -> None:
    """Accept the loss of what is offline: no sequence is given twice then either."""
    messages = [
        path for name in offline for path in folder.glob(f"jetstream/*/streams/{name}/msgs")
    ]
    if not messages:
        return
    for path in messages:
        (path / "accept-loss").touch()
    server = Server(folder, work.ended_at, **terms)  # type: ignore[arg-type]
    try:
        for name in offline:
            ack = server.ask(f"{name}.0", 1)
            last_seq = work.known[name].last_seq
            if ack is not None and ack.get("seq", last_seq + 1) <= last_seq:
                raise SilentError(f"{name} goes on with {ack['seq']}; it had given {last_seq}")
    finally:
        server.end()


def main() -> int:
    """Run; return the number of seeds that found something."""
    parser = argparse.ArgumentParser(prog="tests.damage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=0, help="so many, instead of minutes")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--stopped", action="store_true", help="servers that were told to stop")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    seed, damages, bad = options.seed, 0, 0
    memory = Path("/dev/shm")
    while seed < options.seed + options.seeds if options.seeds else time.monotonic() < until:
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
            try:
                damages += attempt(Path(place), seed, is_stopped=options.stopped)
            except SilentError as error:
                bad += 1
                print(f"seed {seed}: {error}\n", flush=True)
            except Exception:
                print(f"seed {seed}:", flush=True)
                raise
        seed += 1
    print(f"{seed - options.seed} seeds from {options.seed}, {damages} damages, {bad} bad")
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main())
