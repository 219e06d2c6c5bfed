import pytest
from jetstream_server.core.provenance import is_from_server, is_own_subject


class Somebody:
    echo = True
    answers = None

    def __init__(self, is_server):
        self.is_server = is_server

    def client_info(self, now):
        return {}

    def unanswered(self, run, start, stop):
        return 0


def test_who_has_sent_it():
    assert is_from_server(None) and is_from_server(Somebody(True))
    assert not is_from_server(Somebody(False))


@pytest.mark.parametrize(
    ("subject", "is_own"),
    [
        (b"$JSC.R.x", True), (b"$JS.M.x", True), (b"$JS.S.x", True), (b"$JS.FC.S.c.x", True),
        (b"$JS.API.INFO", False), (b"JSC.R.x", False), (b"$JS.MOVE", False),
    ],
)  # fmt: skip
def test_whither(subject, is_own):
    assert is_own_subject(subject) is is_own
