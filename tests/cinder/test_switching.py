# SPDX-License-Identifier: Apache-2.0
"""From Cinder's own scheduler to Tonnage, back, and again, without a step for any volume."""

import signal

from tests.cinder import sites
from tests.cinder.sites import Site
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for
from tonnage.extensions.cinder.daemons.cinder_scheduler import OPTIONS

POOL = "real@b1#a"


#: Cinder's own program with the two options that ``tonnage-cinder-scheduler`` sets.
TWO_LINES = "[DEFAULT]\n" + "".join(f"{name} = {value}\n" for name, value in OPTIONS.items())


def start(site: Site, program: str, more: str | None = None) -> None:
    site.cinder.start_service("scheduler0", program, patched=False, more=more)


def created(site: Site, size: int) -> str:
    """Create a volume; return its status."""
    volume_id = site.cinder.create(size)
    return str(site.cinder.settled([volume_id])[volume_id]["status"])


def test_switching_over_and_back(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=100)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as site:
        assert created(site, 10) == "available"
        site.cinder.end_service("scheduler0", signal.SIGTERM)
        waiting = site.cinder.create(10)
        start(site, "cinder-scheduler")
        assert site.cinder.settled([waiting])[waiting]["status"] == "available"
        assert created(site, 30) == "available"
        site.cinder.end_service("scheduler0", signal.SIGTERM)
        waiting = site.cinder.create(10)
        start(site, "tonnage-cinder-scheduler")
        assert site.cinder.settled([waiting])[waiting]["status"] == "available"
        site.settled(POOL, 60)
        assert (created(site, 41), created(site, 40)) == ("error", "available")
        assert site.stored("b1", "a") == 100
        site.cinder.end_service("scheduler0", signal.SIGTERM)
        (site.cinder.folder / "two-lines.conf").write_text(TWO_LINES)
        start(site, "cinder-scheduler", "two-lines.conf")
        assert created(site, 1) == "error"


def test_half_a_switch_is_refused(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    with sites.with_ledger(mariadb_server, rabbitmq_server, Shape(backends=["b1"], pools=["a"], total_gb=100)) as site:
        for given, missing in (("scheduler_driver", "scheduler_manager"), ("scheduler_manager", "scheduler_driver")):
            site.cinder.end_service("scheduler0", signal.SIGTERM)
            (site.cinder.folder / "half.conf").write_text(f"[DEFAULT]\n{given} = {OPTIONS[given]}\n")
            start(site, "cinder-scheduler", "half.conf")
            log = site.cinder.folder / "scheduler0.log"
            wait_for(lambda: f"Option [DEFAULT] {missing} is cinder." in log.read_text(), "the log names it")  # noqa: B023
