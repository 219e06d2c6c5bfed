"""Where a consumer is kept: its config, and how far it came.

Progress changed by an ack that wants an answer is queued for the disk before the answer can leave
(`output.py`); other progress may be saved up to `_SAVE_NS` late, or `_SAVE_NS_MAX` if very many
messages are to go out again, and after a crash those messages come again. One save at the end of a
turn serves every answer of the turn.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.progress.consumer_state import encode_state
from jetstream_server.jetstream.output import Output, Send
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.store.ports import StateFile

# The genuine server writes a consumer's state at most this often.
_SAVE_NS = 100 * MILLISECOND
# But one in which so many wait to go out again takes milliseconds, so it is saved less often.
_ENTRIES_OF_SAVE = 20_000
_SAVE_NS_MAX = 2000 * MILLISECOND
# A longer first state, that is one with tens of thousands of sequences, gets its file at once:
# otherwise megabytes would be written as text.
_STATE_BESIDE_MAX = 256 * 1024  # bytes


@dataclass(eq=False)
class ConsumerFiles:
    """Saves one consumer.

    Args:
        shared: the consumer.
        created: when it was made.
        files: of its config and of its state; None for one that does not outlive the process.
        output: where its answers go.

    Attributes:
        files: as given.
        has_state_file: its state is in a file of its own, and not with its config.
    """

    _shared: ConsumerContext
    _created: int
    files: tuple[StateFile, StateFile] | None
    _output: Output
    has_state_file: bool = False
    _is_unsaved: bool = False
    _must_save_now: bool = False  # before the answers of this turn
    _unsaved_answers: list[Send] = field(default_factory=list)  # which report what is unsaved

    def changed(self, now: int, *, must_precede_answer: bool = False) -> None:
        """Progress changed: save it before an answer that reports it, or otherwise before long."""
        if self.files is None:
            return
        self._is_unsaved = True
        if must_precede_answer:
            self._must_save_now = True
            self._shared.note_answer()
            self._shared.wake()
        elif "save" not in self._shared.timers:
            redelivery = self._shared.progress.redelivery
            entries = redelivery.queued + len(redelivery.deadlines)
            late_ns = _SAVE_NS * (1 + entries // _ENTRIES_OF_SAVE)
            self._shared.timers.schedule("save", now + min(late_ns, _SAVE_NS_MAX))

    def answer(self, reply: bytes) -> None:
        """Answer an ack, but not before what it changed is saved."""
        self._unsaved_answers.append(self._output.publish(reply, b""))
        self._shared.note_answer()

    def end_turn(self) -> None:
        """Queue for the disk what the answers of this turn report."""
        if self._must_save_now:
            self.save()
        self._unsaved_answers.clear()

    def save(self) -> None:
        """Queue the progress for the disk now."""
        self._save(lazily=False)

    def save_late(self) -> None:
        """Save what nobody is waiting for: it is due now."""
        if self._is_unsaved:
            self._save(lazily=not self._must_save_now)

    def save_rest(self) -> None:
        """Save what is not saved yet: the consumer stops."""
        if self._is_unsaved:
            self._save(lazily=False)

    def _save(self, *, lazily: bool) -> None:
        self._note_saved()
        if self.files is not None:
            self.files[1].save(*encode_state(self._shared.progress), lazily=lazily)
            self.has_state_file = True

    def save_config(self) -> None:
        """Queue the config for the disk, and the state with it."""
        if self.files is None:
            return
        shared = self._shared
        stored = {
            "name": shared.name,
            "created": format_time(self._created),
            "config": shared.config.to_wire(),
        }
        if self.has_state_file:
            self.files[0].save(encode(stored))
            self.save()
            return
        state = encode_state(shared.progress)
        self._note_saved()
        if sum(map(len, state)) > _STATE_BESIDE_MAX:
            self.files[0].save(encode(stored))
            self.files[1].save(*state)
            self.has_state_file = True
            return
        # Both in one file, because a second one would take two more syncs.
        text = b64encode(b"".join(state))
        self.files[0].save(b'%b,"state":"%b"}' % (encode(stored)[:-1], text))

    def _note_saved(self) -> None:
        self._is_unsaved = self._must_save_now = False
        self._unsaved_answers.clear()
        self._shared.timers.cancel("save")

    def withdraw(self) -> None:
        """Save nothing from now on, and take back the answers that report what is not saved."""
        self._is_unsaved = False
        self._output.withdraw(self._unsaved_answers)
        self._unsaved_answers.clear()

    def remove(self) -> None:
        """Remove what is kept."""
        for file in self.files or ():
            file.remove()
