"""What the store writes is not to be read without the key, and comes back as it was written."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.store.disk.cipher_disk import FRAME_BYTES, HEADER_BYTES, CipherDisk
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.keyring import Keyring, open_keyring
from jetstream_server.store.vault import FileVault

ROOT = Path("/store")
PATH = ROOT / "$G/streams/S/msgs/1.blk"


@pytest.fixture(params=["chacha", "aes"])
def cipher(request):
    return request.param


@pytest.fixture
def plain(sim_disk_module):
    return sim_disk_module.SimDisk(Random(7))


@pytest.fixture
def disk(plain, cipher):
    return CipherDisk(plain, Keyring(ROOT, plain, b"k" * 32, cipher))


def write(disk, pieces):
    disk.make_folder(PATH.parent)
    handle, _ = disk.open(PATH)
    offset = 0
    for piece in pieces:
        disk.write(handle, memoryview(piece), offset)
        offset += len(piece)
    disk.sync(handle)
    return handle


def test_pieces_come_back_whole(disk, plain):
    pieces = [b"first ", b"", b"second " * 100, b"third"]
    handle = write(disk, pieces)
    whole = b"".join(pieces)
    assert disk.read(PATH) == disk.map(PATH) == whole
    assert disk.size(PATH) == len(whole)
    assert b"second" not in plain.read(PATH)
    disk.close(handle)
    handle, made = disk.open(PATH)
    assert not made
    disk.write(handle, memoryview(b"more"), len(whole))
    assert disk.read(PATH) == whole + b"more"
    disk.truncate(PATH, 9)
    assert disk.read(PATH) == whole[:9] and disk.size(PATH) == 9


def test_a_range_written_again_counts_as_written_last(disk):
    handle = write(disk, [b"abcdef"])
    disk.write(handle, memoryview(b"XY"), 2)
    assert disk.read(PATH) == b"abXYef"


def test_a_file_that_is_not_there(disk):
    assert disk.read(PATH) is None
    for ask in (disk.map, disk.size):
        with pytest.raises(FileNotFoundError):
            ask(PATH)
    with pytest.raises(FileNotFoundError):
        disk.truncate(PATH, 0)


def test_every_cut_leaves_the_pieces_before_it(disk, plain):
    write(disk, [b"first", b"second"])
    raw = plain.read(PATH)
    frame = HEADER_BYTES + FRAME_BYTES + len("first") + 16
    for cut in range(len(raw)):
        plain.put(PATH, raw[:cut])
        found = disk.read(PATH)
        if cut < frame:
            assert not found.strip(b"\0")
        else:
            assert found[:5] == b"first" and not found[5:].strip(b"\0")
        assert (len(found) == 5) == (cut == frame) or cut < frame


def test_every_damaged_byte_reads_as_zeros_and_spares_the_other_pieces(disk, plain):
    write(disk, [b"first", b"second", b"third"])
    raw = plain.read(PATH)
    first = HEADER_BYTES + FRAME_BYTES + len("first") + 16
    second = first + FRAME_BYTES + len("second") + 16
    for at in range(first, second):
        plain.put(PATH, raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        assert disk.read(PATH) == b"first" + bytes(6) + b"third"


def test_a_file_of_another_name_is_not_accepted(disk, plain):
    write(disk, [b"first"])
    other = PATH.with_name("2.blk")
    plain.put(other, plain.read(PATH))
    assert not disk.read(other).strip(b"\0")


def test_the_old_content_cannot_be_decrypted_after_an_erasure(disk, plain):
    disk.close(write(disk, [b"abc", b"secret", b"def"]))
    old = plain.open(PATH)[0]
    disk.overwrite(PATH, 3, b"S", 9)
    assert disk.read(PATH) == b"abcS" + bytes(5) + b"def"
    assert bytes(old.content[:HEADER_BYTES]) == bytes(HEADER_BYTES)


def test_a_removed_stream_takes_its_key_along(disk, plain):
    write(disk, [b"abc"])
    disk.set_aside(PATH.parents[1])
    write(disk, [b"def"])
    assert CipherDisk(plain, Keyring(ROOT, plain, b"k" * 32, "aes")).read(PATH) == b"def"


def test_no_plaintext_is_in_any_file(tmp_path, cipher):
    words = (b"PAYLOAD-in-the-clear", b"SUBJECT-in-the-clear", b"HEADER-in-the-clear",
             b"CONSUMER-in-the-clear", b"CONFIG-in-the-clear")  # fmt: skip
    plain = OsDisk()

    def open_vault():
        disk = CipherDisk(plain, open_keyring(tmp_path, plain, "secret", cipher=cipher))
        commit = GroupCommit(disk)
        vault = FileVault(tmp_path, "$G", commit, disk, block_bytes=20_000)
        return vault.folder("S", memory=False), commit

    folder, commit = open_vault()
    store = folder.messages()
    for number in range(500):
        headers = b"NATS/1.0\r\nA: %b\r\n\r\n" % words[2]
        store.append(words[1] + b".%d" % number, headers, words[0] * 3, number)
        if number % 20 == 0:
            commit.drain()
    folder.config().save(b'{"name": "%b"}' % words[4])
    for file in folder.consumer("C"):
        file.save(b'{"name": "%b"}' % words[3])
    store.delete(range(5, 400))
    store.close()
    assert commit.drain() == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert {path.suffix for path in files} >= {".blk", ".idx", ".json"}
    for path in files:
        content = path.read_bytes()
        for word in words:
            assert word not in content, path
    folder, commit = open_vault()
    assert folder.consumers() == ["C"]
    assert words[4] in folder.config().load()
    message = folder.messages().load(500)
    assert message.payload == words[0] * 3
    assert folder.messages().state().messages == 105
