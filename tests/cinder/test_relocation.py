# SPDX-License-Identifier: Apache-2.0
"""Plans of moves that a real Cinder carries out: rows and files agree afterwards, and with Tonnage's ledger too."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest

from tests.cinder import operations, sites
from tests.cinder.operations import FIRST, SECOND, on
from tests.functional.deployment import COMMANDS
from tests.servers import Cinder, MariaDB, RabbitMQ, Shape, ledger_schema
from tests.servers.base import wait_for
from tests.servers.keystone import PASSWORD, REGION, Keystone
from tonnage.ledger.db import database

#: Seconds that a command may take, in which a plan is carried out: on an idle machine it is a fifth of them.
_PATIENCE = 600
pytestmark = pytest.mark.timeout(3 * _PATIENCE)

#: The backends: the first becomes empty.
BACKENDS = ("b1", "b2", "b3")
THIRD = "real@b3#a"

#: Volumes of the backend that becomes empty: all, those with a snapshot, in a group, and in use.
VOLUMES, WITH_SNAPSHOT, IN_GROUP, IN_USE = 100, 6, 2, 6

#: The sizes of the volumes in GiB, in turn.
SIZES = (1, 2, 3, 4)

#: The server of the volumes in use; there is no Nova that would copy them.
SERVER = "22222222-2222-4222-8222-222222222222"

#: The microversion with attachments.
_ATTACHMENTS = "3.27"


#: The size of each pool in GiB.
TOTAL = 400

SHAPE = Shape(backends=BACKENDS, pools=["a"], total_gb=TOTAL, interval=3)


class Operator:
    """Runs commands of tonnage for a Cinder, with the account of an administrator in the environment.

    ``account`` has the variables of another one than that of Cinder without Keystone.
    """

    def __init__(
        self, cinder: Cinder, folder: pathlib.Path, connection: str, account: dict[str, str] | None = None
    ) -> None:
        self.cinder = cinder
        self._conf = folder / "tonnage.conf"
        self._conf.write_text(
            f"[database]\nconnection = {connection}\n[relocation]\npoll_interval = 0.5\n"
            f"report_interval = {cinder.shape.interval}\n[moves]\nmoves = 8\nmoves_per_backend = 6\n"
            "no_progress_timeout = 10\n"
        )
        own = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": cinder.url, "OS_TOKEN": cinder.shape.token}
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **(own if account is None else account)}

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command."""
        line = [COMMANDS / "tonnage", "--config-file", self._conf, "cinder", "plan", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, env=self._environment, stdout=pipe, stderr=pipe, text=True, cwd="/")

    def run(self, *words: str, status: int = 0) -> str:
        """Run a command, and return its output."""
        with self.start(*words) as process:
            output, problems = process.communicate(timeout=_PATIENCE)
        assert process.returncode == status, problems
        return output

    def rows(self, *words: str, status: int = 0) -> Any:
        """Run a command, and return its output from JSON."""
        return json.loads(self.run(*words, "-f", "json", status=status))


def attach(cinder: Cinder, volume_id: str) -> None:
    """Attach a volume to a server, as Nova does."""
    body = {"attachment": {"volume_uuid": volume_id, "instance_uuid": SERVER, "connector": {"host": "compute1"}}}
    attachment = cinder.request("POST", "/attachments", body, _ATTACHMENTS)["attachment"]["id"]
    cinder.request("POST", f"/attachments/{attachment}/action", {"os-complete": None}, "3.44")


def show_total(cinder: Cinder, total: int) -> None:
    """Let the pools of all backends but the first be of this size in GiB, and wait until the scheduler knows."""
    for name in BACKENDS[1:]:
        cinder.control(name, stats={"total_capacity_gb": total, "free_capacity_gb": total})
    path = "/scheduler-stats/get_pools?detail=true"

    def totals() -> dict[str, float]:
        pools = cinder.request("GET", path)["pools"]
        return {pool["name"]: pool["capabilities"]["total_capacity_gb"] for pool in pools if pool["name"] != FIRST}

    wait_for(lambda: totals() == {SECOND: total, THIRD: total}, f"the other pools have {total} GiB")


def fill(cinder: Cinder) -> dict[str, set[str]]:
    """Create the volumes of the first backend, and return their ids by the obstacles that keep them there.

    The other backends have no room until all of them are there.
    """
    in_group = operations.group(cinder, on(cinder, "b1"))
    show_total(cinder, 1)
    members = {operations.member(cinder, in_group, 1) for _ in range(IN_GROUP)}
    ids = [cinder.create(SIZES[number % len(SIZES)]) for number in range(VOLUMES - IN_GROUP)]
    cinder.settled([*ids, *members])
    show_total(cinder, TOTAL)
    with_snapshot, in_use = set(ids[:WITH_SNAPSHOT]), set(ids[WITH_SNAPSHOT : WITH_SNAPSHOT + IN_USE])
    for volume_id in with_snapshot:
        cinder.request("POST", "/snapshots", {"snapshot": {"volume_id": volume_id, "name": "s"}})
    for volume_id in in_use:
        attach(cinder, volume_id)
    path = "/snapshots/detail?all_tenants=1"
    wait_for(
        lambda: {snapshot["status"] for snapshot in cinder.request("GET", path)["snapshots"]} == {"available"},
        "the snapshots are available",
    )
    kept = with_snapshot | in_use | members
    return {"snapshots": with_snapshot, "in use": in_use, "group": members, "free": set(ids) - kept}


