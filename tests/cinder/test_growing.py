# SPDX-License-Identifier: Apache-2.0
"""Volumes of Cinder that move to grow: one volume, one place, one size afterwards, whatever happens meanwhile."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.cinder import operations, quota_site, sites
from tests.cinder.operations import FIRST, SECOND, action, on, placed
from tests.cinder.quota_site import QuotaSite
from tests.cinder.sites import Site
from tests.servers import Cinder, MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

#: The size of each pool in GiB, and that of the volume before and after.
TOTAL, SIZE, NEW_SIZE = 10, 1, 3

#: The steps at which a scheduler is killed, and whether the volume grows all the same.
KILLS = {
    "after book_growth": True,
    "before mark": True,
    "after mark": True,
    "before record moving": True,
    "after record moving": False,
    "before migrate": False,
    "before record extending": True,
    "after record extending": True,
    "after extend": True,
    "before record sent": True,
    "after record sent": True,
    "before end": True,
    "after end": True,
}

#: The same while the move fails: the volume does not grow in any case.
KILLS_WHILE_UNDOING = (
    "before record undoing",
    "after record undoing",
    "before roll_back",
    "before give_back",
    "after give_back",
    "before end",
)

#: Copies by a host are made as root; for another account Cinder would need sudo.
by_host = pytest.mark.skipif(os.geteuid() != 0, reason="Cinder copies volumes as root")


@pytest.fixture(scope="module", params=["tonnage", "stock"])
def whole_site(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, request: pytest.FixtureRequest
) -> Iterator[tuple[Site, QuotaSite]]:
    """Two backends with a pool of 10 GiB each, and either quota driver."""
    more = {
        "scheduler_manager": "mortal_manager.MortalManager",
        "report_interval": "2",
        "service_down_time": "20",
        "quota_snapshots": "-1",
    }
    if request.param == "tonnage":
        more["quota_driver"] = quota_site.DRIVER
    shape = Shape(backends=["b1", "b2"], pools=["a"], total_gb=TOTAL, schedulers=2, more=more)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape, growth_silence="6") as site:
        engine = sa.create_engine(site.cinder.database, pool_pre_ping=True)
        kind = {"name": "growing", "extra_specs": {"provisioning:extend_by_migration": "<is> True"}}
        site.cinder.request("POST", "/types", {"volume_type": kind})
        yield site, QuotaSite(site.cinder, engine)
        engine.dispose()


class Scene:
    """A volume of 1 GiB in the first pool, where it can grow by 1 GiB."""

    def __init__(self, site: Site, quotas: QuotaSite) -> None:
        self.site, self.quotas, self.cinder = site, quotas, site.cinder
        self.volume_id = placed(site, SIZE, volume_type=on(self.cinder, "b1"))
        with quotas.engine.begin() as connection:  # the driver cannot retype
            chosen = "(SELECT id FROM volume_types WHERE name = 'growing')"
            connection.execute(
                sa.text(f"UPDATE volumes SET volume_type_id = {chosen} WHERE id = :v"), {"v": self.volume_id}
            )
        placed(site, TOTAL - SIZE - 1, volume_type=on(self.cinder, "b1"))
        operations.agree(site)

    def row(self) -> dict[str, Any]:
        """Return the volume as the API shows it."""
        return self.cinder.volumes()[self.volume_id]

    def extend(self, new_size: int = NEW_SIZE) -> None:
        """Request the extension."""
        action(self.cinder, self.volume_id, "os-extend", {"new_size": new_size})

    def ends(self, pool: str, size: int) -> None:
        """Wait until the volume is at rest, and compare ledger, rows, files and quotas: it has one place, one size."""

        def state() -> tuple[Any, ...]:
            row = self.row()
            return (
                row["status"],
                row["os-vol-host-attr:host"],
                row["size"],
                self.site.rows("SELECT * FROM cinder_growths"),
            )

        expected = ("available", pool, size, [])
        try:
            wait_for(lambda: state() == expected, "the growth has ended", 90)
        except TimeoutError:
            raise AssertionError(f"{state()}, not {expected}") from None
        rows = self.quotas.scalar("SELECT COUNT(*) FROM volumes WHERE deleted = :d")
        assert rows == 2
        migration_status = self.row()["os-vol-mig-status-attr:migstat"]
        assert migration_status == ("success" if pool == SECOND else None)
        operations.agree(self.site)
        self.quotas.agree()
        assert self.quotas.of_type("growing") == 1

    def messages(self) -> list[str]:
        """Return the messages about the volume."""
        messages = self.cinder.request("GET", f"/messages?resource_uuid={self.volume_id}")["messages"]
        return [message["user_message"] for message in messages]

    def reason(self) -> str:
        """Return the last reason that ``tonnage why`` has."""
        return str(self.site.why(self.volume_id)["refusals"][0]["message"])


@pytest.fixture
def scene(whole_site: tuple[Site, QuotaSite]) -> Iterator[Scene]:
    site, quotas = whole_site
    for volume_id in site.cinder.volumes():  # of a test that failed
        action(site.cinder, volume_id, "os-force_delete", {})
    with operations.emptied(site):
        yield Scene(site, quotas)
        for name in ("kill_at", "killed", "freeze_at", "frozen"):
            (site.cinder.folder / name).unlink(missing_ok=True)
        for name in site.cinder.shape.backends:
            site.cinder.control(name)
        start_missing(site.cinder)


def start_missing(cinder: Cinder) -> None:
    """Start the services that were killed."""
    for number in range(cinder.shape.schedulers):
        if cinder.services[f"scheduler{number}"].poll() is not None:
            cinder.start_scheduler(number)
    if cinder.services["volume"].poll() is not None:
        cinder.start_service("volume", "cinder-volume", patched=False)


def kill_volume_service(cinder: Cinder) -> None:
    """Kill cinder-volume, and start it again after more than the time between two heartbeats."""
    cinder.signal_service("volume", signal.SIGKILL)
    cinder.services["volume"].wait()
    time.sleep(4)
    start_missing(cinder)


def test_a_volume_grows_where_it_is_while_there_is_room(scene: Scene) -> None:
    scene.extend(2)
    scene.ends(FIRST, 2)


def test_a_volume_moves_to_grow_by_its_driver(scene: Scene) -> None:
    scene.extend()
    scene.ends(SECOND, NEW_SIZE)


@by_host
def test_a_volume_moves_to_grow_by_a_host(scene: Scene) -> None:
    scene.cinder.control("b1", by_host=True)
    scene.extend()
    scene.ends(SECOND, NEW_SIZE)


def test_a_volume_that_fits_nowhere_is_refused(scene: Scene) -> None:
    scene.extend(TOTAL + 1)
    wait_for(lambda: scene.row()["status"] == "available", "the volume is available")
    scene.ends(FIRST, SIZE)
    assert f"which has no room to grow in {FIRST}: 2 pools; CapacityFilter refused 2" in scene.reason()
    assert scene.messages() == ["extend volume:Could not find any available weighted backend."]


def test_a_volume_that_cannot_move_is_refused_with_the_reason(scene: Scene) -> None:
    body = {"snapshot": {"volume_id": scene.volume_id}}
    snapshot = scene.cinder.request("POST", "/snapshots", body)["snapshot"]["id"]
    path = f"/snapshots/{snapshot}"
    wait_for(lambda: scene.cinder.request("GET", path)["snapshot"]["status"] == "available", "the snapshot is made")
    scene.extend()
    wait_for(lambda: scene.row()["status"] == "available", "the volume is available")
    assert "cannot move to grow: it has snapshots: 1 pool; CapacityFilter refused 1, nearest real@b1" in scene.reason()
    scene.cinder.request("DELETE", path)
    wait_for(lambda: not scene.cinder.request("GET", "/snapshots")["snapshots"], "the snapshot is gone")
    scene.ends(FIRST, SIZE)


def test_an_attached_volume_is_refused_with_the_reason(scene: Scene) -> None:
    """Cinder copies it by Nova alone."""
    server = {"instance_uuid": str(uuid.uuid4()), "mountpoint": "/dev/vdb"}
    action(scene.cinder, scene.volume_id, "os-attach", server)
    wait_for(lambda: scene.row()["status"] == "in-use", "the volume is attached")
    scene.extend()
    wait_for(lambda: scene.row()["status"] == "in-use", "the volume is in use again")
    assert "cannot move to grow: it is attached, and Cinder would need Nova to copy it: 1 pool" in scene.reason()
    action(scene.cinder, scene.volume_id, "os-detach", {})
    scene.ends(FIRST, SIZE)


@pytest.mark.parametrize(
    "orders",
    [
        {"b1": {"fail_move": True}},
        pytest.param({"b1": {"by_host": True}, "b2": {"fail": True}}, marks=by_host),
        pytest.param({"b1": {"by_host": True}, "b2": {"fail_connect": True}}, marks=by_host),
    ],
    ids=["move", "create", "copy"],
)
def test_a_move_that_fails_leaves_the_volume_as_it_was(scene: Scene, orders: dict[str, dict[str, bool]]) -> None:
    for backend, order in orders.items():
        scene.cinder.control(backend, **order)
    scene.extend()
    wait_for(lambda: scene.row()["status"] == "available", "the volume is available", 60)
    for backend in orders:
        scene.cinder.control(backend)
    scene.ends(FIRST, SIZE)
    assert "it could not be copied" in scene.reason()
    assert len(scene.messages()) == 1


@pytest.mark.parametrize("words", KILLS)
def test_kills_of_a_scheduler(scene: Scene, words: str) -> None:
    if words.endswith("record sent"):  # it is recorded while the extension runs
        scene.cinder.control("b2", extend_seconds=8)
    (scene.cinder.folder / "kill_at").write_text(words)
    scene.extend()
    wait_for((scene.cinder.folder / "killed").exists, "a scheduler is killed")
    scene.ends(*((SECOND, NEW_SIZE) if KILLS[words] else (FIRST, SIZE)))


def test_a_kill_right_after_the_command_ends_well_either_way(scene: Scene) -> None:
    """The command may not have reached the bus."""
    (scene.cinder.folder / "kill_at").write_text("after migrate")
    scene.extend()
    wait_for((scene.cinder.folder / "killed").exists, "a scheduler is killed")
    wait_for(lambda: scene.row()["status"] == "available", "the growth has ended")
    row = scene.row()
    assert (row["os-vol-host-attr:host"], row["size"]) in ((FIRST, SIZE), (SECOND, NEW_SIZE))
    scene.ends(row["os-vol-host-attr:host"], row["size"])


@pytest.mark.parametrize("words", ["before mark", "before record moving", "before migrate", "before record extending",
                                   "before extend"])  # fmt: skip
def test_a_scheduler_that_was_frozen_changes_nothing(scene: Scene, words: str) -> None:
    (scene.cinder.folder / "freeze_at").write_text(words)
    scene.extend()
    frozen = scene.cinder.folder / "frozen"
    wait_for(frozen.exists, "a scheduler is frozen")
    outcome = (FIRST, SIZE) if words == "before migrate" else (SECOND, NEW_SIZE)
    try:
        scene.ends(*outcome)
    finally:
        os.killpg(int(frozen.read_text()), signal.SIGCONT)
    time.sleep(5)
    scene.ends(*outcome)


def test_an_extension_runs_once_though_its_scheduler_dies(scene: Scene) -> None:
    scene.cinder.control("b2", extend_seconds=30)
    (scene.cinder.folder / "kill_at").write_text("after record sent")
    scene.extend()
    wait_for((scene.cinder.folder / "killed").exists, "a scheduler is killed")
    scene.ends(SECOND, NEW_SIZE)


@pytest.mark.parametrize("words", KILLS_WHILE_UNDOING)
def test_kills_of_a_scheduler_that_undoes_a_growth(scene: Scene, words: str) -> None:
    scene.cinder.control("b1", fail_move=True)
    (scene.cinder.folder / "kill_at").write_text(words)
    scene.extend()
    wait_for((scene.cinder.folder / "killed").exists, "a scheduler is killed")
    scene.ends(FIRST, SIZE)


@pytest.mark.parametrize(
    "orders",
    [
        {"b1": {"move_seconds": 8}},
        pytest.param({"b1": {"by_host": True}, "b2": {"create_seconds": 8}}, marks=by_host),
        pytest.param({"b1": {"by_host": True, "connect_seconds": 8}}, marks=by_host),
    ],
    ids=["move", "create", "copy"],
)
def test_kills_of_the_volume_service_while_it_moves_a_volume(scene: Scene, orders: dict[str, dict[str, float]]) -> None:
    for backend, order in orders.items():
        scene.cinder.control(backend, **order)
    scene.extend()
    wait_for(lambda: scene.row()["os-vol-mig-status-attr:migstat"] == "migrating", "the volume moves")
    time.sleep(4)
    kill_volume_service(scene.cinder)
    scene.ends(FIRST, SIZE)


def test_kills_of_the_volume_service_while_it_extends_a_volume(scene: Scene) -> None:
    scene.cinder.control("b2", extend_seconds=8)
    scene.extend()
    wait_for(lambda: scene.row()["os-vol-mig-status-attr:migstat"] == "success", "the volume has moved")
    time.sleep(4)
    kill_volume_service(scene.cinder)
    scene.ends(SECOND, NEW_SIZE)


def test_a_reset_status_ends_a_growth(scene: Scene) -> None:
    scene.cinder.control("b1", move_seconds=5)
    scene.extend()
    wait_for(lambda: scene.row()["os-vol-mig-status-attr:migstat"] == "migrating", "the volume moves")
    action(scene.cinder, scene.volume_id, "os-reset_status", {"status": "available"})
    scene.ends(SECOND, SIZE)
