# SPDX-License-Identifier: Apache-2.0
"""The web page, the command and SQL show the same figures of pools while volumes are made, and at rest."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, run_program
from tests.servers.base import wait_for

BACKENDS = {
    name: {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 40, "filesystem_provisioning": "thin"}
    for name in ("one", "two", "three")
}
GIB = 2**30
VOLUMES = 1000


class Figures(NamedTuple):
    """Sums over all pools in GiB; ``promised`` contains the claims in flight."""

    total: float
    allocated: float
    in_flight: float
    promised: float


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    """A deployment whose reports are so rare that the page, which is kept for 15 seconds, has volumes in flight."""
    with deploy(BACKENDS, backend_stats_polling_interval=40) as deployment:
        yield deployment.start()


def of_sql(tonnage: Deployment) -> Figures:
    promised = "provisioned_capacity_gb + in_flight_gb"
    [row] = tonnage.sql(
        f"SELECT SUM(total_capacity_gb), SUM(allocated_capacity_gb), SUM(in_flight_gb), SUM({promised}) FROM pools"
    )
    return Figures(*map(float, row))


def of_page(tonnage: Deployment) -> Figures:
    pools = tonnage.rest.get("capacity-overview/pools")["pools"]
    keys = ("total_gb", "allocated_gb", "in_flight_gb", "promised_gb")
    return Figures(*(sum(pool[key] for pool in pools) for key in keys))


def of_command(tonnage: Deployment) -> Figures:
    rows = json.loads(run_program("tonnage", "pools", "-f", "json", "--config-file", tonnage.conf).output)
    total, allocated, in_flight, provisioned = (
        sum(row[f"{key}_bytes"] for row in rows) / GIB for key in ("total", "allocated", "in_flight", "provisioned")
    )
    return Figures(total, allocated, in_flight, provisioned + in_flight)


@pytest.mark.heavy
@on_one_database
def test_page_command_and_sql_agree_while_a_thousand_volumes_are_made(tonnage: Deployment) -> None:
    shown = (of_page, of_command)
    largest = dict.fromkeys(shown, 0.0)

    def look() -> None:
        """Read all figures: those of SQL are the bounds of the others, as no volume is deleted meanwhile."""
        before = of_sql(tonnage)
        found = {show: show(tonnage) for show in shown}
        after = of_sql(tonnage)
        for show, figures in found.items():
            largest[show] = max(largest[show], figures.in_flight)
            assert 0 <= figures.in_flight <= figures.allocated <= after.allocated, show
            assert figures.promised <= after.promised, show
        assert before.allocated <= found[of_command].allocated

    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(tonnage.rest.request_volume, 1) for _ in range(VOLUMES)]
        while not all(answer.done() for answer in answers):
            look()
        assert {answer.result().status_code for answer in answers} == {202}
    wait_for(lambda: look() or min(largest.values()), "page and command have shown volumes in flight")
    tonnage.check_at_rest()
    at_rest = Figures(3 * 10, VOLUMES, 0, VOLUMES)
    assert of_sql(tonnage) == of_command(tonnage) == at_rest
    wait_for(lambda: of_page(tonnage) == at_rest, "the page shows the ledger at rest")
    promised = tonnage.rest.get("capacity-overview")["promised"]
    assert (promised["promised_gb"], promised["in_flight_gb"]) == (VOLUMES, 0)
