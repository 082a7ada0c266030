# SPDX-License-Identifier: Apache-2.0
"""Faults of a Cinder with Tonnage as its scheduler: no pool overflows, and in quiet nothing has drifted.

``TONNAGE_CINDER_FAULTS`` is the number of faults: 300 take most of an hour. ``TONNAGE_CINDER_SEED`` chooses them.
"""

import os

import pytest

from tests.cinder import sites, unreliable_bus
from tests.cinder.fault_run import PLACES, TOTAL, FaultRun, Outcome, no_reason, remove_all
from tests.cinder.operations import action
from tests.cinder.row_watch import Row
from tests.cinder.sites import Site
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

FAULTS = int(os.environ.get("TONNAGE_CINDER_FAULTS", "20"))

SEED = int(os.environ.get("TONNAGE_CINDER_SEED", "1"))

SHAPE = Shape(backends=["b1", "b2"], pools=["a"], total_gb=TOTAL, interval=5, schedulers=2)


def reason(site: Site, row: Row) -> str:
    """Return the reason why a request has no effect, as ``tonnage why`` shows it."""
    found = site.rows(f"SELECT message FROM refusals WHERE volume_id = '{row.id}' AND code = 'undecided'")
    open_ends = site.rows(f"SELECT verb FROM claims WHERE volume_id = '{row.id}' AND state = 'pending'")
    if found:
        return str(found[0][0])
    return f"the {open_ends[0][0]} was sent to cinder-volume, and its end was not seen" if open_ends else ""


def report(outcome: Outcome) -> None:
    print(f"{sum(outcome.faults.values())} faults: {dict(outcome.faults)}")
    print(outcome)
    for row, why in outcome.lost:
        print(f"  {row.id} {row.status} {row.host}: {why}")


def agree(site: Site) -> None:
    """Wait until the ledger agrees with the rows of Cinder, and has the figures of the files."""

    def allocated() -> dict[str, int]:
        counted = dict.fromkeys(PLACES, 0)
        for volume in site.cinder.volumes().values():
            if volume["os-vol-host-attr:host"]:
                counted[volume["os-vol-host-attr:host"]] += volume["size"]
        return counted

    def found() -> bool:
        rows, counted = site.rows("SELECT name, allocated_capacity_gb, provisioned_capacity_gb FROM pools"), allocated()
        return {row[0]: (row[1], row[2]) for row in rows} == {
            pool: (counted[pool], site.stored(backend, "a")) for pool, backend in PLACES.items()
        }

    wait_for(found, "the ledger agrees with rows and files", 90)


def test_faults(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    options = {"claim_lease": "10", "undecided_after": "15"}
    with sites.with_ledger(mariadb_server, rabbitmq_server, SHAPE, **options) as site:
        run = FaultRun(site.cinder, mariadb_server, rabbitmq_server, SEED, lambda row: reason(site, row))
        run.play(FAULTS)
        outcome = run.outcome
        report(outcome)
        assert max(outcome.most.values()) <= TOTAL
        assert outcome.placed_again == {}
        assert outcome.unnamed == []
        agree(site)
        remove_all(site.cinder)
        for pool in PLACES:
            site.settled(pool, 0)
        # What a killed cinder-volume left on the storage is in the figures.
        agree(site)


def test_a_lost_request_is_named(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=TOTAL)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape, undecided_after="2") as site:
        present = site.cinder.create(20)
        site.cinder.settled([present])
        site.cinder.end_service("scheduler0")
        volume_id = site.cinder.create(10)
        kind = site.cinder.request("POST", "/types", {"volume_type": {"name": "other"}})["volume_type"]["id"]
        action(site.cinder, present, "os-retype", {"new_type": kind, "migration_policy": "never"})
        unreliable_bus.lose_requests(site.cinder.bus)
        site.cinder.start_scheduler()
        wait_for(lambda: reason(site, Row(volume_id, "creating", None, None)), "the request is named")
        [named] = site.why(volume_id)["refusals"]
        assert named["message"].startswith("No decision on create of a volume of 10 GiB for ")
        wait_for(lambda: reason(site, Row(present, "retyping", None, None)), "the retype is named")
        [named] = site.why(present)["refusals"]
        assert named["message"].startswith("No decision on retype of a volume of 20 GiB for ")


def test_a_retype_within_its_pool_is_decided(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=TOTAL)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape, poll_interval="5") as site:
        present = site.cinder.create(10)
        site.cinder.settled([present])
        site.settled("real@b1#a", 10)
        kind = site.cinder.request("POST", "/types", {"volume_type": {"name": "other"}})["volume_type"]["id"]
        action(site.cinder, present, "os-retype", {"new_type": kind, "migration_policy": "never"})
        claims = f"SELECT size_gb FROM claims WHERE volume_id = '{present}' AND verb = 'migrate'"
        wait_for(lambda: site.rows(claims) == [(0,)], "the retype is decided")
        wait_for(lambda: site.cinder.volumes()[present]["volume_type"] == "other", "the volume has the type")
        wait_for(lambda: site.rows(claims) == [], "the claim has ended")
        site.settled("real@b1#a", 10)


@pytest.mark.heavy
@pytest.mark.skipif("TONNAGE_CINDER_FAULTS" not in os.environ, reason="TONNAGE_CINDER_FAULTS is not set")
def test_faults_of_stock_cinder(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    """Run the same faults with Cinder's own schedulers, to compare the requests that are lost."""
    with sites.stock(mariadb_server, rabbitmq_server, SHAPE) as cinder:
        run = FaultRun(cinder, mariadb_server, rabbitmq_server, SEED, no_reason)
        run.play(FAULTS)
        report(run.outcome)
        assert max(run.outcome.most.values()) > TOTAL
