"""The ledger against the genuine server: what an attempt finds, and who is fenced off."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Transfer
from jetstream_spark.errors import (
    AttemptSupersededError,
    LedgerError,
    PermissionDeniedError,
    RequestTimeoutError,
    WriterFencedError,
)
from jetstream_spark.sink.kv import KvBucket
from jetstream_spark.sink.ledger import Ledger, Scope, ScopeKind, Standing
from jetstream_spark.sink.message_ids import Fingerprint
from jetstream_spark.sink.witnesses import Witness
from tests.connector.cut_wires import without_answer

pytestmark = pytest.mark.genuine
_numbers = itertools.count()
PRINT = Fingerprint(3, 2**64 - 1, 5)


@pytest.fixture
def make_ledger(stream):
    bucket, name = f"ledger{next(_numbers)}", f"q{next(_numbers)}"

    def make(version: int, kind: ScopeKind = ScopeKind.QUERY) -> Ledger:
        return Blocking(
            Ledger(stream.control.inner, bucket, Scope(kind, name, version), stream.name)
        )

    make.bucket, make.stream = Blocking(KvBucket(stream.control.inner, bucket)), stream  # type: ignore[attr-defined]
    return make


def test_first_then_resumed_then_done_then_committed(make_ledger) -> None:
    first = make_ledger(7).begin(0)
    assert (first.standing, first.first_sequence) == (Standing.FIRST, 1)
    again = make_ledger(7).begin(0)
    assert (again.standing, again.before) == (Standing.RESUMED, (first.inbox,))
    assert again.inbox != first.inbox
    make_ledger(7).finish(again, PRINT, 0)
    done = make_ledger(7).begin(0)
    assert (done.standing, done.fingerprint) == (Standing.DONE, PRINT)
    assert make_ledger(7).begin(1).standing is Standing.FIRST
    make_ledger(7).commit(3)
    assert make_ledger(7).begin(0).standing is Standing.COMMITTED
    assert make_ledger(7).begin(5).standing is Standing.COMMITTED
    assert make_ledger(8).begin(0).standing is Standing.FIRST


def test_a_resumed_attempt_looks_from_where_the_first_one_began(make_ledger) -> None:
    make_ledger(1).begin(0)
    make_ledger.stream.control.request_message(f"{make_ledger.stream.subject}.a", b"x")
    assert make_ledger(1).begin(0).first_sequence == 1
    assert make_ledger(2).begin(0).first_sequence == 2


def test_an_attempt_that_began_while_this_one_looked_is_followed(make_ledger, stream) -> None:
    """Its entry speaks of sequences that the stream had not reached a moment before."""
    ledger = make_ledger(1).inner
    overtaken = []

    class Slow:
        """Lets another attempt begin, behind more messages, while the stream is looked at."""

        def __init__(self, control) -> None:
            self.control = control

        def __getattr__(self, name: str):
            return getattr(self.control, name)

        def stream_state(self, name: str):
            state = yield from self.control.stream_state(name)
            if not overtaken:
                stream.control.request_message(f"{stream.subject}.a", b"x")
                overtaken.append(make_ledger(1).begin(0))
            return state

    ledger._control = Slow(ledger._control)
    attempt = run(ledger.begin(0))
    assert overtaken[0].first_sequence == 2
    assert (attempt.standing, attempt.first_sequence) == (Standing.RESUMED, 2)
    assert attempt.before == (overtaken[0].inbox,)


def test_an_entry_that_names_no_inbox_is_none_of_ours(make_ledger) -> None:
    make_ledger(7).begin(0)
    key = make_ledger(7).inner._key + ".0"
    found = make_ledger.bucket.get(key)
    for inbox in ("_INBOX.x y", "a.>", "_INBOX.>", 7):
        entry = json.loads(found.value) | {"inbox": inbox}
        revision = make_ledger.bucket.get(key).revision
        make_ledger.bucket.put(key, json.dumps(entry).encode(), revision)
        with pytest.raises(LedgerError, match="is not one of ours"):
            make_ledger(7).begin(0)


def test_a_stream_made_again_is_looked_at_from_its_beginning(make_ledger, stream) -> None:
    for _ in range(3):
        stream.control.request_message(f"{stream.subject}.a", b"x")
    make_ledger(1).finish(make_ledger(1).begin(0), PRINT, 0)
    make_ledger(2).begin(7)
    make_ledger(2).commit(3)
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    attempt = make_ledger(1).begin(0)
    assert (attempt.standing, attempt.first_sequence) == (Standing.RESUMED, 1)
    assert make_ledger(1).begin(7).standing is Standing.FIRST
    make_ledger(1).commit(5)
    assert make_ledger(1).begin(7).standing is Standing.COMMITTED


def test_a_later_version_fences_tasks_and_the_driver(make_ledger) -> None:
    make_ledger(5).begin(0)
    with pytest.raises(WriterFencedError, match=r"version 4 of query .* version 5 is already"):
        make_ledger(4).begin(0)
    make_ledger(5).commit(3)
    with pytest.raises(WriterFencedError, match="checkpoint was rolled back"):
        make_ledger(4).begin(9)
    with pytest.raises(WriterFencedError):
        make_ledger(4).commit(3)


def test_an_attempt_overtaken_while_it_wrote_is_fenced_at_its_end(make_ledger) -> None:
    slow = make_ledger(4).begin(0)
    make_ledger(5).begin(0)
    with pytest.raises(WriterFencedError):
        make_ledger(4).finish(slow, PRINT, 0)


def test_of_two_attempts_at_once_both_may_finish(make_ledger) -> None:
    one, other = make_ledger(4).begin(0), make_ledger(4).begin(0)
    make_ledger(4).finish(one, PRINT, 0)
    make_ledger(4).finish(other, PRINT, 0)
    assert make_ledger(4).begin(0).standing is Standing.DONE


def test_committing_again_is_harmless_unless_there_are_more_rows(make_ledger, caplog) -> None:
    make_ledger(4).commit(3)
    make_ledger(4).commit(3)
    assert caplog.text == ""
    make_ledger(4).commit(2)  # the source has lost one since
    assert "with 3 rows, and has 2 now" in caplog.text
    with pytest.raises(LedgerError, match=r"committed .* with 3 rows, and has 4 now"):
        make_ledger(4).commit(4)


def test_a_transaction_of_the_past_is_skipped_not_fenced(make_ledger) -> None:
    make_ledger(5, ScopeKind.TRANSACTION).commit(3)
    assert make_ledger(4, ScopeKind.TRANSACTION).begin(0).standing is Standing.COMMITTED
    make_ledger(4, ScopeKind.TRANSACTION).commit(99)


def test_a_job_leaves_nothing_behind(make_ledger) -> None:
    ledger = make_ledger(0, ScopeKind.JOB)
    ledger.finish(ledger.begin(0), PRINT, 0)
    ledger.commit(3)
    assert ledger.begin(0).standing is Standing.FIRST


def test_what_a_dead_driver_left_of_its_job_is_removed_a_month_later(make_ledger) -> None:
    class Later:
        """A host whose clock is ahead."""

        def __init__(self, host, by_s: int) -> None:
            self.host, self.by_ns = host, by_s * 10**9

        def __getattr__(self, name: str):
            return getattr(self.host, name)

        def wall_time_ns(self) -> int:
            return self.host.wall_time_ns() + self.by_ns

    def entries(job: str) -> bool:
        ledger = Ledger(*known, Scope(ScopeKind.JOB, job, 0), make_ledger.stream.name)  # type: ignore[call-arg]
        return make_ledger.bucket.get(f"{ledger._key}.0") is not None

    control = make_ledger.stream.control.inner
    known = control, make_ledger.bucket.bucket
    make_ledger(3).begin(0)
    query_key = make_ledger(3).inner._key + ".0"
    run(Ledger(*known, Scope(ScopeKind.JOB, "dead", 0), make_ledger.stream.name).begin(0))
    for days, is_there in ((29, True), (31, False)):
        host = Later(control.host, days * 86_400)
        mine = Control(host, control.options, "test")
        scope = Scope(ScopeKind.JOB, f"job{days}", 0)
        run(Ledger(mine, known[1], scope, make_ledger.stream.name).commit(3))
        assert entries("dead") is is_there
    assert make_ledger.bucket.get(query_key) is not None


def test_a_deleted_entry_lets_the_batch_be_written_again(make_ledger, stream) -> None:
    ledger = make_ledger(4)
    ledger.commit(3)
    key = f"$KV.{make_ledger.bucket.bucket}.{ledger._key}"
    marker = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    stream.control.request_message(key, b"", marker)
    assert make_ledger(4).begin(0).standing is Standing.FIRST
    make_ledger(4).commit(5)


def test_an_outage_is_no_reason_to_do_without_the_ledger(make_ledger, monkeypatch) -> None:
    """It passes, and rows would be written twice; only who may not use the ledger is told of it."""

    def failing(error):
        def entries(self, key):
            yield from ()
            raise error

        monkeypatch.setattr(Ledger, "_entries", entries)

    failing(RequestTimeoutError("no answer within 2 s.", "Raise requestTimeout."))
    with pytest.raises(RequestTimeoutError, match="does not answer: no answer") as silent:
        make_ledger(1).begin(0)
    assert "Raise requestTimeout. If everything else" in silent.value.remedy
    assert "ledger=none" not in str(silent.value)
    failing(PermissionDeniedError("not allowed.", "Allow it."))
    with pytest.raises(LedgerError, match=r"cannot be used: not allowed.*ledger=none"):
        make_ledger(1).begin(0)


def test_strange_entries_are_named(make_ledger) -> None:
    ledger = make_ledger(4)
    ledger.commit(3)
    key = ledger._key
    make_ledger.bucket.put(key, b"hello", make_ledger.bucket.get(key).revision)
    with pytest.raises(LedgerError, match=r"is not one of ours: b'hello'.*ledgerBucket"):
        make_ledger(4).begin(0)


def test_names_of_any_letters_make_different_keys(make_ledger, stream) -> None:
    scopes = [Scope(ScopeKind.TRANSACTION, name, 1) for name in ("a b", "a.b", "a*b", "ä", "=61")]
    ledgers = [
        Blocking(Ledger(stream.control.inner, "odd-names", one, stream.name)) for one in scopes
    ]
    for ledger in ledgers:
        ledger.commit(1)
    newer = [replace(one, version=2) for one in scopes]
    for one in newer:
        ledger = Blocking(Ledger(stream.control.inner, "odd-names", one, stream.name))
        assert ledger.begin(0).standing is Standing.FIRST


def publish(stream, count: int) -> None:
    for _ in range(count):
        stream.control.request_message(f"{stream.subject}.a", b"x")


class Earlier:
    """A control that sees a stream as it was when it had given fewer sequences."""

    def __init__(self, control, following: int) -> None:
        self._control = control
        self._following = following

    def __getattr__(self, name: str):
        return getattr(self._control, name)

    def stream_state(self, stream: str):
        state = yield from self._control.stream_state(stream)
        return replace(state, next=self._following)

    def state_reaching(self, stream: str, created: str, reached: int):
        return self.stream_state(stream)


def earlier(make_ledger, version: int, following: int, kind: ScopeKind = ScopeKind.QUERY):
    """A ledger that sees the stream brought back from an older snapshot."""
    ledger = make_ledger(version, kind)
    ledger.inner._control = Earlier(ledger.inner._control, following)
    return ledger


def test_a_leader_that_is_behind_does_not_take_a_batch_back(
    make_ledger, stream, monkeypatch
) -> None:
    """One of three replicas that was halted tells of less than was stored, and not only once."""
    publish(stream, 10)
    attempt = make_ledger(3).begin(0)
    publish(stream, 10)
    make_ledger(3).finish(attempt, PRINT, 20)
    make_ledger(3).commit(3)
    told = iter([6, 6])
    ask = Control.stream_state

    def behind(self, name):
        state = yield from ask(self, name)
        config = state.config | {"num_replicas": 3}
        return replace(state, config=config, next=state.next - next(told, 0))

    monkeypatch.setattr(Control, "stream_state", behind)
    assert make_ledger(3).begin(0).standing is Standing.COMMITTED
    assert next(told, None) is None


def test_a_stream_from_an_older_snapshot_gets_the_batch_again(make_ledger, stream, caplog) -> None:
    publish(stream, 10)
    attempt = make_ledger(3).begin(0)
    publish(stream, 10)
    make_ledger(3).finish(attempt, PRINT, 20)
    make_ledger(3).begin(1)
    assert earlier(make_ledger, 3, 21).begin(0).standing is Standing.DONE
    torn = earlier(make_ledger, 3, 15).begin(0)
    assert (torn.standing, torn.first_sequence) == (Standing.RESUMED, 11)
    make_ledger(3).commit(3)
    assert earlier(make_ledger, 3, 21).begin(0).standing is Standing.COMMITTED
    assert not caplog.records
    torn = earlier(make_ledger, 3, 15).begin(0)
    assert (torn.standing, torn.first_sequence) == (Standing.RESUMED, 11)
    assert "brought back from an older snapshot" in caplog.text
    gone = earlier(make_ledger, 3, 5).begin(0)
    # That attempt may have looked before the stream was brought back, and written afterwards.
    assert (gone.standing, gone.first_sequence) == (Standing.RESUMED, 1)
    assert earlier(make_ledger, 3, 5).begin(0).first_sequence == 1
    earlier(make_ledger, 3, 9).commit(3)
    assert earlier(make_ledger, 3, 9).begin(0).standing is Standing.COMMITTED


def test_an_attempt_that_began_in_a_stream_that_was_brought_back_since_is_looked_for_everywhere(
    make_ledger, stream, caplog
) -> None:
    """It may have looked before that and written after it, and others have come as far again."""
    publish(stream, 5)
    began = make_ledger(3).begin(0)
    publish(stream, 2)
    again = make_ledger(3).begin(0)
    assert (began.first_sequence, again.first_sequence) == (6, 6)
    assert again.after == began.after
    key = f"{make_ledger(3).inner._key}.0"
    found = make_ledger.bucket.get(key)
    entry = json.loads(found.value)
    entry["after"] |= {"time": "2001-02-03T04:05:06.789Z"}
    make_ledger.bucket.put(key, json.dumps(entry).encode(), found.revision)
    elsewhere = make_ledger(3).begin(0)
    assert (elsewhere.standing, elsewhere.first_sequence) == (Standing.RESUMED, 1)
    assert make_ledger(3).begin(0).first_sequence == 1
    found = make_ledger.bucket.get(key)
    entry = json.loads(found.value) | {
        "next": 6,
        "after": {"seq": 5, "time": "2001-02-03T04:05:06Z"},
    }
    make_ledger.bucket.put(key, json.dumps(entry).encode(), found.revision)
    stream.control.request(f"STREAM.MSG.DELETE.{stream.name}", {"seq": 5})
    assert make_ledger(3).begin(0).first_sequence == 6, "nothing tells"


def test_a_revision_that_was_given_twice_is_not_taken_for_ones_own(make_ledger, stream) -> None:
    """Another attempt's entry has it, after files of the server were put back."""
    attempt = make_ledger(3).begin(0)
    key = make_ledger(3).inner._key + ".0"
    flow = run(pool.connect(this_host(), stream.sink().connection, "test"))
    run(make_ledger(3).inner.check_held(attempt, flow))
    entry = json.loads(make_ledger.bucket.get(key).value)
    entry |= {"inbox": "_INBOX.abc", "before": [attempt.inbox]}
    make_ledger.bucket.put(key, json.dumps(entry).encode(), attempt.revision)
    attempt.revision = make_ledger.bucket.get(key).revision
    with pytest.raises(AttemptSupersededError):
        run(make_ledger(3).inner.check_held(attempt, flow))
    flow.close()


