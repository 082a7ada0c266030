# SPDX-License-Identifier: Apache-2.0
"""Quota usage from a real OpenStack Placement."""

import pathlib
import tempfile
import uuid
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.deployment import Addresses, Deployment, render
from tests.servers import base, ledger_schema, openstack
from tests.servers.placement import Placement
from tests.unit.cli import command_runs
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage import enabled_extensions
from tonnage.cli import manage
from tonnage.extensions.placement import allocation_check, options, placement_allocations
from tonnage.extensions.placement.allocation_writer import AllocationWriter
from tonnage.extensions.placement.client import PlacementUnavailable
from tonnage.extensions.placement.project_usage import PlacementUsage
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import deletions
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options
from tonnage.quotas import limits
from tonnage.quotas import options as quota_options
from tonnage.quotas.limits import Holder, Item, LimitOwner, Resource, Scope
from tonnage.quotas.options import Settings
from tonnage.rpc.messages import Answer, MigrateVolume, MigrationPolicy, RetypeVolume
from tonnage.scheduler.requests.placement_requests import Move

GIGABYTES = Item(Resource.GIGABYTES)

#: The columns of the table of wrong allocations.
DIFFERENCES = ["cause", "pool", "consumer id", "told gb", "held gb"]


def configured(section: dict[str, str]) -> cfg.ConfigOpts:
    """Return a configuration with a section ``[placement]``."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(render({"placement": section}))
        file.flush()
        conf = cfg.ConfigOpts()
        conf(["--config-file", file.name])
    return conf


class Cloud(World):
    """A world with usage from Placement. Its project has a unique name, because tests share a Placement."""

    def __init__(
        self, server: Placement, limit: int = -1, engine: sa.Engine | None = None, **pools: StoragePool
    ) -> None:
        # Providers of other tests may have the same names.
        names = {f"{name}-{uuid.uuid4().hex[:6]}": pool for name, pool in sorted(pools.items())}
        super().__init__(names, engine=engine)
        self.project = uuid.uuid4().hex
        self.server = server
        self.client = options.required(configured(server.options))
        self.writer = AllocationWriter(self.database, self.client)
        self.clock = 0.0
        settings = Settings(placed_only=True)
        self.usage = PlacementUsage(self.database, self.client, settings, lambda: self.clock, attempt_pause=0.0)
        self.placer.quotas = replace(settings, external_usage=self.usage)
        if limit >= 0:
            self.limit(limit)

    def limit(self, gigabytes: int, user_id: str = "") -> None:
        self.database.run(limits.put, LimitOwner(Holder.PROJECT, self.project, user_id), {GIGABYTES: gigabytes})

    def create_message(self, size: int) -> Any:
        return replace(super().create_message(size), project_id=self.project, user_id="u")

    def pool(self, number: int) -> str:
        return f"{BACKEND}#{list(self.pools)[number]}"

    def write_allocations(self) -> None:
        """Write all allocations to Placement."""
        self.writer.providers.reconcile()
        done = self.writer.write_all()
        assert done.pending == done.done

    def read(self) -> int:
        """Read the usage as before a decision, and return the GiB of other consumers than the ledger's volumes."""
        self.clock += 10
        self.usage.read([self.project])
        return self.usage.used_gb(Scope(self.project))

    def fits(self, size: int) -> bool:
        """Read the usage, request a volume, and return whether the quota allows it."""
        self.read()
        [answer] = self.create(size)
        assert isinstance(answer, Answer)
        assert answer.refusal is None or answer.refusal.excess is not None
        return answer.refusal is None

    def allocation(self, user_id: str, size: int, generation: int | None = None) -> dict[str, Any]:
        """Return the request body of another writer for a consumer in the first pool."""
        here = {self.server.provider(self.pool(0)): {"resources": {"DISK_GB": size}}}
        return {
            "allocations": here if size else {},
            "project_id": self.project,
            "user_id": user_id,
            "consumer_generation": generation,
            "consumer_type": "VOLUME",
        }

    def check(self) -> None:
        """Assert that the allocations of each provider equal those of its pool."""
        for name, allocated in self.rows("SELECT name, allocated_capacity_gb FROM pools"):
            assert sum(self.server.holders(name).values()) == allocated


def thin(total: int = 1000, ratio: float = 2.0, reserved: int = 10) -> StoragePool:
    return StoragePool(total, ratio, thin=True, thick=False, reserved=reserved)


