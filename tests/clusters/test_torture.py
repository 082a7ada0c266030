# SPDX-License-Identifier: Apache-2.0
"""Short rounds of the torture on clusters, with failures of their nodes; see the chapter "Torture"."""

import pytest

from tests import servers, suites
from tests.functional.test_torture import torture


@pytest.mark.parametrize(("database", "kinds"), [("galera", 17), ("mariadb", 14)])
def test_failures_of_nodes_break_no_invariant(database: str, kinds: int) -> None:
    for server in (servers.RabbitMQCluster, servers.Galera):
        if not server.installed():
            suites.cannot_run(server.name, f"{server.name} needs root and the packages {server.packages}")
    figures = torture(
        database,
        900,
        brokers=3,
        schedulers=2,
        agents=3,
        pools=9,
        requests=400,
        threads=16,
        faults=kinds,
        seed=1,
    )
    assert figures["requests"] == 400
    assert set(figures["faults"].values()) == {1}
    print(f"longest time in which no request was granted: {figures['longest_gap_s']} s")
