# SPDX-License-Identifier: Apache-2.0
"""Usage counted from OpenStack Placement, the real one."""

import pathlib
import tempfile
import uuid
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.deployment import Addresses, Deployment, render
from tests.servers import base, openstack
from tests.servers.placement import Placement
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.cli import manage
from tonnage.ledger.catalog import placement_allocations, volume_types
from tonnage.ledger.claims import deletions
from tonnage.ledger.db import database, schema
from tonnage.placement import allocation_check, options
from tonnage.placement.allocation_writer import AllocationWriter
from tonnage.placement.client import PlacementUnavailable
from tonnage.placement.project_usage import PlacementUsage
from tonnage.quotas import limit_rows
from tonnage.quotas import options as quota_options
from tonnage.quotas.limits import Holder, Item, Place, Resource, Scope
from tonnage.quotas.options import Settings
from tonnage.rpc.messages import Answer, MigrateVolume, MigrationPolicy, RetypeVolume
from tonnage.scheduler.decisions.placement_requests import Move

GIGABYTES = Item(Resource.GIGABYTES)

#: What is shown of allocations that are otherwise than told.
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
    """A world that counts usage from Placement. Its project has a name of its own, as Placement keeps what was told."""

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
        self.usage = PlacementUsage(self.database, self.client, settings, lambda: self.clock, lambda seconds: None)
        self.placer.quotas = replace(settings, beside=self.usage)
        if limit >= 0:
            self.limit(limit)

    def limit(self, gigabytes: int, user_id: str = "") -> None:
        self.database.run(limit_rows.put, Place(Holder.PROJECT, self.project, user_id), {GIGABYTES: gigabytes})

    def create_message(self, size: int) -> Any:
        return replace(super().create_message(size), project_id=self.project, user_id="u")

    def pool(self, number: int) -> str:
        return f"{BACKEND}#{list(self.pools)[number]}"

    def tell(self) -> None:
        """Tell Placement of everything."""
        self.writer.providers.reconcile()
        done = self.writer.write_all()
        assert done.found == done.done

    def read(self) -> int:
        """Read usage as is done before a decision, and return what there is beside the ledger's volumes."""
        self.clock += 10
        self.usage.read([self.project])
        return self.usage.beyond(Scope(self.project))

    def fits(self, size: int) -> bool:
        """Ask for a volume, after what usage is read by."""
        self.read()
        [answer] = self.create(size)
        assert isinstance(answer, Answer)
        assert answer.refusal is None or answer.refusal.excess is not None
        return answer.refusal is None

    def allocation(self, user_id: str, size: int, generation: int | None = None) -> dict[str, Any]:
        """Return what somebody else sends to Placement for a consumer in the first pool."""
        here = {self.server.provider(self.pool(0)): {"resources": {"DISK_GB": size}}}
        return {
            "allocations": here if size else {},
            "project_id": self.project,
            "user_id": user_id,
            "consumer_generation": generation,
            "consumer_type": "VOLUME",
        }

    def check(self) -> None:
        """Each pool's provider holds what is allocated in the pool."""
        for name, allocated in self.rows("SELECT name, allocated_capacity_gb FROM pools"):
            assert sum(self.server.holders(name).values()) == allocated


def thin(total: int = 1000, ratio: float = 2.0, reserved: int = 10) -> StoragePool:
    return StoragePool(total, ratio, thin=True, thick=False, reserved=reserved)