def test_allocations_follow_a_volume_through_all_operations(placement_server: Placement) -> None:
    cloud = Cloud(placement_server, p0=thin(), p1=thin()).started()
    for name in ("plain", "other"):
        cloud.database.run(volume_types.create, name)
    volume_id = cloud.made(5)
    cloud.write_allocations()
    [(here,)] = cloud.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    [there] = {cloud.pool(0), cloud.pool(1)} - {here}
    assert cloud.server.inventory(here) == cloud.server.inventory(there) == (1000, 100, 2.0)
    assert cloud.server.holders(here) == {volume_id: 5}
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 5)}
    # The new size counts from the decision on.
    cloud.extend(volume_id, 8)
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8)}
    cloud.settle()
    cloud.write_allocations()
    cloud.check()
    # During a migration both pools have an allocation, and the volume counts once.
    move = MigrateVolume(request_id=cloud.request_id(), volume_id=volume_id)
    [answer] = cloud.place([Move(move)])
    assert isinstance(answer, Answer)
    assert answer.pool == there
    cloud.write_allocations()
    assert cloud.server.holders(here) == {volume_id: 8}
    [(copy, size)] = cloud.server.holders(there).items()
    assert (copy != volume_id, size) == (True, 8)
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8), "MIGRATION": (1, 8)}
    # The old copy counts in its pool until it is deleted.
    outcome = cloud.agent.work()
    assert outcome is not None
    cloud.deliver(outcome)
    cloud.write_allocations()
    assert cloud.server.holders(there) == {volume_id: 8}
    assert list(cloud.server.holders(here).values()) == [8]
    cloud.check()
    cloud.settle()
    cloud.write_allocations()
    assert cloud.server.holders(here) == {}
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8)}
    # A new type alone changes nothing.
    retype = RetypeVolume(
        request_id=cloud.request_id(),
        volume_id=volume_id,
        volume_type="other",
        migration_policy=MigrationPolicy.NEVER,
    )
    cloud.place([retype])
    assert cloud.writer.write_all().pending == 0
    unmanaged = cloud.made(3)
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 11)}
    cloud.database.run(deletions.unmanage, cloud.request_id(), unmanaged)
    cloud.delete(volume_id)
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8)}
    cloud.settle()
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {}
    cloud.check()
    assert cloud.rows("SELECT COUNT(*) FROM placement_allocations") == [(0,)]


def test_the_limit_is_exact_with_and_without_written_allocations(placement_server: Placement) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    assert cloud.fits(5)
    assert cloud.fits(5)
    cloud.write_allocations()
    assert cloud.fits(5)
    # Some allocations are written and some are not.
    assert not cloud.fits(6)
    assert cloud.read() == 0
    # Allocations of other writers count.
    cloud.write_allocations()
    cloud.server.put(f"/allocations/{uuid.uuid4()}", cloud.allocation("somebody", 3))
    assert cloud.read() == 3
    assert not cloud.fits(3)
    assert cloud.fits(2)
    assert not cloud.fits(1)
    assert cloud.rows("SELECT SUM(size_gb) FROM volumes") == [(17,)]


def test_volumes_are_created_while_placement_is_down_and_written_later(
    placement_server: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    assert cloud.fits(5)
    cloud.write_allocations()
    assert cloud.read() == 0
    placement_server.kill()
    assert [cloud.fits(size) for size in (5, 5, 6, 5, 1)] == [True, True, False, True, False]
    with pytest.raises(PlacementUnavailable, match=r"OpenStack Placement cannot be asked: .*refused"):
        cloud.writer.write_all()
    warned = [record.getMessage() for record in caplog.records if "counted from the ledger" in record.getMessage()]
    assert len(warned) == 1
    assert warned[0].startswith("Usage is counted from the ledger, as OpenStack Placement is away (OpenStack Placement")
    # This volume is deleted before its allocation is written.
    cloud.settle()
    [(gone,), *_] = cloud.rows("SELECT volume_id FROM placement_allocations WHERE size_gb = 0 ORDER BY volume_id")
    cloud.delete(gone)
    cloud.settle()
    placement_server.start()
    assert cloud.read() == 0
    cloud.write_allocations()
    cloud.check()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (3, 15)}
    assert cloud.rows("SELECT COUNT(*) FROM placement_allocations") == [(3,)]
    assert cloud.fits(5)
    assert not cloud.fits(1)