def test_rows_removed_since_the_first_attempt_are_told(make_ledger, stream, caplog) -> None:
    make_ledger(3).begin(0)
    publish(stream, 10)
    stream.control.purge(stream.name, 8)
    attempt = make_ledger(3).begin(0)
    assert (attempt.standing, attempt.first_sequence) == (Standing.RESUMED, 1)
    assert "sequences 1 to 7" in caplog.text and "written again" in caplog.text


def test_a_stream_made_anew_within_a_batch_is_an_error_and_later_a_warning(
    make_ledger, stream, caplog
) -> None:
    created = stream.control.stream_state(stream.name).created
    make_ledger(3).commit(3, {created})
    for kind in (ScopeKind.QUERY, ScopeKind.JOB):
        with pytest.raises(LedgerError, match=r"made again while version 4 .*Run it again"):
            make_ledger(4, kind).commit(3, {created, "before"})
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    assert not caplog.records
    make_ledger(4).commit(3)
    assert "made again since version 3" in caplog.text


def test_a_stream_that_goes_back_within_a_batch_is_an_error(make_ledger, stream) -> None:
    """Its tasks were told that rows are stored, and then files of the server were put back."""
    stream.control.request_message(f"{stream.subject}.a", b"x")
    for kind in ScopeKind:
        make_ledger(3, kind).commit(2, reached=1)
        with pytest.raises(LedgerError, match=r"before sequence 2, .* come to 2 .*Run it again"):
            make_ledger(4, kind).commit(2, reached=2)
        found = [Witness("", 3, b"x")]  # by an attempt that had nothing to write itself
        with pytest.raises(LedgerError, match=r"before sequence 2, .* come to 3 .*Run it again"):
            make_ledger(4, kind).commit(2, reached=1, witnesses=found)


