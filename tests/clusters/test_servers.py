# SPDX-License-Identifier: Apache-2.0
"""The clusters behave as the other tests expect."""

from tests import servers
from tests.servers import base


def test_a_galera_cluster_survives_the_loss_of_nodes(galera: servers.Galera) -> None:
    galera.execute("CREATE TABLE tonnage.kept (id INT PRIMARY KEY)", "INSERT INTO tonnage.kept VALUES (1)")
    active = galera.require_active_node()
    galera.kill_node(active)
    base.wait_for(lambda: galera.active_node() not in (None, active), "another node")
    galera.execute("INSERT INTO tonnage.kept VALUES (2)")
    galera.start_node(active)
    galera.network.cut(active)
    base.wait_for(lambda: not galera.is_primary(active), "the end of the cut node's membership")
    galera.network.mend(active)
    galera.wait_for_node(active)
    galera.kill()
    galera.start()
    assert galera.execute("SELECT id FROM tonnage.kept ORDER BY id") == [(1,), (2,)]


def test_a_rabbitmq_cluster_survives_the_loss_of_nodes(brokers: servers.RabbitMQCluster) -> None:
    brokers.kill_node(0)
    brokers.start_node(0)
    brokers.network.cut(1)
    base.wait_for(lambda: not brokers.node_ready(1), "the end of the minority")
    brokers.network.mend(1)
    brokers.wait_for_node(1)
    brokers.kill()
    brokers.start()
    assert all(address in brokers.control(2, "cluster_status") for address in brokers.network.addresses)


def test_a_patroni_cluster_fails_over(patroni: servers.Patroni) -> None:
    patroni.execute("CREATE TABLE kept (id INT PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
    first = patroni.require_primary()
    assert first not in patroni.synchronous_standbys()
    patroni.switch_over(first)
    second = base.wait_for(lambda: _another_primary(patroni, first), "another primary")[0]
    patroni.execute("INSERT INTO kept VALUES (2)")
    patroni.restore_node(first)
    patroni.kill_node(second)
    base.wait_for(lambda: _another_primary(patroni, second), "another primary")
    patroni.execute("INSERT INTO kept VALUES (3)")
    patroni.restore_node(second)
    patroni.kill()
    patroni.start()
    assert patroni.execute("SELECT id FROM kept ORDER BY id") == [(1,), (2,), (3,)]


def _another_primary(patroni: servers.Patroni, node: int) -> list[int]:
    """Return the primary in a list, which is empty if the primary is this node or if there is none."""
    return [one for one in [patroni.primary()] if one not in (node, None)]
