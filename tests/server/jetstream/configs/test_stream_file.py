import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.configs.stream_file import load_config, save_config
from jetstream_server.store.vault import MemoryVault

CREATED = 1_700_000_000 * SECOND + 5


@pytest.fixture
def folder():
    return MemoryVault().folder("S", memory=False)


def test_a_config_comes_back_as_it_was(folder):
    config = StreamConfig(name="S", subjects=["s.>"], max_msgs=5, metadata={"a": "b"})
    save_config(folder, config, CREATED)
    assert load_config("S", folder) == (config, CREATED)


def test_fields_of_a_newer_server_are_no_reason_to_refuse(folder):
    text = b'{"config":{"name":"S","new":{"x":1}},"created":"2026-01-02T03:04:05Z","more":1}'
    folder.config().save(text)
    assert load_config("S", folder)[0].name == "S"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "is missing"),
        (b"{", "can not be read"),
        (b'{"config":{"name":"S"}}', "can not be read"),
        (b'{"config":{"name":"T"},"created":"2026-01-02T03:04:05Z"}', "that of stream T"),
    ],
)
def test_what_is_no_config(folder, data, text):
    if data is not None:
        folder.config().save(data)
    with pytest.raises(StoreError, match=text):
        load_config("S", folder)