def stored(cinder: Cinder) -> dict[str, int]:
    """Return the GiB of the files of each pool."""
    return {
        f"real@{name}#a": sum(f.stat().st_size for f in (cinder.folder / "storage" / name / "a").iterdir()) // 2**30
        for name in BACKENDS
    }


def in_rows(cinder: Cinder) -> dict[str, int]:
    """Return the GiB of the volumes of each pool by Cinder's rows."""
    sizes = dict.fromkeys((FIRST, SECOND, THIRD), 0)
    for volume in cinder.volumes().values():
        sizes[volume["os-vol-host-attr:host"]] += volume["size"]
    return sizes


def check_empty(operator: Operator, kinds: dict[str, set[str]], plan_id: str) -> None:
    """Check that all volumes that were free have moved, once, and that the others were named beforehand."""
    cinder = operator.cinder
    places = {volume_id: volume["os-vol-host-attr:host"] for volume_id, volume in cinder.volumes().items()}
    here = {volume_id for volume_id, pool in places.items() if pool == FIRST}
    assert here == kinds["snapshots"] | kinds["in use"] | kinds["group"]
    plan = operator.rows("show", plan_id, status=3)
    assert plan["state"] == "failed", "volumes are left"
    moved = [step["volume"] for step in plan["steps"] if step["state"] == "moved"]
    assert Counter(moved) == Counter(kinds["free"])
    assert {step["state"] for step in plan["steps"]} <= {"moved", "skipped"}
    wait_for(lambda: stored(cinder) == in_rows(cinder), "the files are those of the rows")
    assert {volume["status"] for volume in cinder.volumes().values()} == {"available", "in-use"}


def check_reasons(operator: Operator, kinds: dict[str, set[str]]) -> None:
    """Check that a plan names each volume that stays, with the reason."""
    rows = operator.rows("empty", "real@b1", status=3)
    staying = {row["volume"]: row["reason"] for row in rows if row["target"] is None}
    assert set(staying) == kinds["snapshots"] | kinds["in use"] | kinds["group"]
    for kind, text in (
        ("snapshots", "has snapshots: Cinder moves no volume with snapshots"),
        ("in use", f"is in use by server {SERVER}: detach it, or let Nova copy it"),
        ("group", "belongs to group"),
    ):
        assert all(text in staying[volume_id] for volume_id in kinds[kind]), staying
    assert {row["volume"] for row in rows if row["target"]} == kinds["free"]


def run_with_kills(operator: Operator, plan_id: str) -> None:
    """Carry a plan out with two processes at a time, one of which is killed again and again."""
    other = operator.start("run")
    for _ in range(6):
        with operator.start("run") as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2.5)
            process.send_signal(signal.SIGKILL)
            process.communicate()
    with other:
        _, problems = other.communicate(timeout=_PATIENCE)
        assert other.returncode == 0, problems
    assert f"Plan {plan_id}: " in problems


@pytest.fixture
def connection(tmp_path: pathlib.Path) -> str:
    """A database for plans."""
    url = f"sqlite:///{tmp_path}/tonnage.sqlite"
    engine = database.create_engine(url)
    ledger_schema.create(engine)
    engine.dispose()
    return url


@pytest.fixture
def stock_site(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, tmp_path: pathlib.Path, connection: str
) -> Iterator[Operator]:
    """Cinder with its own scheduler."""
    with sites.stock(mariadb_server, rabbitmq_server, SHAPE) as cinder:
        yield Operator(cinder, tmp_path, connection)


@pytest.fixture
def keystone_site(
    mariadb_server: MariaDB,
    rabbitmq_server: RabbitMQ,
    keystone_server: Keystone,
    tmp_path: pathlib.Path,
    connection: str,
) -> Iterator[Operator]:
    """The same with the users of a Keystone; the account is an entry of clouds.yaml."""
    project = keystone_server.make_project("movers")
    keystone_server.make_user("mover", project, "admin")
    shape = replace(
        SHAPE,
        more={"auth_strategy": "keystone"},
        sections={"keystone_authtoken": keystone_server.options},
        project=project,
        token=keystone_server.login("mover", {"project": {"id": project}}),
    )
    account = {
        "auth_url": keystone_server.url,
        "username": "mover",
        "password": PASSWORD,
        "project_id": project,
        "user_domain_id": "default",
    }
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(json.dumps({"clouds": {"mine": {"auth": account, "region_name": REGION}}}))
    with sites.stock(mariadb_server, rabbitmq_server, shape) as cinder:
        keystone_server.make_endpoint(cinder.url.rpartition("/")[0])
        variables = {"OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": "mine"}
        yield Operator(cinder, tmp_path, connection, variables)