def test_batches_that_a_ledger_does_not_know_any_more_are_told(make_ledger, caplog) -> None:
    """As after files of the server were put back: the ledger's with the stream's."""
    for version in (3, 4):
        make_ledger(version).commit(1)
    make_ledger(0, ScopeKind.TRANSACTION).commit(1)
    make_ledger(9, ScopeKind.TRANSACTION).commit(1)  # whose versions are anybody's
    assert not caplog.records
    make_ledger(6).commit(1)
    assert "has no batch 5 in its ledger, which knows of 4 and" in caplog.text
    make_ledger(9).commit(1)
    assert "has no batches 7 to 8 in its ledger" in caplog.text
    assert len(caplog.records) == 2


def test_a_stream_that_is_not_as_far_as_its_ledger_is_told(make_ledger, caplog) -> None:
    ledger = make_ledger(4).inner
    ask = ledger._control.stream_state

    def further(name):
        state = yield from ask(name)
        return replace(state, next=state.next + 7)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger._control, "stream_state", further)
        run(ledger.commit(1))
    assert not caplog.records
    make_ledger(5).commit(1)
    assert "ends before sequence 1, and had ended before 8: " in caplog.text


def test_a_skipped_transaction_that_holds_something_else_is_told(make_ledger, caplog) -> None:
    def ledger(version: int = 5):
        return make_ledger(version, ScopeKind.TRANSACTION)

    ledger().finish(ledger().begin(0), PRINT, 0)
    ledger().commit(3)
    assert ledger().begin(0).fingerprint == PRINT
    assert ledger().begin(1).fingerprint is None
    ledger().commit(3)
    assert not caplog.records
    ledger().commit(3, differs=True)
    assert "nothing was written of txnVersion 5" in caplog.text
    assert "it was written before, and has other rows now" in caplog.text
    ledger().commit(4)
    assert "written before with 3 rows, and has 4 now" in caplog.text
    ledger(4).commit(3)
    assert "version 5 is in the ledger already" in caplog.text


