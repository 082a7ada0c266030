# SPDX-License-Identifier: Apache-2.0
"""Odd figures of drivers: where Cinder's scheduler refuses a volume, Tonnage does not place it."""

import pathlib
import re
import subprocess
from concurrent import futures
from typing import Any

import pytest

from tests.cinder import sites
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for
from tests.servers.cinder import HOME
from tonnage.extensions.cinder.scheduler import ledger_options

_PROGRAM = pathlib.Path(__file__).with_name("odd_figures.py")

#: One pool of 100 GiB, four schedulers.
SHAPE = Shape(backends=["b1"], pools=["a"], total_gb=100, schedulers=4, interval=5)


def test_no_odd_figure_lets_a_volume_in_that_cinder_refuses() -> None:
    sites.require_cinder()
    done = subprocess.run([HOME / "bin" / "python", _PROGRAM], capture_output=True, text=True, check=False)
    judged = re.search(r"^JUDGED (\d+) (\d+)$", done.stdout, re.MULTILINE)
    assert judged is not None, done.stdout + done.stderr[-2000:]
    verdicts, accepted = int(judged[1]), int(judged[2])
    assert verdicts > 2000
    assert 200 < accepted < verdicts


@pytest.mark.parametrize(
    ("stats", "native"),
    [({"free_capacity_gb": None}, False), ({"free_capacity_gb": None}, True), ({"total_capacity_gb": None}, False)],
)
def test_a_pool_without_a_capacity_takes_no_volume(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, stats: dict[str, Any], native: bool
) -> None:
    options = {"native_filters": ",".join(ledger_options.NATIVE_FILTERS)} if native else {}
    with sites.with_ledger(mariadb_server, rabbitmq_server, SHAPE, **options) as site:
        first = site.cinder.create(10)
        assert site.cinder.settled([first])[first]["status"] == "available"
        site.cinder.control("b1", stats=stats)
        [name] = stats
        wait_for(lambda: site.rows(f"SELECT {name} FROM pools") == [(None,)], f"the ledger has no {name}", 60)
        with futures.ThreadPoolExecutor(8) as clients:
            volume_ids = list(clients.map(site.cinder.create, [10] * 40))
        assert {volume["status"] for volume in site.cinder.settled(volume_ids).values()} == {"error"}
        assert site.stored("b1", "a") == 10
        [refusal] = site.why(volume_ids[0])["refusals"]
        assert "CapacityFilter refused 1, nearest real@b1#a" in refusal["message"]