def test_lost_or_changed_allocations_are_written_again(
    placement_server: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    volume_id, other = cloud.made(5), cloud.made(6)
    cloud.write_allocations()
    cloud.server.put(f"/allocations/{volume_id}", cloud.allocation("u", 0, generation=1))
    [lost] = allocation_check.check(cloud.database, cloud.client).differences
    assert (lost.cause, lost.consumer_id, lost.told_gb, lost.held_gb) == (allocation_check.Cause.LOST, volume_id, 5, 0)
    # The project gets no more quota.
    assert not cloud.fits(10)
    assert "has lost 5 GiB of the allocations of project" in caplog.text
    cloud.extend(other, 7)
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 12)}
    assert allocation_check.check(cloud.database, cloud.client).differences == []
    # A round whose end is not recorded.
    cloud.extend(volume_id, 6)
    with cloud.database.reading() as session:
        ids = placement_allocations.compare(session).volume_ids
    written = cloud.writer._write(cloud.database.run(placement_allocations.plan, ids, "cut off"), "cut off")
    assert [(each.size_gb, each.generation) for each in written] == [(6, 2)]
    assert cloud.read() == 0
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 13)}
    cloud.check()


def test_a_refused_allocation_does_not_affect_others(
    placement_server: Placement, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 100, p0=thin()).started()
    first = cloud.made(5)
    cloud.write_allocations()
    assert cloud.read() == 0
    cloud.extend(first, 6)
    others = [cloud.made(size) for size in (1, 2)]
    # Another writer has reduced the inventory, and the patched writer cannot restore it.
    monkeypatch.setattr(cloud.writer.providers, "clear_cache", lambda: None)
    monkeypatch.setattr(cloud.writer.providers, "_write", lambda *given: None)
    generation = cloud.server.get(f"/resource_providers/{cloud.server.provider(cloud.pool(0))}")["generation"]
    small = {"total": 10, "allocation_ratio": 1.0, "max_unit": 5}
    inventory = {"resource_provider_generation": generation, "inventories": {"DISK_GB": small}}
    cloud.server.put(f"/resource_providers/{cloud.server.provider(cloud.pool(0))}/inventories", inventory)
    done = cloud.writer.write_all()
    assert (done.pending, done.done) == (3, 2)
    assert f"The allocation of volume {first} is tried again later" in caplog.text
    assert cloud.server.holders(cloud.pool(0)) == {first: 5, **dict(zip(others, (1, 2), strict=True))}
    # The content of Placement is still known, and so is the usage.
    assert cloud.rows("SELECT COUNT(*) FROM placement_allocations WHERE doubt IS NOT NULL") == [(0,)]
    cloud.server.put(f"/allocations/{uuid.uuid4()}", cloud.allocation("somebody", 2))
    assert cloud.read() == 2
    monkeypatch.undo()
    cloud.write_allocations()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (4, 11)}


def test_the_ratio_of_an_inventory_is_raised_to_the_allocations(placement_server: Placement) -> None:
    cloud = Cloud(placement_server, p0=thin(100, 1.5, 20)).started()
    cloud.made(115)
    cloud.write_allocations()
    assert cloud.server.inventory(cloud.pool(0)) == (100, 20, 1.5)
    # Placement's limit is 120 GiB. Tonnage's limit is 150 GiB, because the reserve does not reduce thin capacity.
    cloud.made(30)
    cloud.write_allocations()
    assert cloud.server.inventory(cloud.pool(0)) == (100, 20, 1.82)
    cloud.check()


def test_placement_is_found_in_the_catalog_with_the_options_of_nova(placement_server: Placement) -> None:
    with openstack.Cloud() as keystone:
        found = options.required(configured(keystone.options))
        with pytest.raises(PlacementUnavailable, match=r"cannot be asked: .*placement"):
            found.providers()
        keystone.placement = placement_server.url
        name = uuid.uuid4().hex
        patient = keystone.options | {"timeout": "60"}
        found = options.required(configured(patient | {"valid_interfaces": "admin"}))
        found.create_provider(name, str(uuid.uuid4()))
        assert name in found.providers()
        wrong = options.required(configured(patient | {"password": "wrong"}))
        with pytest.raises(
            PlacementUnavailable, match="cannot be asked: The request you have made requires authentication"
        ):
            wrong.providers()