def test_a_volume_is_counted_wherever_it_goes(placement_server: Placement) -> None:
    cloud = Cloud(placement_server, p0=thin(), p1=thin()).started()
    for name in ("plain", "other"):
        cloud.database.run(volume_types.create, name)
    volume_id = cloud.made(5)
    cloud.tell()
    [(here,)] = cloud.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    [there] = {cloud.pool(0), cloud.pool(1)} - {here}
    assert cloud.server.inventory(here) == cloud.server.inventory(there) == (1000, 100, 2.0)
    assert cloud.server.holders(here) == {volume_id: 5}
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 5)}
    # It counts as large as it shall be, from the decision on.
    cloud.extend(volume_id, 8)
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8)}
    cloud.settle()
    cloud.tell()
    cloud.check()
    # While it moves it is in both places, and counts once.
    move = MigrateVolume(request_id=cloud.request_id(), volume_id=volume_id)
    [answer] = cloud.place([Move(move)])
    assert isinstance(answer, Answer)
    assert answer.pool == there
    cloud.tell()
    assert cloud.server.holders(here) == {volume_id: 8}
    [(copy, size)] = cloud.server.holders(there).items()
    assert (copy != volume_id, size) == (True, 8)
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8), "MIGRATION": (1, 8)}
    # The copy that is left counts in its pool until it is gone.
    outcome = cloud.agent.work()
    assert outcome is not None
    cloud.deliver(outcome)
    cloud.tell()
    assert cloud.server.holders(there) == {volume_id: 8}
    assert list(cloud.server.holders(here).values()) == [8]
    cloud.check()
    cloud.settle()
    cloud.tell()
    assert cloud.server.holders(here) == {}
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8)}
    # Another type alone changes nothing.
    retype = RetypeVolume(
        request_id=cloud.request_id(),
        volume_id=volume_id,
        volume_type="other",
        migration_policy=MigrationPolicy.NEVER,
    )
    cloud.place([retype])
    assert cloud.writer.write_all().found == 0
    let_go = cloud.made(3)
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 11)}
    cloud.database.run(deletions.unmanage, cloud.request_id(), let_go)
    cloud.delete(volume_id)
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (1, 8)}
    cloud.settle()
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {}
    cloud.check()
    assert cloud.rows("SELECT COUNT(*) FROM placement_allocations") == [(0,)]


def test_the_limit_is_exact_whatever_placement_has_been_told(placement_server: Placement) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    assert cloud.fits(5)
    assert cloud.fits(5)
    cloud.tell()
    assert cloud.fits(5)
    # Some is told and some is not.
    assert not cloud.fits(6)
    assert cloud.read() == 0
    # What others have in Placement counts.
    cloud.tell()
    cloud.server.put(f"/allocations/{uuid.uuid4()}", cloud.allocation("somebody", 3))
    assert cloud.read() == 3
    assert not cloud.fits(3)
    assert cloud.fits(2)
    assert not cloud.fits(1)
    assert cloud.rows("SELECT SUM(size_gb) FROM volumes") == [(17,)]


def test_volumes_go_on_without_placement_and_it_hears_of_them_later(
    placement_server: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    assert cloud.fits(5)
    cloud.tell()
    assert cloud.read() == 0
    placement_server.kill()
    assert [cloud.fits(size) for size in (5, 5, 6, 5, 1)] == [True, True, False, True, False]
    with pytest.raises(PlacementUnavailable, match=r"OpenStack Placement cannot be asked: .*refused"):
        cloud.writer.write_all()
    warned = [record.getMessage() for record in caplog.records if "counted from the ledger" in record.getMessage()]
    assert len(warned) == 1
    assert warned[0].startswith("Usage is counted from the ledger, as OpenStack Placement is away (OpenStack Placement")
    # One that goes before Placement has ever heard of it.
    cloud.settle()
    [(gone,), *_] = cloud.rows("SELECT volume_id FROM placement_allocations WHERE size_gb = 0 ORDER BY volume_id")
    cloud.delete(gone)
    cloud.settle()
    placement_server.start()
    assert cloud.read() == 0
    cloud.tell()
    cloud.check()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (3, 15)}
    assert cloud.rows("SELECT COUNT(*) FROM placement_allocations") == [(3,)]
    assert cloud.fits(5)
    assert not cloud.fits(1)


