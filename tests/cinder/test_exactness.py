# SPDX-License-Identifier: Apache-2.0
"""Tonnage as the scheduler of a stock cinder-api and cinder-volume, on MariaDB and RabbitMQ: no pool overflows."""

from concurrent import futures

import pytest

from tests.cinder import sites
from tests.servers import Cinder, MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

POOL = "real@b1#a"

#: One pool of 100 GiB.
ONE_POOL = Shape(backends=["b1"], pools=["a"], total_gb=100, interval=5)


def statuses(cinder: Cinder, volume_ids: list[str]) -> list[str]:
    return [each["status"] for each in cinder.settled(volume_ids).values()]


def during_a_slow_look(cinder: Cinder) -> list[str]:
    """Create 10 GiB during a look that does not see it, then request 95 GiB after its report."""
    looks = cinder.looks("b1")
    cinder.control("b1", look_seconds=6)
    wait_for(lambda: cinder.looks("b1") > looks, "a look has begun")
    first = cinder.create(10)
    cinder.settled([first])
    seen = cinder.looks("b1")
    wait_for(lambda: cinder.looks("b1") > seen, "its report was sent")
    second = cinder.create(95)
    cinder.settled([first, second])
    cinder.control("b1")
    return [first, second]


def test_stock_cinder_overflows_a_pool_by_a_slow_look(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    with sites.stock(mariadb_server, rabbitmq_server, ONE_POOL) as cinder:
        assert statuses(cinder, during_a_slow_look(cinder)) == ["available", "available"]


def test_a_slow_look_does_not_overflow_a_pool(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    with sites.with_ledger(mariadb_server, rabbitmq_server, ONE_POOL) as site:
        first, second = during_a_slow_look(site.cinder)
        volumes = site.cinder.volumes()
        assert (volumes[first]["status"], volumes[second]["status"]) == ("available", "error")
        assert site.stored("b1", "a") == 10
        [refusal] = site.why(second)["refusals"]
        assert f"CapacityFilter refused 1, nearest {POOL} has headroom 90.00 GiB" in refusal["message"]
        site.settled(POOL, 10)


@pytest.mark.parametrize("schedulers", [2, 4])
def test_several_schedulers_place_exactly_what_fits(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, schedulers: int
) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=100, schedulers=schedulers)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as site:
        with futures.ThreadPoolExecutor(8) as clients:
            volume_ids = list(clients.map(site.cinder.create, [5] * 30))
        found = statuses(site.cinder, volume_ids)
        assert (found.count("available"), found.count("error")) == (20, 10)
        assert site.stored("b1", "a") == 100
        site.settled(POOL, 100)