def test_every_database_finds_the_allocations_to_write(ledger_url: str) -> None:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    pools = {f"p{number}": thin() for number in range(2)}
    world = World(pools, engine=engine).started()
    ledger = world.database
    ids = sorted(world.made(size) for size in (5, 6, 7))

    def compare(after: str = "", rows: int = 10) -> tuple[list[str], str | None]:
        with ledger.reading() as session:
            found = placement_allocations.compare(session, after, rows)
        return found.volume_ids, found.upto

    def differing() -> list[str]:
        return compare()[0]

    def write(*volume_ids: str) -> dict[tuple[str, str], int]:
        plan = ledger.run(placement_allocations.plan, volume_ids, "round")
        ledger.run(placement_allocations.record_sent, plan, "round")
        return {(each.volume_id, each.consumer_type.value): each.size_gb for each in plan}

    with ledger.reading() as session:
        now = placement_allocations.now(session)
        assert placement_allocations.any_unsent(session, now)
    assert compare() == (ids, None)
    assert (compare("", 3), compare(ids[1], 3)) == ((ids[:2], ids[1]), (ids[2:], None))
    assert sorted(write(*ids).values()) == [5, 6, 7]
    assert differing() == []
    with ledger.reading() as session:
        assert not placement_allocations.any_unsent(session, now)
        assert placement_allocations.sent_usage(session, "demo") == placement_allocations.SentUsage({"": 18}, False)
        assert sum(pool.sent_gb for pool in placement_allocations.pools(session)) == 18
        assert [pool.allocated_gb - pool.sent_gb for pool in placement_allocations.pools(session)] == [0, 0]
    # The allocations of an unfinished round are found again, and its end no longer counts.
    world.extend(ids[0], 20)
    plan = ledger.run(placement_allocations.plan, ids, "first")
    assert [each.size_gb for each in plan] == [20]
    with ledger.reading() as session:
        assert placement_allocations.sent_usage(session, "demo").doubt
    ledger.run(placement_allocations.plan, ids, "second")
    ledger.run(placement_allocations.record_sent, plan, "first")
    assert differing() == ids[:1]
    ledger.run(placement_allocations.record_sent, plan, "second")
    assert differing() == []
    world.settle()
    # A copy in another pool is a consumer of its own.
    world.place([Move(MigrateVolume(request_id=world.request_id(), volume_id=ids[1]))])
    assert list(write(*differing())) == [(ids[1], "MIGRATION")]
    with ledger.reading() as session:
        assert placement_allocations.sent_usage(session, "demo").of("") == sum(
            row[0] for row in world.rows("SELECT size_gb FROM volumes")
        )
    engine.dispose()


