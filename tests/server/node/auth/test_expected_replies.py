"""Answers that are allowed because somebody asked."""

from __future__ import annotations

from jetstream_server.node.auth.expected_replies import ExpectedReplies, ResponseRules, replies_in

FRAMES = (
    b"MSG a 1 r.1 5\r\nhello\r\n"
    b"MSG a 1 5\r\nMSG a\r\n"
    b"HMSG a 1 r.2 12 14\r\nNATS/1.0\r\n\r\n\r\n\r\n"
    b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b"MSG a 1 r.3 0\r\n\r\n"
)


def test_replies_are_read_from_frames():
    assert list(replies_in(FRAMES)) == [b"r.1", b"r.2", b"r.3"]
    assert list(replies_in(b"")) == []


def test_each_question_may_be_answered_so_often():
    expected = ExpectedReplies(ResponseRules(messages_max=2))
    expected.expect(FRAMES, 100)
    assert [expected.take(b"r.1", 101) for _ in range(4)] == [True, True, False, False]
    assert expected.take(b"r.2", 10**18)
    assert not expected.take(b"r.9", 101)


def test_answers_without_limit():
    expected = ExpectedReplies(ResponseRules(messages_max=-1))
    expected.expect(FRAMES, 0)
    assert all(expected.take(b"r.3", now) for now in range(100))


def test_a_question_expires():
    expected = ExpectedReplies(ResponseRules(messages_max=-1, expires_ns=10))
    expected.expect(FRAMES, 100)
    assert expected.take(b"r.1", 110)
    assert not expected.take(b"r.1", 111)
    assert not expected.take(b"r.1", 105)


def test_asked_again_it_counts_anew():
    expected = ExpectedReplies(ResponseRules())
    expected.expect(FRAMES, 0)
    assert expected.take(b"r.1", 1)
    expected.expect(FRAMES, 2)
    assert expected.take(b"r.1", 3)


def test_the_oldest_questions_are_forgotten():
    expected = ExpectedReplies(ResponseRules())
    for number in range(5000):
        expected.expect(b"MSG a 1 r.%d 0\r\n\r\n" % number, number)
    assert len(expected) == 4096
    assert not expected.take(b"r.1", 5000)
    assert expected.take(b"r.4999", 5000)
