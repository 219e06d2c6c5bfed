"""The JetStream API through the genuine server."""

from __future__ import annotations

import threading
import time

import pytest

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control, _answer
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.errors import (
    ConnectionFailedError,
    NoRespondersError,
    ProtocolViolationError,
    RequestRefusedError,
    RequestTimeoutError,
    StreamNotFoundError,
    UnavailableError,
)
from jetstream_spark.options.format_options import SinkOptions

pytestmark = pytest.mark.genuine


def test_the_state_of_a_stream(stream):
    control = stream.control
    state = control.stream_state(stream.name)
    assert (state.first, state.next, state.messages) == (1, 1, 0)
    assert state.retention == "limits" and state.subjects == (f"{stream.subject}.>",)
    for _ in range(5):
        control.request_message(f"{stream.subject}.a", b"x")
    assert control.purge(stream.name, 3) == 2
    state = control.stream_state(stream.name)
    assert (state.first, state.next, state.messages) == (3, 6, 3)
    assert control.next_sequence(stream.name, 1) == 3
    assert control.next_sequence(stream.name, 5, f"{stream.subject}.a") == 5
    assert control.next_sequence(stream.name, 1, f"{stream.subject}.b") is None
    assert control.next_sequence("NO_SUCH", 1) is None
    assert control.purge(stream.name, 99, f"{stream.subject}.>") == 3
    state = control.stream_state(stream.name)
    assert (state.first, state.next, state.messages) == (6, 6, 0)


def test_a_stream_that_is_made_again_while_the_last_one_is_purged_keeps_all(
    genuine, make_stream, monkeypatch
):
    stream = make_stream(genuine.url)
    other = Control(stream.control.host, stream.control.options, "other")
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    request = Flow.request

    def made_after(self, subject, *rest):
        answer = yield from request(self, subject, *rest)
        if b".PURGE." in subject:
            monkeypatch.setattr(Flow, "request", request)
            body = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
            yield from other.request(f"STREAM.CREATE.{stream.name}", body)
            for _ in range(3):
                yield from other.request_message(f"{stream.subject}.a", b"x")
        return answer

    monkeypatch.setattr(Flow, "request", made_after)
    with pytest.raises(UnavailableError, match=f"'{stream.name}' was not found to be purged"):
        stream.control.purge(stream.name, 3)
    assert stream.control.stream_state(stream.name).messages == 3


def test_the_states_of_many_streams(start_genuine, make_stream, monkeypatch):
    control = make_stream(start_genuine().url).control
    names = [f"M{at}" for at in range(300)]
    for name in names:
        if name != "M7":
            control.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name.lower()]})
    control.request_message("m9", b"x")
    asked = []
    request = Flow.request

    def counted(self, subject, *rest):
        asked.append(subject)
        return request(self, subject, *rest)

    monkeypatch.setattr(Flow, "request", counted)
    states = control.stream_states(names)
    assert asked == [b"$JS.API.STREAM.INFO.M7", b"$JS.API.STREAM.NAMES"], "the rest came at once"
    assert list(states) == names and states["M7"] is None
    assert (states["M9"].next, states["M8"].next) == (2, 1)
    assert states["M9"] == control.stream_state("M9")
    assert control.stream_states(["M9"]) == {"M9": states["M9"]}
    assert control.stream_states([]) == {}


def test_streams_that_do_not_answer_at_once_are_asked_with_patience(stream, monkeypatch):
    def silent(self, subjects, timeout_s):
        raise RequestTimeoutError("no answer.", "Wait.")
        yield

    monkeypatch.setattr(Flow, "request_all", silent)
    states = stream.control.stream_states([stream.name, "NO_SUCH"])
    assert states[stream.name] == stream.control.stream_state(stream.name)
    assert states["NO_SUCH"] is None


def test_consumers(stream):
    config = {"name": "c1", "ack_policy": "none", "deliver_policy": "all"}
    assert stream.control.create_consumer(stream.name, config)["name"] == "c1"
    assert [one["name"] for one in stream.control.consumers(stream.name)] == ["c1"]
    stream.control.delete_consumer(stream.name, "c1")
    stream.control.delete_consumer(stream.name, "c1")
    assert stream.control.consumers(stream.name) == []


