import pytest
from jetstream_server.node import reserved


@pytest.mark.parametrize(
    ("subject", "as_subject", "as_reply"),
    [
        (b"$NRG.x", True, False),
        (b"$NRG.", False, False),
        (b"$GR.x", True, True),
        (b"$JS.ACK.S.c", False, True),
        (b"$JSC.R.x", False, True),
        (b"_R_.", False, False),
        (b"_INBOX.x", False, False),
    ],
)
def test_what_is_reserved(subject, as_subject, as_reply):
    assert reserved.is_reserved(subject, reserved.SUBJECTS) is as_subject
    assert reserved.is_reserved(subject, reserved.REPLIES) is as_reply