def test_what_placement_loses_or_another_writer_has_told_is_told_again(
    placement_server: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    volume_id, other = cloud.made(5), cloud.made(6)
    cloud.tell()
    cloud.server.put(f"/allocations/{volume_id}", cloud.allocation("u", 0, generation=1))
    [lost] = allocation_check.check(cloud.database, cloud.client).differences
    assert (lost.cause, lost.consumer_id, lost.told_gb, lost.held_gb) == (allocation_check.Cause.LOST, volume_id, 5, 0)
    # A project is given no more for it.
    assert not cloud.fits(10)
    assert "has lost 5 GiB of the allocations of project" in caplog.text
    cloud.extend(other, 7)
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 12)}
    assert allocation_check.check(cloud.database, cloud.client).differences == []
    # A round whose end nobody has noted.
    cloud.extend(volume_id, 6)
    with cloud.database.reading() as session:
        ids = placement_allocations.compare(session).volume_ids
    told = cloud.writer._write(cloud.database.run(placement_allocations.plan, ids, "cut off"), "cut off")
    assert [(each.size_gb, each.generation) for each in told] == [(6, 2)]
    assert cloud.read() == 0
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 13)}
    cloud.check()


def test_what_placement_refuses_keeps_nobody_else_from_it(
    placement_server: Placement, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 100, p0=thin()).started()
    first = cloud.made(5)
    cloud.tell()
    assert cloud.read() == 0
    cloud.extend(first, 6)
    others = [cloud.made(size) for size in (1, 2)]
    # Somebody has taken what the pool has away, and this one cannot give it back.
    monkeypatch.setattr(cloud.writer.providers, "clear_cache", lambda: None)
    monkeypatch.setattr(cloud.writer.providers, "_write", lambda *given: None)
    generation = cloud.server.get(f"/resource_providers/{cloud.server.provider(cloud.pool(0))}")["generation"]
    small = {"total": 10, "allocation_ratio": 1.0, "max_unit": 5}
    inventory = {"resource_provider_generation": generation, "inventories": {"DISK_GB": small}}
    cloud.server.put(f"/resource_providers/{cloud.server.provider(cloud.pool(0))}/inventories", inventory)
    done = cloud.writer.write_all()
    assert (done.found, done.done) == (3, 2)
    assert f"The allocation of volume {first} is tried again later" in caplog.text
    assert cloud.server.holders(cloud.pool(0)) == {first: 5, **dict(zip(others, (1, 2), strict=True))}
    # What Placement has is known all the same, so usage is.
    assert cloud.rows("SELECT COUNT(*) FROM placement_allocations WHERE doubt IS NOT NULL") == [(0,)]
    cloud.server.put(f"/allocations/{uuid.uuid4()}", cloud.allocation("somebody", 2))
    assert cloud.read() == 2
    monkeypatch.undo()
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (4, 11)}


def test_a_pool_that_holds_more_than_its_figures_admit_is_told_all_the_same(placement_server: Placement) -> None:
    cloud = Cloud(placement_server, p0=thin(100, 1.5, 20)).started()
    cloud.made(115)
    cloud.tell()
    assert cloud.server.inventory(cloud.pool(0)) == (100, 20, 1.5)
    # The figures' limit is 120 there, and 150 for Tonnage: of thin volumes the reserve is kept free alone.
    cloud.made(30)
    cloud.tell()
    assert cloud.server.inventory(cloud.pool(0)) == (100, 20, 1.82)
    cloud.check()


def test_it_is_found_in_keystones_catalog_by_the_options_of_nova(placement_server: Placement) -> None:
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