def writes(key: str):
    """Whether bytes on their way are a write of a ledger key that ends so."""
    return lambda sent: sent.startswith(b"HPUB $KV.") and f"{key} ".encode() in sent[:300]


def test_the_answer_to_a_commit_is_lost(make_ledger) -> None:
    ledger = make_ledger(7).inner
    run(without_answer(ledger.commit(3), writes(ledger._key)))
    assert make_ledger(7).begin(0).standing is Standing.COMMITTED
    with pytest.raises(WriterFencedError):
        make_ledger(6).begin(0)


def test_the_answers_to_a_begin_and_a_finish_are_lost(make_ledger) -> None:
    ledger = make_ledger(7).inner
    attempt = run(without_answer(ledger.begin(0), writes(".0")))
    assert (attempt.standing, attempt.first_sequence) == (Standing.FIRST, 1)
    run(without_answer(ledger.finish(attempt, PRINT, 0), writes(".0")))
    assert make_ledger(7).begin(0).fingerprint == PRINT


def test_two_runs_that_commit_the_same_rows_at_once_are_both_right(make_ledger, stream) -> None:
    def quicker(operation, other: Ledger, rows: int):
        """Let the other one commit between the look and the write of this one."""
        outcome, is_waiting = None, True
        while True:
            try:
                effect = operation.send(outcome)
            except StopIteration:
                return
            sent = b"".join(effect.link.outgoing) if isinstance(effect, Transfer) else b""
            if sent.startswith(b"HPUB $KV.") and is_waiting:
                is_waiting = False
                other.commit(rows)
            outcome = yield effect

    run(quicker(make_ledger(7).inner.commit(3), make_ledger(7), 3))
    with pytest.raises(LedgerError, match=r"with 5 rows, and has 3 now.*written again, beside"):
        run(quicker(make_ledger(8).inner.commit(3), make_ledger(8), 5))
    with pytest.raises(WriterFencedError, match=r"Deleting the key .*written again, beside"):
        run(quicker(make_ledger(9).inner.commit(3), make_ledger(10), 3))


