"""Administrators take snapshots of streams and restore them under other names, under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.snapshots.archive import ArchiveReader
from jetstream_server.jetstream.snapshots.s2 import S2Reader

from tests.sim.explanation import is_explained
from tests.sim.life import Life, require
from tests.sim.network import Frame
from tests.sim.program import Program, Request, answer_of, pub
from tests.sim.stream_wishes import free_name, new_token

if TYPE_CHECKING:
    from tests.sim.workload import Workload

_Content = tuple[bytes, bytes, bytes, int]
_KEPT_MAX = 6


class Archive:
    """A snapshot on its way to a client, and what it says in the end."""

    def __init__(self, workload: Workload, program: Program, life: Life) -> None:
        self.life = life
        self.chunks: list[bytes] = []
        self.messages: dict[int, _Content] = {}
        self.state: dict[str, Any] = {}
        self._workload = workload
        self._program = program

    def began(self, frame: Frame) -> None:
        """Keep the state that the snapshot is of."""
        if self._workload.counted("snapshot", frame):
            self.state = answer_of(frame)["state"]

    def arrived(self, frame: Frame) -> bool:
        """Take a chunk, or the end."""
        if frame.payload:
            self.chunks.append(frame.payload)
            if frame.reply:
                self._program.send(pub(frame.reply, b"", b"", b""))
            return False
        if not frame.status or frame.status == b"204":
            self._read()
        return True

    def _read(self) -> None:
        """Compare the archive with what was stored; keep it to be restored."""
        if not self.state:  # the answer was lost
            return
        workload, life = self._workload, self.life
        s2, reader = S2Reader(), ArchiveReader()
        for chunk in self.chunks:
            s2.feed(chunk)
        while (block := s2.next_block()) is not None:
            reader.feed(block)
            while (entry := reader.next_entry()) is not None and not entry.is_end:
                if entry.sequence:
                    content = entry.name, entry.headers, entry.payload, entry.timestamp
                    known = workload.witness.saw(life, entry.sequence)
                    require(known.content == content, life.name, entry, "archived, not", known)
                    self.messages[entry.sequence] = content
        last, newest, now = self.state["last_seq"], max(life.journal, default=0), workload.now
        for sequence in life.seen:
            if self.state["first_seq"] <= sequence <= last and sequence not in self.messages:
                require(
                    sequence in life.explained or is_explained(life, sequence, newest, now),
                    life.name, sequence, "is not in the archive",
                )  # fmt: skip
        workload.witness.count("whole snapshots")
        workload.archives.append(self)
        del workload.archives[:-_KEPT_MAX]


def snapshot(workload: Workload, program: Program) -> None:
    """Ask for a snapshot of a stream."""
    life = workload.some_life(program, lambda life: not life.is_leaving)
    if life is None:
        return
    archive = Archive(workload, program, life)
    chunks = program.ask("snapshot chunks", arrived=archive.arrived)
    chunks.deadline += 8 * SECOND
    body = {
        "deliver_subject": chunks.reply.decode(),
        "no_consumers": workload.random.random() < 0.7,
        "chunk_size": workload.random.choice([0, 1024]),
    }
    program.ask_api(f"STREAM.SNAPSHOT.{life.name}", body, "snapshot", said=archive.began)


def restore(workload: Workload, program: Program) -> None:
    """Restore a stream under another name."""
    archives = [each for each in workload.archives if each.life.account == program.account]
    name = free_name(workload, program)
    if not archives or name is None:
        return
    archive = workload.random.choice(archives)
    token = new_token(workload, name)
    kept = ("storage", "duplicate_window", "allow_direct", "allow_msg_ttl", "allow_msg_counter")
    config = {key: archive.life.config[key] for key in kept if key in archive.life.config}
    config["storage"] = workload.random.choice(["file", "file", "memory"])
    config |= {
        "name": name,
        "subjects": [f"{token.decode()}.>"],
        "metadata": {"life": token.decode()},
    }
    life = Life(name, token, program.account, [config], workload.now, archive=archive.messages)
    life.is_leaving = True  # until it is there a crash may take it back
    workload.witness.begin(life)

    def began(frame: Frame) -> bool:
        if workload.counted("restore", frame):
            _send_chunks(workload, program, life, archive, answer_of(frame)["deliver_subject"])
        else:
            life.is_gone = True
        return True

    def unknown() -> None:
        life.is_gone = life.is_gone or not life.is_made

    program.ask_api(
        f"STREAM.RESTORE.{name}", {"config": config, "state": {}}, "restore",
        arrived=began, lost=unknown,
    )  # fmt: skip


def _send_chunks(
    workload: Workload, program: Program, life: Life, archive: Archive, subject: str
) -> None:
    def finished(frame: Frame) -> None:
        if not workload.counted("whole restore", frame):
            return
        life.is_made, life.is_leaving = True, False
        missing = archive.messages.keys() - life.journal.keys()
        require(not missing, life.name, "was restored without", missing)

    def lost() -> None:
        if not life.is_made:
            workload.doubtful.append(life)

    target = subject.encode()
    frames = [pub(target, program.ask("chunk").reply, b"", chunk) for chunk in archive.chunks]
    end: Request = program.ask("restore end", said=finished, lost=lost)
    end.deadline += 8 * SECOND
    program.send(b"".join(frames) + pub(target, end.reply, b"", b""))
