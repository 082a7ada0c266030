# SPDX-License-Identifier: Apache-2.0
"""Two active volume services of one cluster, each with its own count of its volumes."""

from concurrent import futures

from tests.cinder import sites
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

POOL = "both@b1#a"


def test_an_active_active_cluster_places_exactly_what_fits(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=100, schedulers=2, cluster="both")
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as site:
        with futures.ThreadPoolExecutor(8) as clients:
            volume_ids = list(clients.map(site.cinder.create, [10] * 14))
        volumes = site.cinder.settled(volume_ids)
        found = [each["status"] for each in volumes.values()]
        assert (found.count("available"), found.count("error")) == (10, 4)
        assert site.stored("b1", "a") == 100
        site.settled(POOL, 100)
        for volume_id in volume_ids[:7]:
            site.cinder.request("POST", f"/volumes/{volume_id}/action", {"os-force_delete": {}})
        wait_for(lambda: len(site.cinder.volumes()) == 7, "seven volumes are gone")
        site.settled(POOL, site.stored("b1", "a"))