def test_a_ledger_that_is_deleted_while_rows_are_written_is_named(make_ledger, stream) -> None:
    attempt = make_ledger(1).begin(0)
    stream.control.request(f"STREAM.DELETE.KV_{make_ledger.bucket.bucket}")
    with pytest.raises(LedgerError, match="was deleted while version 1 of query") as raised:
        make_ledger(1).finish(attempt, PRINT, 0)
    assert "duplicate_window" in raised.value.remedy


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, None),
        ({"version": 6}, LedgerError),
        ({"created": "2001-02-03T04:05:06Z"}, LedgerError),
        ({"version": 8}, WriterFencedError),
    ],
    ids=["the same", "an earlier version", "another incarnation", "a later version"],
)
def test_an_entry_that_comes_while_a_version_is_committed(make_ledger, change, error) -> None:
    ledger, bucket = make_ledger(7), make_ledger.bucket.inner
    ledger.begin(0)
    write = ledger.inner._write

    def overtaken(key, entry, revision, stream):
        yield from bucket.put(key, json.dumps(entry | change).encode(), revision)
        return (yield from write(key, entry, revision, stream))

    ledger.inner._write = overtaken
    if error is None:
        ledger.commit(3)
    else:
        with pytest.raises(error) as raised:
            ledger.commit(3)
        assert type(raised.value) is error
