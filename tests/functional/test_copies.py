# SPDX-License-Identifier: Apache-2.0
"""Clones, moves and takeovers of volumes that have something in them, through schedulers, agents and real files."""

import contextlib
import os
import pathlib
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.deployment import GIB, Addresses, Deployment, until
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tonnage.rpc.messages import CreateVolume, ManageVolume, MigrateVolume
from tonnage.rpc.scheduler_client import SchedulerClient

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
def _nothing_is_left(tonnage: Deployment) -> Iterator[None]:
    yield
    tonnage.rest.delete(*(volume["id"] for volume in tonnage.rest.volumes()))
    tonnage.check_at_rest()


def written(path: pathlib.Path, seed: int, megabytes: int = 20) -> dict[int, bytes]:
    """Write here and there to a file of 1 GiB; return what is where."""
    draw = random.Random(seed)
    content = {place * MIB: draw.randbytes(MIB) for place in draw.sample(range(1024), megabytes)}
    with path.open("r+b") as file:
        for offset, data in content.items():
            file.seek(offset)
            file.write(data)
    return content


def holds(path: pathlib.Path, content: dict[int, bytes]) -> None:
    """The first GiB of the file has this content and no other."""
    with path.open("rb") as file:
        for offset in range(0, GIB, MIB):
            file.seek(offset)
            assert file.read(MIB) == content.get(offset, bytes(MIB)), f"{path} differs at {offset}"
    assert path.stat().st_blocks * 512 < 2 * MIB * len(content), "it has lost its holes"


def made_in(tonnage: Deployment, scheduler: SchedulerClient, backend: str) -> str:
    """Make a volume and have it where it is wanted."""
    volume_id = tonnage.rest.create(1)
    if tonnage.rest.made(volume_id)["os-vol-host-attr:host"] != tonnage.pool(backend):
        moved(tonnage, scheduler, volume_id, backend)
    return volume_id


def move(scheduler: SchedulerClient, volume_id: str, destination: str) -> None:
    answer = scheduler.migrate(
        MigrateVolume(request_id=f"req-{uuid.uuid4()}", volume_id=volume_id, destination=destination)
    )
    assert answer.refusal is None
    assert answer.pool == destination


def moved(tonnage: Deployment, scheduler: SchedulerClient, volume_id: str, backend: str) -> None:
    """Move a volume and wait until the copy that it has left is gone."""
    move(scheduler, volume_id, tonnage.pool(backend))
    arrived(tonnage, volume_id, backend)


def arrived(tonnage: Deployment, volume_id: str, backend: str) -> None:
    """Wait until a volume is there and nowhere else."""
    until(lambda: is_in(tonnage, volume_id, backend), f"{volume_id} is in {backend}")
    others = [other for other in BACKENDS if other != backend]
    until(lambda: not any(volume_id in tonnage.files(other) for other in others), "the other copy is gone")
    pending = f"SELECT COUNT(*) FROM claims WHERE volume_id = '{volume_id}' AND state = 'pending'"
    until(lambda: tonnage.number(pending) == 0, "the ledger knows that")


def is_in(tonnage: Deployment, volume_id: str, backend: str) -> bool:
    volume = tonnage.rest.volume(volume_id)
    return (volume["status"], volume["os-vol-host-attr:host"]) == ("available", tonnage.pool(backend))


def copies_to(tonnage: Deployment, backend: str) -> bool:
    """Tell whether the agent has a file in the backend's folder open that has no name."""
    for process in tonnage.processes["agent"].family():
        for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                name = os.readlink(link)
                if name.startswith(f"{tonnage.path(backend)}/") and name.endswith(" (deleted)"):
                    return True
    return False


def caught_moving(tonnage: Deployment, scheduler: SchedulerClient, volume_id: str) -> None:
    """Move a volume from the first backend, to and fro, until somebody looks while it is being copied."""

    def seen(backend: str) -> str | None:
        if copies_to(tonnage, backend):
            return "under way"
        return "over" if is_in(tonnage, volume_id, backend) else None

    for backend in ("two", "one") * 5:
        move(scheduler, volume_id, tonnage.pool(backend))
        if until(lambda: seen(backend), "the copy has begun") == "under way":  # noqa: B023
            return
        arrived(tonnage, volume_id, backend)
    pytest.fail("each copy was over before it was seen")


def test_a_volume_moves_there_and_back_with_its_content(tonnage: Deployment, scheduler: SchedulerClient) -> None:
    volume_id = made_in(tonnage, scheduler, "one")
    content = written(tonnage.path("one") / volume_id, 1)
    for backend in ("two", "one", "two"):
        moved(tonnage, scheduler, volume_id, backend)
        holds(tonnage.path(backend) / volume_id, content)
        tonnage.check_at_rest()


def test_a_clone_has_the_content_of_its_source(tonnage: Deployment, scheduler: SchedulerClient) -> None:
    source = made_in(tonnage, scheduler, "one")
    content = written(tonnage.path("one") / source, 2)
    clone = str(uuid.uuid4())
    answer = scheduler.create(
        CreateVolume(request_id=f"req-{clone}", volume_id=clone, size_gb=2, project_id="demo", source_volume_id=source)
    )
    assert answer.pool == tonnage.pool("one")
    assert tonnage.rest.made(clone)["size"] == 2
    tonnage.rest.delete(source)
    holds(tonnage.path("one") / clone, content)
    assert tonnage.files("one")[clone].st_size == 2 * GIB


def test_a_file_is_taken_over_and_moved(tonnage: Deployment, scheduler: SchedulerClient) -> None:
    image = tonnage.path("one") / "image.raw"
    image.touch()
    os.truncate(image, GIB)
    content = written(image, 3)
    os.truncate(image, 3 * GIB // 2)
    volume_id = str(uuid.uuid4())
    scheduler.manage(
        ManageVolume(
            request_id=f"req-{volume_id}",
            volume_id=volume_id,
            pool=tonnage.pool("one"),
            reference="image.raw",
            project_id="demo",
        )
    )
    assert tonnage.rest.made(volume_id)["size"] == 2
    assert list(tonnage.files("one")) == [volume_id]
    tonnage.check_at_rest()
    moved(tonnage, scheduler, volume_id, "two")
    holds(tonnage.path("two") / volume_id, content)


@pytest.mark.parametrize("victim", ["agent", pytest.param("scheduler", marks=pytest.mark.heavy)])
def test_a_move_survives_what_is_killed_meanwhile(tonnage: Deployment, scheduler: SchedulerClient, victim: str) -> None:
    volume_id = made_in(tonnage, scheduler, "one")
    content = written(tonnage.path("one") / volume_id, 4, megabytes=300)
    caught_moving(tonnage, scheduler, volume_id)
    tonnage.kill(victim)
    tonnage.start(victim)
    until(lambda: tonnage.rest.volume(volume_id)["status"] == "available", "the move has ended")
    backend = next(name for name in BACKENDS if is_in(tonnage, volume_id, name))
    others = [other for other in BACKENDS if other != backend]
    until(lambda: not any(volume_id in tonnage.files(other) for other in others), "there is one copy")
    holds(tonnage.path(backend) / volume_id, content)