def test_refusals_have_names(stream):
    with pytest.raises(StreamNotFoundError, match=stream.name):
        stream.control.stream_state("NO_SUCH")
    with pytest.raises(RequestRefusedError) as raised:
        stream.control.request(f"STREAM.CREATE.{stream.name}", {"name": stream.name, "subjects": 1})
    assert raised.value.code == 400 and raised.value.err_code == 10025


@pytest.mark.parametrize(
    "payload",
    [b"+OK", b"[5]", b"[" * 100_000, b'{"error":"no"}', b'{"error":{"code":1e999}}'],
    ids=lambda payload: payload[:16].decode(),
)
def test_what_is_no_answer_of_jetstream_is_named(payload):
    """An API that another account exports may be answered by anybody."""
    message = Message(b"_INBOX.a", b"1", b"", b"", payload)
    with pytest.raises(ProtocolViolationError, match=r"answer to 'api\.X' is none of JetStream's"):
        _answer("api.X", message)


def test_a_wrong_domain_gets_no_answer_within_the_time(genuine):
    given = {"servers": genuine.url, "domain": "nowhere"}
    options = SinkOptions.parse(given | {"requestTimeout": "100s", "outageTimeout": "400ms"})
    started = time.monotonic()
    with pytest.raises(NoRespondersError, match="domain or apiPrefix"):
        Blocking(Control(this_host(), options.connection)).stream_state("S")
    assert time.monotonic() - started < 60  # a request may take 100 s


def test_a_publish_that_nobody_answers_asks_for_its_stream(stream):
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    started = time.monotonic()
    with pytest.raises(StreamNotFoundError, match=stream.name) as raised:
        stream.control.request_message(f"{stream.subject}.a", b"", b"", stream.name)
    assert "make it again" in raised.value.remedy
    assert time.monotonic() - started < 50  # a request may take 60 s, an outage 5 minutes
    elsewhere = SinkOptions.parse(
        {"servers": stream.url, "domain": "nowhere", "outageTimeout": "400ms"}
    )
    control = Blocking(Control(this_host(), elsewhere.connection))
    with pytest.raises(NoRespondersError):  # JetStream is not there to say so
        control.request_message(f"{stream.subject}.a", b"", b"", stream.name)


class _Answers:
    """A control whose answers are given, one for each time it asks; pauses take no time."""

    def __init__(self, monkeypatch, *answers, is_cluster=True, pauses_s=(), **options):
        self.now, self._answers, self._more = 100.0, list(answers), list(pauses_s)
        host = this_host()
        monkeypatch.setattr(type(host), "now", lambda _: self.now)
        monkeypatch.setattr(type(host), "token", lambda _, size_bytes: "ff" * size_bytes)
        connection = SinkOptions.parse({"servers": "nats://nobody:4222", **options}).connection
        self.control = Control(host, connection)
        self.control._may_be_cluster |= is_cluster
        monkeypatch.setattr(self.control, "request", self._request)

    def _request(self, operation, body=None):
        yield from ()
        self.now += self._more.pop(0) if self._more else 0
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, operation):
        """What an operation returns or raises, and after how many seconds."""
        began = self.now
        try:
            while True:
                self.now = next(operation).until
        except StopIteration as ended:
            return ended.value, self.now - began
        except RequestRefusedError as error:
            return error.err_code, self.now - began


NO_STREAM = RequestRefusedError("X", 404, 10059, "stream not found")
NO_CONSUMER = RequestRefusedError("X", 404, 10014, "consumer not found")
NO_MESSAGE = RequestRefusedError("X", 404, 10037, "no message found")


def test_a_cluster_has_to_agree_that_something_is_not_there(monkeypatch):
    """A leader that has begun to make it for somebody else says that it is not there."""
    for error in (NO_STREAM, NO_CONSUMER):
        refused, after_s = (answers := _Answers(monkeypatch, error)).ask(
            answers.control.look_up("STREAM.INFO.S")
        )
        assert refused == error.err_code and 2.0 <= after_s < 4.0
    answers = _Answers(monkeypatch, NO_STREAM, NO_CONSUMER, NO_STREAM, {"is": "there"})
    found, after_s = answers.ask(answers.control.look_up("STREAM.INFO.S"))
    assert found == {"is": "there"} and after_s < 1.0


