"""INFO lines against ones of nats-server 2.15.1 (ids shortened)."""

from __future__ import annotations

from typing import Any

from jetstream_server.protocol.info import Info

REQUIRED: dict[str, Any] = {
    "server_id": "NA3",
    "server_name": "n1",
    "version": "2.15.1",
    "git_commit": "b2fd3ef",
    "go": "go1.27.2",
    "host": "127.0.0.1",
    "max_payload": 1048576,
    "client_ip": "127.0.0.1",
    "api_lvl": 5,
    "xkey": "XDQ",
}


def test_the_first_info() -> None:
    info = Info(**REQUIRED, port=44021, jetstream=True, client_id=5, domain="hub")
    assert info.line() == (
        b'INFO {"server_id":"NA3","server_name":"n1","version":"2.15.1","proto":1,'
        b'"git_commit":"b2fd3ef","go":"go1.27.2","host":"127.0.0.1","port":44021,"headers":true,'
        b'"max_payload":1048576,"jetstream":true,"client_id":5,"client_ip":"127.0.0.1",'
        b'"domain":"hub","api_lvl":5,"xkey":"XDQ"} \r\n'
    )


def test_info_with_everything_a_cluster_adds() -> None:
    info = Info(
        **REQUIRED,
        port=43179,
        auth_required=True,
        client_id=6,
        nonce="OI0HyilfNV8LDvM",
        cluster="c1",
        connect_urls=("127.0.0.1:4222", "127.0.0.1:4223"),
        connect_info=True,
        remote_account="SYS",
        acc_is_sys=True,
    )
    assert info.line() == (
        b'INFO {"server_id":"NA3","server_name":"n1","version":"2.15.1","proto":1,'
        b'"git_commit":"b2fd3ef","go":"go1.27.2","host":"127.0.0.1","port":43179,"headers":true,'
        b'"auth_required":true,"max_payload":1048576,"client_id":6,"client_ip":"127.0.0.1",'
        b'"nonce":"OI0HyilfNV8LDvM","cluster":"c1",'
        b'"connect_urls":["127.0.0.1:4222","127.0.0.1:4223"],"connect_info":true,'
        b'"remote_account":"SYS","acc_is_sys":true,"api_lvl":5,"xkey":"XDQ"} \r\n'
    )


def test_what_is_always_there_stays_when_empty() -> None:
    fields = {**REQUIRED, "host": "", "max_payload": 0}
    wire = Info(**fields, port=0, headers=False).to_wire()
    assert wire["host"] == ""
    assert wire["port"] == 0
    assert wire["max_payload"] == 0
    assert wire["headers"] is False
    assert "jetstream" not in wire
    assert "connect_urls" not in wire
