# SPDX-License-Identifier: Apache-2.0
"""An upgrade while everything is in use: processes of the first release and of this one, side by side on one ledger."""

import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests import suites
from tests.functional.deployment import Addresses, Deployment, until
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tonnage.ledger.db import schema
from tonnage.rpc import versions

ROOT = pathlib.Path(__file__).parents[2]
#: Where version 1.0 of the RPC and revision 0001 of the database ended.
FIRST_RELEASE = "2e3e09806ad18d99733086d6633f4a6520b1ffd3"
#: Large enough for what was deleted and no report has shown to be gone yet.
BACKENDS = {"thin": {"filesystem_size_limit_gb": 16, "max_over_subscription_ratio": 2.0}}


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the code of the first release."""
    if not (ROOT / ".git").exists():
        suites.cannot_run("upgrade", "this is no git repository, whose history has the first release; clone it")
    folder = tmp_path_factory.mktemp("first-release")
    archive = folder / "archive.tar"
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--output", str(archive), FIRST_RELEASE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"the history lacks the first release (git fetch --unshallow): {done.stderr}"
    # Older releases of Python 3.11 have no filters for what tarfile extracts.
    subprocess.run(["tar", "-x", "-f", archive, "-C", folder], check=True)
    # The commands that are installed are those of this release, and begin there.
    shutil.copy(ROOT / "cli" / "start.py", folder / "cli")
    return folder


class Upgrade(Deployment):
    """A deployment whose processes are of either release."""

    revision: ClassVar[str] = "0001"

    def start_as(self, release: pathlib.Path | None, *names: str) -> None:
        """Start processes with the code of a release, None for the present one."""
        self._environment = None if release is None else {"PYTHONPATH": str(release)}
        self.start(*names)

    def migrate_database(self) -> None:
        """Bring the database up to date under those that use it."""
        schema.sync(self._engine)

    def replace(self, name: str) -> None:
        """Replace a process by one of the present release."""
        self.processes[name].send(signal.SIGTERM)
        assert self.processes[name].wait() == 0
        self.start_as(None, name)

    def speaks_latest(self, name: str) -> bool:
        """Whether a process has said that it speaks the latest version with schedulers."""
        return f"ersion {versions.CURRENT} of the RPC is spoken" in self.processes[name].log.read_text()

    def use(self) -> None:
        """Do everything that the first release can, more than once so that each scheduler gets something."""
        for _ in range(3):
            volume = self.rest.made(self.rest.create(1))
            assert self.rest.extend(volume["id"], 2).status_code == 202
            assert self.rest.made(volume["id"])["size"] == 2
            self.rest.delete(volume["id"])


@pytest.fixture
def tonnage(postgresql_server: PostgreSQL, rabbitmq_server: RabbitMQ) -> Iterator[Upgrade]:
    with (
        postgresql_server.database() as url,
        rabbitmq_server.virtual_host() as bus,
        Upgrade(Addresses(url, bus), BACKENDS, service_down_time=12, listing_interval=1) as deployment,
    ):
        yield deployment


@pytest.mark.heavy
@pytest.mark.parametrize("order", [("scheduler", "api", "agent"), ("agent", "scheduler", "api")], ids="-".join)
def test_processes_are_replaced_one_by_one_while_volumes_come_and_go(
    tonnage: Upgrade, first_release: pathlib.Path, order: tuple[str, ...]
) -> None:
    tonnage.start_as(first_release, "scheduler", "agent", "api")
    kept = tonnage.rest.made(tonnage.rest.create(2))
    tonnage.use()
    tonnage.migrate_database()
    tonnage.use()
    for name in order:
        if name == "scheduler":
            another = tonnage.start_another_scheduler()
            tonnage.use()
            tonnage.processes["scheduler"].send(signal.SIGTERM)
            assert tonnage.processes["scheduler"].wait() == 0
            tonnage.processes["scheduler"] = another
        else:
            tonnage.replace(name)
        tonnage.use()
    # Everybody is of this release now, and the last sign of life of the old scheduler gets old.
    backend = f"SELECT rpc_version FROM backends WHERE name = '{tonnage.host}@thin'"
    until(lambda: tonnage.number(backend) == versions.CURRENT, "the schedulers know that the agent is new")
    until(lambda: tonnage.speaks_latest("agent"), "the agent knows that the schedulers are new")

    def api_knows() -> bool:
        tonnage.use()  # it looks when it has something to ask for
        return tonnage.speaks_latest("api")

    until(api_knows, "the API knows it as well")
    tonnage.use()
    assert tonnage.rest.volume(kept["id"])["status"] == "available"
    tonnage.check_at_rest()
