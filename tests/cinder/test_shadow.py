# SPDX-License-Identifier: Apache-2.0
"""The shadow beside stock cinder-api, cinder-scheduler and cinder-volume, on MariaDB and RabbitMQ."""

import contextlib
import itertools
import os
import pathlib
import random
import re
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tests import suites
from tests.cinder.watching import Watch
from tests.servers import Cinder, MariaDB, PostgreSQL, RabbitMQ, Shape
from tests.servers.base import wait_for

#: Seconds between two reports of a backend.
INTERVAL = 4

#: The size and the limit of the only pool, in GiB.
TOTAL, LIMIT = 1000, 2000

POOL = "real@b1#a"

#: Decisions of the mixed run; the volumes that are created at a time, and the times that half of them are extended.
DECISIONS = int(os.environ.get("TONNAGE_CINDER_DECISIONS", "300"))
BATCH = max(30, min(100, DECISIONS // 30))
GROWTHS = max(1, DECISIONS // 1000)

#: Requests to the API at a time.
CLIENTS = 4


#: The documentation, which has the accounts of the shadow.
_PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "cinder-watch.rst").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Site:
    """A Cinder with the addresses of its database and bus for the shadow, and the name of its virtual host."""

    cinder: Cinder
    database: str
    bus: str
    virtual_host: str


def _database_account(url: str) -> str:
    """Return the URL with an account that the statements of the documentation for this database make."""
    parsed = sa.make_url(url)
    block = _PAGE.split(".. code-block:: sql\n")[2 if parsed.get_backend_name() == "postgresql" else 1]
    statements = re.findall(r"^   ((?:CREATE|GRANT) [^;]*);", block, re.M)
    assert len(statements) >= 3
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            local = statement.replace("'%'", "'localhost'").replace("cinder.", f"{parsed.database}.")
            connection.exec_driver_sql(local.replace("DATABASE cinder", f"DATABASE {parsed.database}"))
    engine.dispose()
    return parsed.set(username="tonnage_shadow", password="SECRET").render_as_string(hide_password=False)  # noqa: S106


def _bus_account(server: RabbitMQ, url: str) -> str:
    """Return the URL with an account that has the rights of the documentation."""
    permissions = re.findall(r"'(\^[^']*)'", _PAGE)
    assert len(permissions) == 3
    user = f"shadow_{secrets.token_hex(4)}"
    server.control("add_user", user, "secret")
    server.control("set_permissions", "-p", url.rpartition("/")[2], user, *permissions)
    return url.replace("guest:guest@", f"{user}:secret@")


@contextlib.contextmanager
def _site(server: MariaDB | PostgreSQL, rabbitmq: RabbitMQ, shape: Shape) -> Iterator[Site]:
    if not Cinder.installed():
        suites.cannot_run("Cinder", f"Cinder is not installed; install {Cinder.packages}")
    with (
        server.database() as url,
        rabbitmq.virtual_host() as bus,
        # Cinder has the older driver for PostgreSQL, and its migrations need the older character set of MariaDB.
        Cinder(url.replace("+psycopg:", "+psycopg2:").replace("=utf8mb4", "=utf8"), bus, shape) as cinder,
    ):
        yield Site(cinder, _database_account(url), _bus_account(rabbitmq, bus), bus.rpartition("/")[2])


@pytest.fixture(scope="module")
def site(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> Iterator[Site]:
    """A Cinder with one pool of 1000 GiB, ratio 2."""
    shape = Shape(backends=["b1"], pools=["a"], total_gb=TOTAL, ratio="2.0", interval=INTERVAL)
    with _site(mariadb_server, rabbitmq_server, shape) as found:
        yield found


@pytest.fixture(scope="module")
def watch(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with Watch(tmp_path_factory.mktemp("shadow"), site.database, site.bus) as found:
        _reports(site.cinder, 3)
        yield found


@pytest.fixture
def empty(site: Site) -> Iterator[None]:
    """Remove the volumes of a test, and let the reports contain that."""
    yield
    site.cinder.control("b1")
    _clear(site.cinder)


def _clear(cinder: Cinder) -> None:
    with futures.ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(partial(_delete, cinder), cinder.volumes()))
    wait_for(lambda: not cinder.volumes(), "all volumes are gone")
    # cinder-volume counts a deletion after the row is gone. Stopped in between, it would report the capacity on.
    wait_for(lambda: _allocated(cinder) == 0, "all deletions are counted")
    _reports(cinder, 3)


def _allocated(cinder: Cinder) -> float:
    """Return the allocated capacity of all pools in GiB, as cinder-volume has counted it."""
    pools = cinder.request("GET", "/scheduler-stats/get_pools?detail=True")["pools"]
    return float(sum(pool["capabilities"]["allocated_capacity_gb"] for pool in pools))


def _delete(cinder: Cinder, volume_id: str) -> None:
    cinder.request("POST", f"/volumes/{volume_id}/action", {"os-force_delete": {}})


def _reports(cinder: Cinder, number: int) -> None:
    """Wait until so many further looks have been reported: each ends before the next begins."""
    before = {name: cinder.looks(name) for name in cinder.shape.backends}
    wait_for(
        lambda: all(cinder.looks(name) > before[name] + number for name in before), f"{number} reports of each backend"
    )


def _over_commit(cinder: Cinder) -> list[str]:
    """Let Cinder place 150 GiB more than fit: the first volume is made during a look, which does not see it."""
    before = cinder.held("b1")
    cinder.control("b1", looks=0)
    look = wait_for(lambda: max(0, cinder.held("b1") - before) and cinder.held("b1"), "a look has begun, and waits")
    first = cinder.create(300)
    cinder.settled([first])
    cinder.control("b1", looks=look)
    wait_for(lambda: cinder.held("b1") > look, "the look has been reported, and the next one waits")
    second = cinder.create(1850)
    assert {each["status"] for each in cinder.settled([first, second]).values()} == {"available"}
    cinder.control("b1")
    return [first, second]


def _stop_volume_service(cinder: Cinder) -> None:
    """Stop cinder-volume while it locks no row, such as a quota's after a deletion: cinder-api would wait for it."""
    engine = sa.create_engine(cinder.database, poolclass=sa.pool.NullPool)
    locks = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_lock_structs > 0"

    def stopped() -> bool:
        cinder.signal_service("volume", signal.SIGSTOP)
        time.sleep(0.5)  # transactions of other services end
        with engine.connect() as connection:
            if not connection.exec_driver_sql(locks).scalar():
                return True
        cinder.signal_service("volume", signal.SIGCONT)
        return False

    wait_for(stopped, "cinder-volume is stopped, and locks no row")


def _wrong_refusal(cinder: Cinder) -> str:
    """Let Cinder refuse a volume although the pool is empty: its scheduler starts, and no backend reports meanwhile."""
    cinder.signal_service("scheduler0", signal.SIGKILL)
    cinder.end_service("scheduler0")
    _stop_volume_service(cinder)
    try:
        cinder.start_scheduler(0)
        refused = cinder.create(600)
        assert cinder.settled([refused])[refused]["status"] == "error"
    finally:
        cinder.signal_service("volume", signal.SIGCONT)
    _reports(cinder, 2)
    return refused


@pytest.mark.usefixtures("empty")
def test_each_over_commitment_of_a_slow_look_is_found(site: Site, watch: Watch) -> None:
    volumes = _over_commit(site.cinder)
    found = wait_for(lambda: watch.report()["over_commitments"], "the over-commitment is found")
    assert [each["subject"] for each in found] == [POOL]
    assert volumes[1] in found[0]["volumes"], "the first one may be in the figures already, and it alone fits"
    assert (found[0]["numbers"]["held"], found[0]["numbers"]["limit"]) == (2150.0, 2000.0)


@pytest.mark.usefixtures("empty")
def test_a_wrong_refusal_is_found_and_a_right_one_is_none(site: Site, watch: Watch) -> None:
    before = {each["volume_id"] for each in watch.report()["wrong_refusals"]}
    too_large = site.cinder.create(LIMIT + 1)
    assert site.cinder.settled([too_large])[too_large]["status"] == "error"
    refused = _wrong_refusal(site.cinder)
    wait_for(
        lambda: {each["volume_id"] for each in watch.report()["wrong_refusals"]} - before == {refused},
        "the wrong refusal is found, and it alone",
    )
    assert watch.decisions()["refused"] >= 1


@pytest.mark.usefixtures("empty")
def test_cinder_notices_nothing_of_a_killed_or_frozen_shadow(
    site: Site, rabbitmq_server: RabbitMQ, tmp_path: pathlib.Path
) -> None:
    def queues() -> dict[str, int]:
        lines = rabbitmq_server.control("list_queues", "-p", site.virtual_host, "name", "messages_ready").splitlines()
        rows = [re.split(r"\s+", line) for line in lines if "tonnage" in line]
        return {name: int(number) for name, number in rows}

    others = queues().keys()
    with Watch(tmp_path, site.database, site.bus, messages=100) as second:
        second.signal(signal.SIGSTOP)
        volumes = [site.cinder.create(1) for _ in range(40)]
        assert {each["status"] for each in site.cinder.settled(volumes).values()} == {"available"}
        assert max(queues().values()) <= 100
        second.signal(signal.SIGCONT)
        volumes = [site.cinder.create(1) for _ in range(10)]
        second.kill()
        volumes += [site.cinder.create(1) for _ in range(10)]
        assert {each["status"] for each in site.cinder.settled(volumes).values()} == {"available"}
        wait_for(lambda: queues().keys() == others, "the queues are gone with the shadow")
        second.start()
        volumes = [site.cinder.create(1) for _ in range(5)]
        site.cinder.settled(volumes)
        wait_for(lambda: second.decisions().get("agreed", 0) >= 5, "the new shadow judges")


@pytest.mark.timeout(4 * 3600)
@pytest.mark.usefixtures("empty")
def test_mixed_decisions_are_judged_and_nothing_is_invented(site: Site, tmp_path: pathlib.Path) -> None:
    """Among ordinary requests there are over-commitments and wrong refusals; each is found, and nothing else."""
    chance = random.Random(22)
    cinder = site.cinder
    over: set[str] = set()
    refused: set[str] = set()
    requests = 0
    kinds = itertools.cycle(("over", "refused", "neither"))
    with Watch(tmp_path, site.database, site.bus) as own, futures.ThreadPoolExecutor(CLIENTS) as clients:
        _reports(cinder, 3)
        began = time.monotonic()
        while requests < DECISIONS:
            volumes = list(clients.map(cinder.create, chance.choices((1, 2, 5), k=BATCH)))
            requests += len(volumes)
            found = cinder.settled(volumes)
            assert {each["status"] for each in found.values()} == {"available"}
            for _ in range(GROWTHS):
                grown = chance.sample(volumes, BATCH // 2)
                requests += len(grown)
                list(clients.map(partial(_extend, cinder), (found[volume_id] for volume_id in grown)))
                found = cinder.settled(volumes)
            _clear(cinder)
            match next(kinds):
                case "over":
                    over.add(_over_commit(cinder)[1])
                    requests += 2
                    wait_for(partial(_has_over_commitments, own, len(over)), f"over-commitment {len(over)} is found")
                case "refused":
                    refused.add(_wrong_refusal(cinder))
                    requests += 1
            _clear(cinder)
        wait_for(lambda: sum(own.decisions().values()) == requests, "all decisions are judged")
        report = own.report()
    print(f"{requests} decisions in {time.monotonic() - began:.0f} s; {len(over)} over-commitments and {len(refused)}")
    print(f"wrong refusals were made: {report['totals']}")
    assert len(report["over_commitments"]) == len(over)
    assert {each["volume_id"] for each in report["doubtful"]} == over
    assert {each["volume_id"] for each in report["wrong_refusals"]} == refused
    assert report["wrong_placements"] == report["other_pools"] == report["not_judged"] == []
    assert report["drift"] == report["stale_reports"] == report["wrong_reports"] == []
    assert [each["code"] for each in report["gaps"]] == ["start"]


def _extend(cinder: Cinder, volume: dict[str, Any]) -> None:
    """Let a volume grow by 1 GiB."""
    cinder.request("POST", f"/volumes/{volume['id']}/action", {"os-extend": {"new_size": volume["size"] + 1}})


def _has_over_commitments(watch: Watch, number: int) -> bool:
    return len(watch.report()["over_commitments"]) >= number


def test_the_drift_after_a_migration_is_found_with_its_cause(
    postgresql_server: PostgreSQL, rabbitmq_server: RabbitMQ, tmp_path: pathlib.Path
) -> None:
    """On PostgreSQL. cinder-volume counts the volume where it was."""
    shape = Shape(backends=["b1", "b2"], pools=["a"], total_gb=TOTAL, ratio="2.0", interval=INTERVAL)
    with (
        _site(postgresql_server, rabbitmq_server, shape) as site,
        Watch(tmp_path, site.database, site.bus) as watch,
    ):
        cinder = site.cinder
        _reports(cinder, 3)
        placed, too_large = cinder.create(10), cinder.create(LIMIT + 1)
        found = cinder.settled([placed, too_large])
        assert (found[placed]["status"], found[too_large]["status"]) == ("available", "error")
        _extend(cinder, found[placed])
        wait_for(lambda: watch.decisions() == {"agreed": 2, "refused": 1}, "all decisions are judged")
        source = _host(cinder, placed)
        [target] = set(cinder.pools) - {source}
        cinder.request("POST", f"/volumes/{placed}/action", {"os-migrate_volume": {"host": target}})
        wait_for(lambda: _host(cinder, placed) == target, "the volume has been migrated")
        wait_for(lambda: len(watch.report()["drift"]) == 2, "drift is found at both pools")
        report = watch.report()
    causes = {each["subject"]: each["text"].partition(": ")[2] for each in report["drift"]}
    assert causes == {
        source: "1 volume(s) that were moved away still count there",
        target: "1 volume(s) that were moved here are not counted",
    }
    assert watch.decisions() == {"agreed": 3, "refused": 1}
    assert report["over_commitments"] == report["wrong_reports"] == []
    assert [each["code"] for each in report["gaps"]] == ["start"]


def _host(cinder: Cinder, volume_id: str) -> str:
    return str(cinder.volumes()[volume_id]["os-vol-host-attr:host"])