def test_what_was_said_before_an_outage_does_not_count(monkeypatch):
    answers = _Answers(monkeypatch, NO_STREAM, NO_STREAM, NO_STREAM, {}, pauses_s=[0, 5, 0])
    assert answers.ask(answers.control.look_up("STREAM.INFO.S"))[0] == {}


def test_what_is_final_is_believed_at_once(monkeypatch):
    answers = _Answers(monkeypatch, NO_MESSAGE, {})
    assert answers.ask(answers.control.look_up("STREAM.MSG.GET.S")) == (10037, 0.0)
    answers = _Answers(monkeypatch, NO_STREAM, {}, is_cluster=False)
    assert answers.ask(answers.control.look_up("STREAM.INFO.S")) == (10059, 0.0)


def test_behind_another_prefix_there_may_be_a_cluster(monkeypatch):
    answers = _Answers(monkeypatch, NO_STREAM, {}, is_cluster=False, domain="hub")
    assert answers.ask(answers.control.look_up("STREAM.INFO.S"))[0] == {}


def _state(replicas, last_seq, created="2026-01-01T00:00:00Z"):
    return {
        "config": {"num_replicas": replicas},
        "created": created,
        "state": {"messages": last_seq, "first_seq": 1, "last_seq": last_seq, "bytes": 1}
        | {"first_ts": "2026-01-02T00:00:00Z", "last_ts": "2026-01-02T00:00:00Z"},
    }


def test_a_leader_may_not_know_yet_how_far_its_stream_is(monkeypatch):
    behind, ahead = _state(3, 7), _state(3, 9)
    created = behind["created"]
    answers = _Answers(monkeypatch, behind, behind, ahead)
    state, after_s = answers.ask(answers.control.state_reaching("S", created, 10))
    assert state.next == 10 and 0 < after_s < 2.0
    answers = _Answers(monkeypatch, behind)
    state, after_s = answers.ask(answers.control.state_reaching("S", created, 10))
    assert state.next == 8 and 2.0 <= after_s < 4.0
    # A stream of one replica knows, one that was made anew has nothing to reach, 8 is reached.
    for told, reached in (
        (_state(1, 7), 10),
        (_state(3, 7, "2026-01-03T00:00:00Z"), 10),
        (behind, 8),
    ):
        answers = _Answers(monkeypatch, told, ahead)
        state, after_s = answers.ask(answers.control.state_reaching("S", created, reached))
        assert (state.next, after_s) == (8, 0)


def test_a_cluster_has_to_agree_that_nobody_collects_a_subject(monkeypatch):
    nobody, others, ours = {"streams": None}, {"streams": ["T"]}, {"streams": ["T", "S"]}
    answers = _Answers(monkeypatch, nobody, others, ours)
    assert answers.ask(answers.control.is_collected("s.a", "S"))[0] is True
    answers = _Answers(monkeypatch, nobody, others)
    assert answers.ask(answers.control.is_collected("s.a"))[0] is True
    answers = _Answers(monkeypatch, others)
    is_there, after_s = answers.ask(answers.control.is_collected("s.a", "S"))
    assert is_there is False and 2.0 <= after_s < 4.0
    answers = _Answers(monkeypatch, nobody, others, is_cluster=False)
    assert answers.ask(answers.control.is_collected("s.a")) == (False, 0.0)


def test_a_restarting_server_is_waited_for(start_genuine):
    server = start_genuine()
    control = Blocking(Control(this_host(), SinkOptions.parse({"servers": server.url}).connection))
    control.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    server.kill()
    restart = threading.Timer(0.5, server.start)
    restart.start()
    assert control.stream_state("S").name == "S"
    restart.join()
    server.kill()
    short = SinkOptions.parse({"servers": server.url, "outageTimeout": "300ms"})
    with pytest.raises(ConnectionFailedError, match="Connection refused"):
        Blocking(Control(this_host(), short.connection)).stream_state("S")


def test_the_names_of_all_streams(start_genuine, make_stream):
    place = make_stream(start_genuine().url)
    for number in range(1100):  # more than a page
        name = f"MANY_{number}"
        body = {"name": name, "subjects": [f"many.{number}"], "storage": "memory"}
        place.control.request(f"STREAM.CREATE.{name}", body)
    assert len(place.control.stream_names()) == 1024
    assert len(set(place.control.all_stream_names())) == 1101
