# SPDX-License-Identifier: Apache-2.0
"""Clones, migrations and managed files with content, over RPC, with schedulers, agents and real files."""

import contextlib
import os
import pathlib
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.deployment import GIB, Addresses, Deployment
from tests.servers.base import wait_for
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tonnage.rpc import contract
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import ManageVolume, MigrateVolume

BACKENDS: dict[str, dict[str, Any]] = {
    "one": {"filesystem_size_limit_gb": 6, "max_over_subscription_ratio": 2.0},
    "two": {"filesystem_size_limit_gb": 6, "filesystem_provisioning": "both"},
}
MIB = 1 << 20


@pytest.fixture(scope="module")
def tonnage(postgresql_server: PostgreSQL, rabbitmq_server: RabbitMQ) -> Iterator[Deployment]:
    with (
        postgresql_server.database() as url,
        rabbitmq_server.virtual_host() as bus,
        Deployment(Addresses(url, bus), BACKENDS) as deployment,
    ):
        deployment.start()
        yield deployment


@pytest.fixture
def scheduler(tonnage: Deployment) -> Iterator[SchedulerClient]:
    with tonnage.rpc() as client:
        yield client


@pytest.fixture(autouse=True)
def _delete_volumes(tonnage: Deployment) -> Iterator[None]:
    yield
    tonnage.rest.delete(*(volume["id"] for volume in tonnage.rest.volumes()))
    tonnage.check_at_rest()


def write(path: pathlib.Path, seed: int, megabytes: int = 20) -> dict[int, bytes]:
    """Write random megabytes to a file of 1 GiB, and return the data by offset."""
    draw = random.Random(seed)
    content = {place * MIB: draw.randbytes(MIB) for place in draw.sample(range(1024), megabytes)}
    with path.open("r+b") as file:
        for offset, data in content.items():
            file.seek(offset)
            file.write(data)
    return content


def check_content(path: pathlib.Path, content: dict[int, bytes]) -> None:
    """Assert that the first GiB of a file has exactly this content, and that the file is sparse."""
    with path.open("rb") as file:
        for offset in range(0, GIB, MIB):
            file.seek(offset)
            assert file.read(MIB) == content.get(offset, bytes(MIB)), f"{path} differs at {offset}"
    assert path.stat().st_blocks * 512 < 2 * MIB * len(content), "the file is not sparse"


def create_in(tonnage: Deployment, scheduler: SchedulerClient, backend: str) -> str:
    """Create a volume in a backend."""
    volume_id = tonnage.rest.create(1)
    if tonnage.rest.wait_until_available(volume_id)["os-vol-host-attr:host"] != tonnage.pool(backend):
        migrate(tonnage, scheduler, volume_id, backend)
    return volume_id


def begin_migration(scheduler: SchedulerClient, volume_id: str, destination: str) -> None:
    answer = scheduler.call(
        contract.MIGRATE_VOLUME,
        MigrateVolume(request_id=f"req-{uuid.uuid4()}", volume_id=volume_id, destination=destination),
    )
    assert answer.refusal is None
    assert answer.pool == destination


def migrate(tonnage: Deployment, scheduler: SchedulerClient, volume_id: str, backend: str) -> None:
    """Migrate a volume and wait until the old copy is deleted."""
    begin_migration(scheduler, volume_id, tonnage.pool(backend))
    wait_until_migrated(tonnage, volume_id, backend)


def wait_until_migrated(tonnage: Deployment, volume_id: str, backend: str) -> None:
    """Wait until a volume is in a backend and in no other."""
    wait_for(lambda: is_in(tonnage, volume_id, backend), f"{volume_id} is in {backend}")
    others = [other for other in BACKENDS if other != backend]
    wait_for(lambda: not any(volume_id in tonnage.files(other) for other in others), "the old copy is deleted")
    pending = f"SELECT COUNT(*) FROM claims WHERE volume_id = '{volume_id}' AND state = 'pending'"
    wait_for(lambda: tonnage.sql_value(pending) == 0, "the ledger has no pending claim")


def is_in(tonnage: Deployment, volume_id: str, backend: str) -> bool:
    volume = tonnage.rest.volume(volume_id)
    return (volume["status"], volume["os-vol-host-attr:host"]) == ("available", tonnage.pool(backend))


def copies_to(tonnage: Deployment, backend: str) -> bool:
    """Tell whether the agent has a file in the backend's folder open that has no name."""
    for process in tonnage.processes["agent"].tree():
        for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                name = os.readlink(link)
                if name.startswith(f"{tonnage.path(backend)}/") and name.endswith(" (deleted)"):
                    return True
    return False


def migrate_until_seen(tonnage: Deployment, scheduler: SchedulerClient, volume_id: str) -> None:
    """Migrate a volume between the backends until a copy is seen while it is written."""

    def seen(backend: str) -> str | None:
        if copies_to(tonnage, backend):
            return "in progress"
        return "over" if is_in(tonnage, volume_id, backend) else None

    for backend in ("two", "one") * 5:
        begin_migration(scheduler, volume_id, tonnage.pool(backend))
        if wait_for(lambda: seen(backend), "the copy has begun") == "in progress":  # noqa: B023
            return
        wait_until_migrated(tonnage, volume_id, backend)
    pytest.fail("each copy ended before it was seen")


@pytest.mark.heavy
def test_a_managed_file_is_migrated(tonnage: Deployment, scheduler: SchedulerClient) -> None:
    image = tonnage.path("one") / "image.raw"
    image.touch()
    os.truncate(image, GIB)
    content = write(image, 3)
    os.truncate(image, 3 * GIB // 2)
    volume_id = str(uuid.uuid4())
    scheduler.call(
        contract.MANAGE_VOLUME,
        ManageVolume(
            request_id=f"req-{volume_id}",
            volume_id=volume_id,
            pool=tonnage.pool("one"),
            reference="image.raw",
            project_id="demo",
        ),
    )
    assert tonnage.rest.wait_until_available(volume_id)["size"] == 2
    assert list(tonnage.files("one")) == [volume_id]
    tonnage.check_at_rest()
    migrate(tonnage, scheduler, volume_id, "two")
    check_content(tonnage.path("two") / volume_id, content)


@pytest.mark.heavy
@pytest.mark.parametrize("victim", ["agent", "scheduler"])
def test_a_migration_survives_a_kill(tonnage: Deployment, scheduler: SchedulerClient, victim: str) -> None:
    volume_id = create_in(tonnage, scheduler, "one")
    content = write(tonnage.path("one") / volume_id, 4, megabytes=300)
    migrate_until_seen(tonnage, scheduler, volume_id)
    tonnage.kill(victim)
    tonnage.start(victim)
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "available", "the migration has ended")
    backend = next(name for name in BACKENDS if is_in(tonnage, volume_id, name))
    others = [other for other in BACKENDS if other != backend]
    wait_for(lambda: not any(volume_id in tonnage.files(other) for other in others), "there is one copy")
    check_content(tonnage.path(backend) / volume_id, content)