def run(line: str, conf_file: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[list[str]]]:
    """Run a command of tonnage-manage, and return its exit status and the cells of its table."""
    conf = cfg.ConfigOpts()
    enabled_extensions.register(conf)
    quota_options.register(conf)
    database_options.register(conf)
    enabled_extensions.register(conf)
    conf(["--config-file", str(conf_file)])
    capsys.readouterr()
    status = command_runs.run(manage.program(), line.split(), conf)
    lines = [line.strip("| ").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    return status, [[cell.strip() for cell in line] for line in lines]


def test_commands_write_check_and_repair_allocations(
    placement_server: Placement, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = f"sqlite:///{tmp_path}/tonnage.sqlite", tmp_path / "tonnage.conf"
    engine = database.create_engine(url)
    ledger_schema.create(engine)
    cloud = Cloud(placement_server, 100, engine, p0=thin()).started()
    ids = [cloud.made(size) for size in (1, 2, 3)]
    ledger = {"database": {"connection": url}}
    migrate = "db online_data_migrations"

    def migrations(needed: int, done: int) -> list[list[str]]:
        return [["Migration", "Total Needed", "Completed"], ["placement_allocations", str(needed), str(done)]]

    # Without [placement] there is nothing to write.
    file.write_text(render(ledger))
    assert run(migrate, file, capsys) == (0, migrations(0, 0))
    # The allocations are written before usage_source changes.
    sections = {**ledger, "placement": cloud.server.options}
    file.write_text(render(sections))
    assert run(f"{migrate} --max-count 2", file, capsys) == (1, migrations(2, 2))
    assert run(f"{migrate} --max-count 2", file, capsys) == (1, migrations(1, 1))
    assert run(f"{migrate} --max-count 2", file, capsys) == (0, migrations(0, 0))
    assert run(f"{migrate} --max-count 0", file, capsys) == (127, [])
    assert cloud.server.holders(cloud.pool(0)) == dict(zip(ids, (1, 2, 3), strict=True))
    # With usage_source = placement a lost allocation is an error.
    file.write_text(render({**sections, "quota": {"usage_source": "placement"}}))
    assert run("quota check", file, capsys) == (0, [])
    cloud.server.put(f"/allocations/{ids[1]}", cloud.allocation("u", 0, generation=1))
    stranger = str(uuid.uuid4())
    cloud.server.put(f"/allocations/{stranger}", cloud.allocation("u", 9))
    lost, foreign = (["lost", cloud.pool(0), ids[1], "2", "0"], ["foreign", cloud.pool(0), stranger, "0", "9"])
    assert run("quota check", file, capsys) == (3, [DIFFERENCES, lost, foreign])
    # An allocation that does not fit beside those of others cannot be repaired.
    greedy = str(uuid.uuid4())
    cloud.server.put(f"/allocations/{greedy}", cloud.allocation("u", 1800 - 13))
    full = ["foreign", cloud.pool(0), greedy, "0", str(1800 - 13)]
    status, shown = run("quota sync", file, capsys)
    assert (status, shown[:2], sorted(shown[2:])) == (3, [DIFFERENCES, lost], sorted([foreign, full]))
    # The ledger has recorded that the allocation is missing, so it is written as soon as it fits.
    cloud.server.put(f"/allocations/{greedy}", cloud.allocation("u", 0, generation=1))
    assert run("quota sync", file, capsys) == (0, [DIFFERENCES, foreign])
    assert cloud.server.holders(cloud.pool(0))[ids[1]] == 2
    cloud.server.put(f"/allocations/{ids[1]}", cloud.allocation("u", 0, generation=1))
    assert run("quota sync", file, capsys) == (4, [DIFFERENCES, lost, foreign])
    assert run("quota check", file, capsys) == (0, [DIFFERENCES, foreign])
    # Without Placement the check and the writes fail.
    cloud.extend(ids[0], 4)
    placement_server.kill()
    with pytest.raises(PlacementUnavailable):
        run("quota check", file, capsys)
    assert run(migrate, file, capsys) == (2, migrations(0, 0))
    placement_server.start()
    assert run(migrate, file, capsys) == (0, migrations(1, 1))
    file.write_text(render({**ledger, "quota": {"usage_source": "placement"}}))
    assert run(migrate, file, capsys) == (2, [])
    engine.dispose()


def over_quota(deployment: Deployment, size: int) -> bool:
    """Request a volume, and return whether it exceeds the quota."""
    answer = deployment.rest.request_volume(size)
    assert answer.status_code in (202, 413), answer.text
    return answer.status_code == 413


def in_use(deployment: Deployment) -> int:
    """Return the usage of the project in GiB, as the API shows it."""
    shown = deployment.rest.get("os-quota-sets/demo", usage=True)["quota_set"]["gigabytes"]
    return int(shown["in_use"]) + int(shown["reserved"])


def test_a_deployment_uses_placement_and_survives_its_outage(placement_server: Placement) -> None:
    backends = {"thin": {"filesystem_size_limit_gb": 8, "max_over_subscription_ratio": 2.0}}
    sections = {"placement": placement_server.options, "quota": {"count_usage_from_placement": True}}
    with Deployment(Addresses(), backends, sections=sections) as deployment:
        rest, pool = deployment.start().rest, deployment.pool("thin")
        assert rest.request("PUT", "os-quota-sets/demo", {"quota_set": {"gigabytes": 12}}).status_code == 200
        assert [over_quota(deployment, size) for size in (6, 7, 2, 5)] == [False, True, False, True]
        base.wait_for(lambda: sum(placement_server.holders(pool).values()) == 8, "Placement has the allocations")
        placement_server.kill()
        # Usage is counted from the ledger, with one log line.
        volume_id = rest.create(3)
        assert [over_quota(deployment, size) for size in (2, 1, 1)] == [True, False, True]
        rest.wait_until_available(volume_id)
        rest.delete(volume_id)
        away = "Usage is counted from the ledger, as OpenStack Placement is away"
        base.wait_for(
            lambda: over_quota(deployment, 10) and away in deployment.logs(), "the log says that Placement is away"
        )
        assert [over_quota(deployment, 10) for _ in range(3)] == [True] * 3
        assert deployment.logs().count(away) == 1
        placement_server.start()
        base.wait_for(
            lambda: sum(placement_server.holders(pool).values()) == 9, "Placement has the allocations of the outage"
        )
        assert in_use(deployment) == 9
        checked = deployment.run_command("manage", None, "quota", "check")
        assert (checked.code, checked.output.splitlines()[-1]) == (
            0,
            "OpenStack Placement: it holds all that it was told",
        )
        # Allocations of other writers count and are shown.
        here = {placement_server.provider(pool): {"resources": {"DISK_GB": 2}}}
        foreign = {
            "allocations": here,
            "project_id": "demo",
            "user_id": "somebody",
            "consumer_generation": None,
            "consumer_type": "VOLUME",
        }
        placement_server.put(f"/allocations/{uuid.uuid4()}", foreign)
        base.wait_for(
            lambda: "11G has been consumed" in rest.request_volume(10).text, "the allocation of another writer counts"
        )
        base.wait_for(lambda: in_use(deployment) == 11, "the allocation of another writer is shown")
        assert not over_quota(deployment, 1)
