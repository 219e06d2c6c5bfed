"""What a server alone has nothing of."""

from __future__ import annotations

from jetstream_server.monitor.clusterz import gatewayz, ipqueuesz, leafz, raftz, routez


def test_nothing_is_shown_as_lists_that_are_empty(node, now):
    assert (routez(node, now)["num_routes"], routez(node, now)["routes"]) == (0, [])
    assert (leafz(node, now)["leafnodes"], leafz(node, now)["leafs"]) == (0, [])
    assert gatewayz(node, now)["outbound_gateways"] == gatewayz(node, now)["inbound_gateways"] == {}
    assert ipqueuesz(node, now) == raftz(node, now) == {}


def test_each_names_the_server(node, now):
    for view in (routez, gatewayz, leafz):
        assert view(node, now)["server_id"] == node.server_id