def test_a_backend_of_a_watched_cloud_is_emptied(stock_site: Operator) -> None:
    cinder = stock_site.cinder
    kinds = fill(cinder)
    check_reasons(stock_site, kinds)
    script = stock_site.run("empty", "real@b1", "-f", "commands", status=3)
    assert script.count("openstack volume migrate --host 'real@b") == len(kinds["free"])
    plan = stock_site.rows("apply", "empty", "real@b1", "--start", status=3)
    run_with_kills(stock_site, plan["id"])
    check_empty(stock_site, kinds, plan["id"])
    # Without a Nova that copies them, the moves of volumes in use fail, and nothing is left of them.
    plan = stock_site.rows("apply", "empty", "real@b1", "--attached", "--failures", "2", "--moves", "2", status=3)
    assert plan["state"] == "failed"
    assert plan["message"].startswith("2 moves failed")
    check_reasons(stock_site, {**kinds, "free": set()})
    wait_for(lambda: stored(cinder) == in_rows(cinder), "the files are those of the rows")


def test_a_backend_of_a_cloud_that_tonnage_schedules_is_emptied(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, tmp_path: pathlib.Path
) -> None:
    with sites.with_ledger(mariadb_server, rabbitmq_server, SHAPE) as site:
        url = site.ledger.url.render_as_string(hide_password=False)
        operator = Operator(site.cinder, tmp_path, url)
        kinds = fill(site.cinder)
        check_reasons(operator, kinds)
        plan = operator.rows("apply", "empty", "real@b1", status=3)
        check_empty(operator, kinds, plan["id"])
        expected = {pool: (size, 0) for pool, size in in_rows(site.cinder).items()}
        wait_for(lambda: {pool: site.figures(pool) for pool in expected} == expected, "the ledger agrees", 60)


def test_a_type_that_demands_the_backend_is_changed_on_the_way(keystone_site: Operator) -> None:
    cinder = keystone_site.cinder
    old, new = on(cinder, "b1"), on(cinder, "b2")
    ids = [cinder.create(2, volume_type=old) for _ in range(3)]
    cinder.settled(ids)
    rows = keystone_site.rows("empty", "real@b1", status=3)
    assert all("CapabilitiesFilter refused" in row["reason"] for row in rows)
    retype = ("--retype", f"{old}={new}")
    script = keystone_site.run("empty", "real@b1", *retype, "-f", "commands")
    assert script.count(f"openstack --os-cloud mine volume set --type {new} --retype-policy on-demand") == 3
    assert keystone_site.rows("apply", "empty", "real@b1", *retype)["state"] == "finished"
    volumes = cinder.volumes()
    assert {(volumes[id]["os-vol-host-attr:host"], volumes[id]["volume_type"]) for id in ids} == {(SECOND, new)}
    wait_for(lambda: stored(cinder) == in_rows(cinder), "the files are those of the rows")
    [plan] = keystone_site.rows("list")
    assert len(plan["user"]) == 32, "the id of the account"


def test_no_plan_is_made_before_all_backends_have_reported_to_a_new_scheduler(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, tmp_path: pathlib.Path, connection: str
) -> None:
    # A service that is suspended stays up.
    shape = replace(SHAPE, more={"service_down_time": "1800"})
    with sites.stock(mariadb_server, rabbitmq_server, shape) as cinder:
        operator = Operator(cinder, tmp_path, connection)
        cinder.end_service("scheduler0", signal.SIGKILL)
        silent = psutil.Process(cinder.services["volume"].pid).children()[-1]
        silent.suspend()
        try:
            cinder.start_scheduler()
            wait_for(lambda: len(shown(cinder)) == 2, "two backends have reported")
            [missing] = {"real@b1", "real@b2", "real@b3"} - shown(cinder)
            with operator.start("balance") as process:
                _, problems = process.communicate(timeout=_PATIENCE)
        finally:
            silent.resume()
        assert process.returncode == 1
        assert f"shows no pool of {missing} yet, up and enabled" in problems
        wait_for(lambda: len(shown(cinder)) == 3, "all backends have reported")
        operator.run("balance")


def shown(cinder: Cinder) -> set[str]:
    """Return the backends whose pools Cinder's scheduler shows."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return {row["name"].partition("#")[0] for row in cinder.request("GET", "/scheduler-stats/get_pools")["pools"]}
    return set()