def test_what_is_to_be_told_is_found_alike_on_every_database(database_url: str) -> None:
    engine = database.create_engine(database_url)
    schema.sync(engine)
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

    def tell(*volume_ids: str) -> dict[tuple[str, str], int]:
        plan = ledger.run(placement_allocations.plan, volume_ids, "round")
        ledger.run(placement_allocations.note, plan, "round")
        return {(each.volume_id, each.kind.value): each.size_gb for each in plan}

    with ledger.reading() as session:
        now = placement_allocations.now(session)
        assert placement_allocations.any_untold(session, now)
    assert compare() == (ids, None)
    assert (compare("", 3), compare(ids[1], 3)) == ((ids[:2], ids[1]), (ids[2:], None))
    assert sorted(tell(*ids).values()) == [5, 6, 7]
    assert differing() == []
    with ledger.reading() as session:
        assert not placement_allocations.any_untold(session, now)
        assert placement_allocations.told_of(session, "demo") == placement_allocations.Told({"": 18}, False)
        assert sum(pool.told_gb for pool in placement_allocations.pools(session)) == 18
        assert [pool.allocated_gb - pool.told_gb for pool in placement_allocations.pools(session)] == [0, 0]
    # A round that has not ended is found again, and its end counts no more.
    world.extend(ids[0], 20)
    plan = ledger.run(placement_allocations.plan, ids, "first")
    assert [each.size_gb for each in plan] == [20]
    with ledger.reading() as session:
        assert placement_allocations.told_of(session, "demo").doubt
    ledger.run(placement_allocations.plan, ids, "second")
    ledger.run(placement_allocations.note, plan, "first")
    assert differing() == ids[:1]
    ledger.run(placement_allocations.note, plan, "second")
    assert differing() == []
    world.settle()
    # A copy elsewhere is a consumer of its own.
    world.place([Move(MigrateVolume(request_id=world.request_id(), volume_id=ids[1]))])
    assert list(tell(*differing())) == [(ids[1], "MIGRATION")]
    with ledger.reading() as session:
        assert placement_allocations.told_of(session, "demo").of("") == sum(
            row[0] for row in world.rows("SELECT size_gb FROM volumes")
        )
    engine.dispose()


