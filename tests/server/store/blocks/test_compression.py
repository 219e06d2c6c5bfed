"""A store that compresses: what is on the disk, and what power loss, damage and full disks do."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from random import Random

import pytest
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import compression, erasure
from jetstream_server.store.blocks.compressed_block import (
    MAGIC,
    compress,
    inflate_whole,
    is_compressed,
)
from jetstream_server.store.blocks.compression import Compression, is_compressible
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.disk.cipher_disk import CipherDisk
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.keyring import Keyring
from jetstream_server.store.file import FileStore
from jetstream_server.store.ports import Limits

ROOT = Path("/store")
FOLDER = ROOT / "$G/streams/S/msgs"
SECRET = b"the secret payload"


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(7))


def open_store(disk, how="s2", cipher="", **options):
    if cipher:
        disk = CipherDisk(disk, Keyring(ROOT, disk, b"k" * 32, cipher))
    commit = GroupCommit(disk)
    options = {"block_bytes": 2000, "chunk_bytes": 300, **options}
    store = FileStore(FOLDER, commit, **options)
    store.compression = how
    return store, commit


def publish(store, count, payload=b"x" * 50):
    run = PubRun.of([(b"orders.%d" % (n % 3), b"", b"", payload) for n in range(count)])
    return store.append_run(run, 0, count, 5)


def messages(store):
    return {s: store.load(s) for s in range(1, store.last_seq + 1) if store.load(s) is not None}


def forms(disk):
    """Return of each block whether it is compressed."""
    names = [name for name in disk.names(FOLDER) if name.endswith(".blk")]
    blocks = sorted(names, key=lambda name: int(name.removesuffix(".blk")))
    return [is_compressed(disk.read(FOLDER / name)) for name in blocks]


def everything(disk):
    return b"".join(disk.read(FOLDER / name) for name in disk.names(FOLDER))


def test_a_block_is_compressed_when_it_is_sealed(disk):
    store, commit = open_store(disk)
    publish(store, 10)
    commit.drain()
    assert forms(disk) == [False]
    publish(store, 90)
    before = messages(store)
    assert commit.drain() == []
    assert forms(disk) == [True, True, True, True, False]
    assert messages(store) == before
    assert messages(open_store(disk)[0]) == before


def test_text_takes_a_third_of_the_space_and_answers_the_same(sim_disk_module):
    """The ratio of real blocks: JSON of the kind that streams are full of."""
    sizes, answers = {}, {}
    random = Random(3)
    rows = [
        b'{"order_id":%d,"customer":"c%05d","status":"%b","amount":%d.%02d,"currency":"EUR"}'
        % (n, random.randrange(50_000), random.choice([b"open", b"paid", b"shipped"]),
           random.randrange(900), random.randrange(100))
        for n in range(20_000)
    ]  # fmt: skip
    run = PubRun.of([(b"orders.%d" % (n % 7), b"", b"", row) for n, row in enumerate(rows)])
    for how in ("none", "s2"):
        disk = sim_disk_module.SimDisk(Random(1))
        store, commit = open_store(disk, how, block_bytes=500_000, chunk_bytes=65536)
        store.append_run(run, 0, run.count, 5)
        commit.drain()
        names = [name for name in disk.names(FOLDER) if name.endswith(".blk")]
        sizes[how] = sum(disk.size(FOLDER / name) for name in names[:-1])
        answers[how] = (store.state(), [store.load(s) for s in range(1, 20_001, 97)])
    assert answers["none"] == answers["s2"]
    assert sizes["s2"] < 0.45 * sizes["none"]


def test_noise_is_not_compressed(disk):
    store, commit = open_store(disk)
    for n in range(50):
        store.append(b"a", b"", Random(n).randbytes(150), 5)
    commit.drain()
    assert len(forms(disk)) > 3
    assert not any(forms(disk))


def test_compression_that_changes_holds_for_later_blocks(disk):
    store, commit = open_store(disk, "none")
    publish(store, 50)
    commit.drain()
    store.compression = "s2"
    publish(store, 50)
    commit.drain()
    store.compression = "none"
    publish(store, 50)
    commit.drain()
    found = forms(disk)
    assert found == sorted(found[:3]) + found[3:]
    assert found.count(True) == 2
    assert found[-1] is False
    for reopened in (store, open_store(disk, "none")[0], open_store(disk, "s2")[0]):
        assert list(messages(reopened)) == list(range(1, 151))


@pytest.mark.parametrize("after", ["none", "s2"])
def test_compaction_gives_a_block_the_form_of_the_day(disk, after):
    store, commit = open_store(disk, block_bytes=20_000)
    publish(store, 500)
    commit.drain()
    store.compression = after
    store.delete([s for s in range(200, 380) if s % 8])
    before = messages(store)
    commit.drain()
    assert forms(disk)[1] == (after == "s2")
    assert messages(store) == before
    assert messages(open_store(disk)[0]) == before


@pytest.mark.parametrize("cipher", ["", "aes"])
def test_power_lost_at_any_change_of_a_compression(sim_disk_module, cipher):
    for dark_in in range(14):
        for seed in range(4):
            disk = sim_disk_module.SimDisk(Random(seed))
            store, commit = open_store(disk, cipher=cipher)
            publish(store, 30)
            commit.drain()
            acked = messages(store)
            publish(store, 60)
            disk.dark_in = dark_in
            with contextlib.suppress(sim_disk_module.PowerLostError):
                commit.drain()
            disk.restart()
            store, commit = open_store(disk, cipher=cipher)
            assert store.offline == ""
            found = messages(store)
            assert {s: found[s] for s in acked} == acked
            assert list(found) == list(range(1, len(found) + 1))
            publish(store, 60)
            assert commit.drain() == []
            assert len(messages(open_store(disk, cipher=cipher)[0])) == len(found) + 60


def test_a_disk_that_is_full_at_the_start_costs_no_compressed_block(sim_disk_module):
    for change in range(8):
        disk = sim_disk_module.SimDisk(Random(change))
        store, commit = open_store(disk)
        publish(store, 60)
        commit.drain()
        before = messages(store)
        for name in disk.names(FOLDER):
            if name.endswith(".idx"):
                disk.remove(FOLDER / name)
        disk.fail_in, disk.fail_errno = change, errno.ENOSPC
        for _ in range(2):
            store, commit = open_store(disk)
            assert store.offline == "", change
            assert messages(store) == before
            for _ in range(3):
                commit.drain()
            assert messages(store) == before, change


@pytest.mark.parametrize("cipher", ["", "aes"])
def test_power_lost_at_any_change_of_an_erasure(sim_disk_module, cipher):
    redone = 0
    for dark_in in range(40):
        for seed in range(3):
            disk = sim_disk_module.SimDisk(Random(seed))
            store, commit = open_store(disk, cipher=cipher)
            publish(store, 60, SECRET * 3)
            commit.drain()
            before = messages(store)
            store.delete([2], erase=True)
            disk.dark_in = dark_in
            with contextlib.suppress(sim_disk_module.PowerLostError):
                commit.drain()
            disk.restart()
            is_begun = any(Path(n).suffix == erasure.REDO_SUFFIX for n in disk.names(FOLDER))
            redone += is_begun
            store, commit = open_store(disk, cipher=cipher)
            assert store.offline == ""
            found = messages(store)
            assert found in (before, {s: m for s, m in before.items() if s != 2})
            assert not (is_begun and 2 in found)
            assert not any(name.endswith(erasure.REDO_SUFFIX) for name in disk.names(FOLDER))
    assert redone > 10


@pytest.mark.parametrize("cipher", ["", "aes", "chacha"])
@pytest.mark.parametrize("how", ["s2", "none"])
@pytest.mark.parametrize("count", [60, 30])
def test_an_erasure_that_a_crash_cut_short_is_finished_when_there_is_room(
    sim_disk_module, cipher, how, count
):
    put_off = 0
    for dark_in in range(24):
        disk = sim_disk_module.SimDisk(Random(dark_in))
        store, commit = open_store(disk, how, cipher)
        publish(store, count, SECRET * 3)
        store.rest()
        store.rest()
        commit.drain()
        before = messages(store)
        store.delete([2], erase=True)
        disk.dark_in = dark_in
        with contextlib.suppress(sim_disk_module.PowerLostError):
            commit.drain()
        disk.restart()
        is_begun = any(Path(n).suffix == erasure.REDO_SUFFIX for n in disk.names(FOLDER))
        disk.capacity = 0
        for _ in range(2):
            store, commit = open_store(disk, how, cipher)
            assert store.offline == ""
            found = messages(store)
            assert found in (before, {s: m for s, m in before.items() if s != 2})
            assert not (is_begun and 2 in found)
            put_off += commit.drain() != []
            assert messages(store) == found
        disk.capacity = None
        assert commit.drain() == []
        assert store.offline == ""
        assert messages(store) == found
        publish(store, 40)
        assert commit.drain() == []
        assert not any(name.endswith(erasure.REDO_SUFFIX) for name in disk.names(FOLDER))
        again = messages(open_store(disk, how, cipher)[0])
        assert {s: again[s] for s in found} == found
    # In a block that is not compressed a message is erased where it stands, which needs no room.
    assert put_off > 5 if how == "s2" else not put_off


@pytest.mark.parametrize("drained", [True, False])
def test_no_byte_of_an_erased_message_is_left(disk, drained):
    store, commit = open_store(disk)
    publish(store, 3)
    store.append(b"orders.2", b"", SECRET, 5)
    publish(store, 60)
    if drained:
        commit.drain()
        assert forms(disk)[0]
        assert SECRET in everything(disk)
    overwritten, overwrite = [], disk.overwrite

    def spy(path, offset, head, stop):
        overwrite(path, offset, head, stop)
        overwritten.append(disk.read(path)[offset:stop])

    disk.overwrite = spy
    assert store.delete([4], erase=True) == 1
    assert store.delete([6], erase=True) == 1  # the block is a plain one by then
    expected = messages(store)
    assert commit.drain() == []
    assert not forms(disk)[0]
    assert SECRET not in everything(disk)
    assert len(overwritten) == 2
    assert overwritten[0] == bytes(len(overwritten[0])), "nothing is left of the compressed file"
    assert len(overwritten[0]) > 2000
    assert messages(store) == expected
    assert 4 not in expected
    assert messages(open_store(disk)[0]) == expected


@pytest.mark.parametrize("cipher", ["", "aes"])
def test_damage_takes_the_stream_offline_until_it_is_repaired(disk, cipher):
    store, commit = open_store(disk, cipher=cipher)
    publish(store, 100)
    commit.drain()
    path = FOLDER / "2.blk"
    sound = disk.read(path)
    store, commit = open_store(disk, cipher=cipher)
    disk.damage(path, len(sound) - 20)
    assert store.load(1) is not None
    with contextlib.suppress(Exception):
        messages(store)
    assert "damaged" in store.offline
    assert str(path) in store.offline
    assert "at byte" in store.offline
    commit.drain()
    store, commit = open_store(disk, cipher=cipher)
    assert str(path) in store.offline, "a restart does not hide it"
    disk.put(path, sound)
    store, _ = open_store(disk, cipher=cipher)
    assert store.offline == ""
    assert len(messages(store)) == 100
    assert any("sound again" in note for note in store.notes)


def test_a_file_of_another_size_is_looked_into_at_once(disk):
    store, commit = open_store(disk)
    publish(store, 100)
    commit.drain()
    path = FOLDER / "2.blk"
    disk.put(path, disk.read(path)[:-1])
    assert "a compressed chunk is damaged" in open_store(disk)[0].offline


def test_a_damaged_block_is_not_taken_for_one_that_was_never_written(disk):
    """The last block of all, without its index, and its first byte damaged."""
    store, commit = open_store(disk)
    publish(store, 30)
    commit.drain()
    for name in disk.names(FOLDER):
        if name != "1.blk":
            disk.remove(FOLDER / name)
    disk.damage(FOLDER / "1.blk", 0)
    store, _ = open_store(disk)
    assert "1.blk at byte 0" in store.offline
    assert disk.names(FOLDER)[0] == "1.blk"


@pytest.mark.parametrize("keeps_index", [True, False])
def test_a_compressed_block_is_not_written_on(disk, keeps_index):
    store, commit = open_store(disk)
    publish(store, 60)
    commit.drain()
    assert forms(disk) == [True, True, False]
    # The last block and the note of it never reached the disk.
    for name in ("3.blk", "3.idx", *(() if keeps_index else ("1.idx", "2.idx"))):
        disk.remove(FOLDER / name)
    for name in disk.names(FOLDER.parent):
        if name.startswith("high-water"):
            disk.remove(FOLDER.with_name(name))
    store, commit = open_store(disk)
    before = messages(store)
    assert 20 < len(before) < 60
    commit.drain()
    publish(store, 1)
    commit.drain()
    assert forms(disk) == [True, True, False]
    for _ in range(2):  # with the index made by the start before
        assert len(messages(open_store(disk)[0])) == len(before) + 1


def test_a_full_disk_leaves_a_block_plain(sim_disk_module):
    plain = 0
    for change in range(14):  # whichever change it is that finds no room
        disk = sim_disk_module.SimDisk(Random(change))
        store, commit = open_store(disk)
        publish(store, 20)
        commit.drain()
        publish(store, 40)
        disk.fail_in, disk.fail_errno = change, errno.ENOSPC
        commit.drain()
        disk.fail_in = None
        commit.drain()
        assert not commit.is_stalled
        assert store.offline == ""
        publish(store, 1)
        assert commit.drain() == []
        plain += not forms(disk)[0]
        for reopened in (store, open_store(disk)[0]):
            assert list(messages(reopened)) == list(range(1, 62))
    assert plain >= 2


def test_memory_stays_bounded_however_long_the_stream(disk):
    cache = ContentCache(disk, inflated_bytes_max=3000)
    store, commit = open_store(disk, cache=cache)
    publish(store, 3000)
    commit.drain()
    assert len(forms(disk)) > 100
    wanted = store.filter([b"orders.1"])
    for chosen in (None, wanted):
        sequence, found = 1, 0
        while sequence <= store.last_seq:
            window = store.window(chosen, sequence, 1000, 1 << 20)
            found, sequence = found + len(window), window.next_seq
            assert cache.inflated_bytes <= 3000 + 2048
        assert found == (3000 if chosen is None else 1000)
    for sequence in Random(1).sample(range(1, 3001), 300):
        assert store.load(sequence).sequence == sequence
        assert cache.inflated_bytes <= 3000 + 2048


def test_a_reader_that_jumps_inflates_little(disk):
    cache = ContentCache(disk)
    store, commit = open_store(disk, cache=cache, block_bytes=100_000)
    publish(store, 5000)
    commit.drain()
    store.load(700)
    assert cache.inflated_bytes <= 600
    assert len(store.window(None, 300, 5, 1 << 20)) == 5
    assert cache.inflated_bytes <= 2400
    store.load_next(store.filter([b"orders.2"]), 100)
    assert cache.inflated_bytes <= 3000


def test_limits_and_purges_of_compressed_blocks(disk):
    stores = []
    for how in ("none", "s2"):
        disk.remove_tree(FOLDER.parent)
        store, commit = open_store(disk, how)
        publish(store, 400)
        commit.drain()
        store.enforce(Limits(max_msgs=300), 9)
        store.enforce(Limits(max_bytes=20_000), 9)
        store.purge(store.filter([b"orders.1"]), 0, 10)
        store.enforce(Limits(max_msgs_per_subject=50), 9)
        store.truncate_front(store.first_seq + 3)
        answers = [store.state(), store.deleted(), store.last_sequences(None), messages(store)]
        commit.drain()
        again = open_store(disk)[0]
        assert [again.state(), again.deleted(), again.last_sequences(None)] == answers[:3]
        stores.append(answers)
    assert stores[0] == stores[1]


@pytest.mark.parametrize("size", [10, 200, 100_000, 1_000_000])
def test_noise_is_left_alone(size):
    assert not is_compressible(Random(1).randbytes(size))


@pytest.mark.parametrize("size", [200, 100_000, 1_000_000])
def test_text_is_compressible(size):
    assert is_compressible(bytes(size))


def test_the_work_is_done_where_the_parts_are_written(monkeypatch):
    calls = []
    monkeypatch.setattr(
        compression, "compress", lambda *given: calls.append(given) or compress(*given)
    )
    whole = b"some text" * 60
    work = Compression(whole, 64)
    file, index = work.file(), work.index([b"in", b"dex"])
    assert calls == []
    written = b"".join(file)
    assert len(calls) == 1
    assert inflate_whole(written, FOLDER) == whole
    assert b"".join(index) == b"index" + len(written).to_bytes(8, "little")
    assert len(file) == len(list(file)) == len(compress(whole, 64))
    assert file[-1] == MAGIC
