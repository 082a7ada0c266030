# SPDX-License-Identifier: Apache-2.0
"""From Cinder's own quota driver to Tonnage's, back, and again, below load and beside 10,000 volumes."""

import subprocess
import uuid
from typing import Any

import sqlalchemy as sa

from tests.cinder import quota_site
from tests.cinder.quota_load import LIMITS, OTHER, TYPES, QuotaLoad
from tests.cinder.quota_site import QuotaSite
from tests.servers import MariaDB, RabbitMQ
from tests.servers.base import wait_for
from tests.servers.cinder import HOME, PROJECT

#: The volumes of 3 GiB that the project has before.
VOLUMES, SIZE = 10_000, 3

#: The requests that succeed while Cinder is in one state.
REQUESTS = 40

_LINE = f"quota_driver = {quota_site.DRIVER}\n"

_SERVICES = {
    "api": "cinder-api",
    "scheduler0": "cinder-scheduler",
    "volume": "cinder-volume",
    "backup": "cinder-backup",
}


def add_volumes(site: QuotaSite) -> None:
    """Add attached volumes of another host."""
    values = [{"i": str(uuid.uuid4()), "p": PROJECT, "s": SIZE, "d": False, "u": True} for _ in range(VOLUMES)]
    kind = "(SELECT id FROM volume_types WHERE name = '__DEFAULT__')"
    statement = (
        "INSERT INTO volumes (id, project_id, size, host, status, attach_status, volume_type_id, use_quota, deleted) "
        f"VALUES (:i, :p, :s, 'other@b#a', 'in-use', 'attached', {kind}, :u, :d)"
    )
    with site.engine.begin() as connection:
        connection.execute(sa.text(statement), values)


def restart(site: QuotaSite, line: str) -> None:
    """Restart one service after the other, with this line for the driver."""
    cinder = site.cinder
    conf = cinder.folder / "cinder.conf"
    conf.write_text(conf.read_text().replace(_LINE, "").replace("[DEFAULT]\n", f"[DEFAULT]\n{line}", 1))
    for name, program in _SERVICES.items():
        cinder.end_service(name)
        if name == "scheduler0":
            cinder.start_scheduler()
        else:
            cinder.start_service(name, program, patched=name == "api")
        wait_for(cinder._ready, f"{name} serves again")


def drift(site: QuotaSite) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the drift of both projects at rest."""
    return {project: site.drift(project, TYPES) for project in LIMITS}


def test_switching_over_and_back_and_over_again(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    own = LIMITS[PROJECT]
    larger = {"volumes": VOLUMES + own["volumes"], "gigabytes": VOLUMES * SIZE + own["gigabytes"]}
    limits = {PROJECT: {**own, **larger}, OTHER: LIMITS[OTHER]}
    backups = {"backup_driver": "empty_backup_driver.EmptyBackupDriver"}
    with quota_site.site(mariadb_server, rabbitmq_server, driver=None, lifetime=60, **backups) as site:
        add_volumes(site)
        site.cinder.start_backup_service()
        load = QuotaLoad(site, [site.cinder], limits)
        load.prepare()

        def switch(line: str) -> dict[tuple[str, str], Any]:
            """Switch all services, and return the limits that are exceeded afterwards."""
            restart(site, line)
            load.forget()
            number, refusals = load.requests.total() + REQUESTS, load.refusals["quota"]
            wait_for(lambda: load.requests.total() >= number, "requests succeed", 300)
            wait_for(lambda: load.refusals["quota"] > refusals, "a limit refuses a request", 300)
            return load.exceeded()

        with load.running() as end_of_requests:
            wait_for(load.has_all, "each operation succeeds, and a limit refuses one", 600)
            assert switch(_LINE) == {}
            print(f"with Cinder's own driver again: {switch('')} exceeded")
            assert switch(_LINE) == {}
            end_of_requests.set()
            load.rest()
        site.agree(list(LIMITS), TYPES)
        restart(site, "")
        command = [HOME / "bin" / "cinder-manage", "--config-file", site.cinder.folder / "cinder.conf", "quota", "sync"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONWARNINGS": "ignore"})
        assert done.returncode == 0, done.stdout + done.stderr
        assert drift(site) == {PROJECT: {}, OTHER: {}}
        print(f"requests {load.requests.total()}: {dict(load.requests)}; refused {dict(load.refusals)}")