def run(line: str, conf_file: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[list[str]]]:
    """Run a command of tonnage-manage; return its status and the cells of the table that it printed."""
    conf = cfg.ConfigOpts()
    conf.register_cli_opt(cfg.SubCommandOpt("command", handler=manage._commands))
    quota_options.register(conf)
    database.register(conf)
    conf(["--config-file", str(conf_file), *line.split()])
    capsys.readouterr()
    status = conf.command.run(conf)
    lines = [line.strip("| ").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    return status, [[cell.strip() for cell in line] for line in lines]


def test_commands_tell_what_there_is_to_do_and_what_is_wrong(
    placement_server: Placement, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = f"sqlite:///{tmp_path}/tonnage.sqlite", tmp_path / "tonnage.conf"
    engine = database.create_engine(url)
    schema.sync(engine)
    cloud = Cloud(placement_server, 100, engine, p0=thin()).started()
    ids = [cloud.made(size) for size in (1, 2, 3)]
    ledger = {"database": {"connection": url}}
    migrate = "db online_data_migrations"

    def migrations(needed: int, done: int) -> list[list[str]]:
        return [["Migration", "Total Needed", "Completed"], ["placement_allocations", str(needed), str(done)]]

    # Nobody has to write allocations who does not say where to.
    file.write_text(render(ledger))
    assert run(migrate, file, capsys) == (0, migrations(0, 0))
    # They are written before usage is counted by them.
    sections = {**ledger, "placement": cloud.server.options}
    file.write_text(render(sections))
    assert run(f"{migrate} --max-count 2", file, capsys) == (1, migrations(2, 2))
    assert run(f"{migrate} --max-count 2", file, capsys) == (1, migrations(1, 1))
    assert run(f"{migrate} --max-count 2", file, capsys) == (0, migrations(0, 0))
    assert run(f"{migrate} --max-count 0", file, capsys) == (127, [])
    assert cloud.server.holders(cloud.pool(0)) == dict(zip(ids, (1, 2, 3), strict=True))
    # From now on what is lost there is wrong.
    file.write_text(render({**sections, "quota": {"usage_source": "placement"}}))
    assert run("quota check", file, capsys) == (0, [])
    cloud.server.put(f"/allocations/{ids[1]}", cloud.allocation("u", 0, generation=1))
    stranger = str(uuid.uuid4())
    cloud.server.put(f"/allocations/{stranger}", cloud.allocation("u", 9))
    lost, foreign = (["lost", cloud.pool(0), ids[1], "2", "0"], ["foreign", cloud.pool(0), stranger, "0", "9"])
    assert run("quota check", file, capsys) == (3, [DIFFERENCES, lost, foreign])
    # What Placement has no room for, as somebody else has taken it, is not mended.
    greedy = str(uuid.uuid4())
    cloud.server.put(f"/allocations/{greedy}", cloud.allocation("u", 1800 - 13))
    full = ["foreign", cloud.pool(0), greedy, "0", str(1800 - 13)]
    status, shown = run("quota sync", file, capsys)
    assert (status, shown[:2], sorted(shown[2:])) == (3, [DIFFERENCES, lost], sorted([foreign, full]))
    # From then on it is known that Placement has still to be told, and so it is told once there is room.
    cloud.server.put(f"/allocations/{greedy}", cloud.allocation("u", 0, generation=1))
    assert run("quota sync", file, capsys) == (0, [DIFFERENCES, foreign])
    assert cloud.server.holders(cloud.pool(0))[ids[1]] == 2
    cloud.server.put(f"/allocations/{ids[1]}", cloud.allocation("u", 0, generation=1))
    assert run("quota sync", file, capsys) == (4, [DIFFERENCES, lost, foreign])
    assert run("quota check", file, capsys) == (0, [DIFFERENCES, foreign])
    # Without Placement nobody can look, and nothing can be written.
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
    """Ask for a volume, and tell whether there is no quota for it."""
    answer = deployment.rest.ask(size)
    assert answer.status_code in (202, 413), answer.text
    return answer.status_code == 413


def in_use(deployment: Deployment) -> int:
    """Return how many GiB the API says that the project has."""
    shown = deployment.rest.get("os-quota-sets/demo", usage=True)["quota_set"]["gigabytes"]
    return int(shown["in_use"]) + int(shown["reserved"])


def test_a_deployment_goes_over_to_placement_and_outlives_it(placement_server: Placement) -> None:
    backends = {"thin": {"filesystem_size_limit_gb": 8, "max_over_subscription_ratio": 2.0}}
    with Deployment(Addresses(), backends) as deployment:
        rest, pool = deployment.rest, deployment.pool("thin")
        with deployment.conf.open("a") as conf:
            conf.write(render({"placement": placement_server.options, "quota": {"count_usage_from_placement": True}}))
        deployment.start()
        assert rest.call("PUT", "os-quota-sets/demo", {"quota_set": {"gigabytes": 12}}).status_code == 200
        assert [over_quota(deployment, size) for size in (6, 7, 2, 5)] == [False, True, False, True]
        base.wait_for(lambda: sum(placement_server.holders(pool).values()) == 8, "Placement hears of it")
        placement_server.kill()
        # It goes on, counted by the ledger, and says so once.
        volume_id = rest.create(3)
        assert [over_quota(deployment, size) for size in (2, 1, 1)] == [True, False, True]
        rest.made(volume_id)
        rest.delete(volume_id)
        away = "Usage is counted from the ledger, as OpenStack Placement is away"
        base.wait_for(
            lambda: over_quota(deployment, 10) and away in deployment.logs(), "it says that Placement is away"
        )
        assert [over_quota(deployment, 10) for _ in range(3)] == [True] * 3
        assert deployment.logs().count(away) == 1
        placement_server.start()
        base.wait_for(lambda: sum(placement_server.holders(pool).values()) == 9, "Placement hears of what it missed")
        assert in_use(deployment) == 9
        checked = deployment.attempt("manage", None, "quota", "check")
        assert (checked.code, checked.output.splitlines()[-1]) == (
            0,
            "OpenStack Placement: it holds all that it was told",
        )
        # What others have in Placement counts, and is shown.
        here = {placement_server.provider(pool): {"resources": {"DISK_GB": 2}}}
        foreign = {
            "allocations": here,
            "project_id": "demo",
            "user_id": "somebody",
            "consumer_generation": None,
            "consumer_type": "VOLUME",
        }
        placement_server.put(f"/allocations/{uuid.uuid4()}", foreign)
        base.wait_for(lambda: "11G has been consumed" in rest.ask(10).text, "it is known what others have")
        base.wait_for(lambda: in_use(deployment) == 11, "it is shown what others have")
        assert not over_quota(deployment, 1)
