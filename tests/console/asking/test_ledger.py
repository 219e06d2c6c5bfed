"""What a ledger says, on both servers: read once, then only what came."""

from __future__ import annotations

import asyncio
import json

import pytest
from jetstream_console.asking import ledger
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.ledger import LedgerLook


def test_writes_batches_and_rows_a_second(run, connected, name):
    async def work():
        async with connected() as world:
            look = LedgerLook(world.api, name)
            assert (await look.look()).rows == ()
            made = await world.js.create_key_value(bucket=name)

            async def put(key, **entry):
                await made.put(key, json.dumps(entry).encode())

            await put("query.q1.ORDERS", version=4, rows=100)
            await put("query.q1.ORDERS.0", version=5, state="done")
            await put("query.q1.ORDERS.1", version=5, state="started")
            await made.put("query.q2.ORDERS", b"<script>")
            await made.put("other", b"{}")
            [row] = (await look.look()).rows
            assert (row.kind, row.name, row.stream, row.batch) == ("query", "q1", "ORDERS", 4)
            assert (row.begun, row.rows, row.rate) == (5, 100, None)
            await put("query.q1.ORDERS", version=5, rows=50)
            [row] = (await look.look()).rows
            assert (row.batch, row.begun, row.rows) == (5, None, 50) and row.rate > 0
            await put("query.q1.ORDERS", version=9, rows=50)
            [again] = (await look.look()).rows
            assert (again.batch, again.rate) == (9, row.rate)
            await made.purge("query.q1.ORDERS")
            [row] = (await look.look()).rows
            assert (row.batch, row.begun) == (None, 5)
            await world.js.delete_key_value(name)
            assert (await look.look()).rows == ()
            made = await world.js.create_key_value(bucket=name)
            assert (await look.look()).rows == ()
        async with connected(user="few") as world:
            assert (await LedgerLook(world.api, "none").look()).rows == ()

    run(work())


def test_a_long_one_is_read_in_several_looks(run, connected, name, monkeypatch):
    monkeypatch.setattr(ledger, "_LOOK", 20)
    monkeypatch.setattr(ledger, "_STEP", 10)

    async def work():
        async with connected() as world:
            made = await world.js.create_key_value(bucket=name)
            for number in range(50):
                await made.put(f"txn.t{number}.ORDERS", b'{"version": 1, "rows": 1}')
            look = LedgerLook(world.api, name)
            shares = []
            while not shares or shares[-1] < 1:
                # Two pages that look at a time see it once.
                found, other = await asyncio.gather(look.look(), look.look())
                shares += [found.share, other.share]
                assert len(other.rows) == min(50, 20 * len(shares))
            assert shares == sorted(shares) and 0 < shares[0] < 0.5 and len(shares) == 4

    run(work())


def test_a_name_that_is_none_is_refused():
    with pytest.raises(RefusedError):
        LedgerLook(None, "a.b")
