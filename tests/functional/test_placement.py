# SPDX-License-Identifier: Apache-2.0
"""Usage counted from OpenStack Placement, the real one."""

import tempfile
import uuid
from dataclasses import replace
from typing import Any

import pytest
from oslo_config import cfg

from tests.servers.placement import Placement
from tests.unit.scheduler.world import BACKEND
from tests.unit.scheduler.world import StoragePool
from tests.unit.scheduler.world import World
from tonnage.ledger import allocations
from tonnage.ledger import database
from tonnage.ledger import deletions
from tonnage.ledger import schema
from tonnage.ledger import volume_types
from tonnage.placement import audit
from tonnage.placement import options
from tonnage.placement.client import Away
from tonnage.placement.usage import Usage
from tonnage.placement.writer import Writer
from tonnage.quotas import store
from tonnage.quotas.limits import Holder
from tonnage.quotas.limits import Item
from tonnage.quotas.limits import Place
from tonnage.quotas.limits import Resource
from tonnage.quotas.limits import Scope
from tonnage.quotas.options import Settings
from tonnage.rpc.messages import Answer
from tonnage.rpc.messages import MigrateVolume
from tonnage.rpc.messages import MigrationPolicy
from tonnage.rpc.messages import RetypeVolume
from tonnage.scheduler.resolution import Move

GIGABYTES = Item(Resource.GIGABYTES)


def configured(section: dict[str, str]) -> cfg.ConfigOpts:
    """Return a configuration with a section ``[placement]``."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("[placement]\n" + "".join(f"{key} = {value}\n" for key, value in section.items()))
        file.flush()
        conf = cfg.ConfigOpts()
        conf(["--config-file", file.name])
    return conf


class Cloud(World):
    """A world that counts usage from Placement. Its project has a name of its own, as Placement keeps what was told."""

    def __init__(self, server: Placement, limit: int = -1, **pools: StoragePool) -> None:
        # Providers of other tests are called as these are.
        super().__init__({f"{name}-{uuid.uuid4().hex[:6]}": pool for name, pool in sorted(pools.items())})
        self.project = uuid.uuid4().hex
        self.server = server
        self.client = options.required(configured(server.options))
        self.writer = Writer(self.database, self.client)
        self.clock = 0.0
        settings = Settings(placed_only=True)
        self.usage = Usage(self.database, self.client, settings, lambda: self.clock, lambda seconds: None)
        self.placer._quotas = replace(settings, beside=self.usage)
        if limit >= 0:
            self.limit(limit)

    def limit(self, gigabytes: int, user_id: str = "") -> None:
        self.database.run(store.put, Place(Holder.PROJECT, self.project, user_id), {GIGABYTES: gigabytes})

    def create_message(self, size: int) -> Any:
        return replace(super().create_message(size), project_id=self.project, user_id="u")

    def pool(self, number: int) -> str:
        return f"{BACKEND}#{list(self.pools)[number]}"

    def tell(self) -> None:
        """Tell Placement of everything, until there is nothing left to tell."""
        self.writer.providers.sweep()
        while self.writer.round().found:
            pass

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
    assert cloud.writer.round().found == 0
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
    foreign = {
        "allocations": {cloud.server.provider(cloud.pool(0)): {"resources": {"DISK_GB": 3}}},
        "project_id": cloud.project,
        "user_id": "somebody",
        "consumer_generation": None,
        "consumer_type": "VOLUME",
    }
    cloud.server.put(f"/allocations/{uuid.uuid4()}", foreign)
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
    with pytest.raises(Away, match=r"OpenStack Placement cannot be asked: .*refused"):
        cloud.writer.round()
    warned = [record.getMessage() for record in caplog.records if "counted from the ledger" in record.getMessage()]
    assert len(warned) == 1
    assert warned[0].startswith("Usage is counted from the ledger, as OpenStack Placement is away (OpenStack Placement")
    placement_server.start()
    assert cloud.read() == 0
    cloud.tell()
    cloud.check()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (4, 20)}
    assert not cloud.fits(1)


def test_what_placement_loses_or_another_writer_has_told_is_told_again(
    placement_server: Placement, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(placement_server, 20, p0=thin()).started()
    volume_id, other = cloud.made(5), cloud.made(6)
    cloud.tell()
    nothing = {
        "allocations": {},
        "project_id": cloud.project,
        "user_id": "u",
        "consumer_generation": 1,
        "consumer_type": "VOLUME",
    }
    cloud.server.put(f"/allocations/{volume_id}", nothing)
    [lost] = audit.check(cloud.database, cloud.client).differences
    assert (lost.cause, lost.consumer_id, lost.told_gb, lost.held_gb) == (audit.Cause.LOST, volume_id, 5, 0)
    # A project is given no more for it.
    assert not cloud.fits(10)
    assert "has lost 5 GiB of what it was told of project" in caplog.text
    cloud.extend(other, 7)
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 12)}
    assert audit.check(cloud.database, cloud.client).differences == []
    # A round whose end nobody has noted.
    cloud.extend(volume_id, 6)
    with cloud.database.reading() as session:
        ids = allocations.differing(session, 10)
    told = cloud.writer._tell(cloud.database.run(allocations.plan, ids, "cut off"))
    assert [(each.size_gb, each.generation) for each in told] == [(6, 2)]
    assert cloud.read() == 0
    cloud.tell()
    assert cloud.server.usage(cloud.project) == {"VOLUME": (2, 13)}
    cloud.check()


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


def test_what_is_to_be_told_is_found_alike_on_every_database(database_url: str) -> None:
    engine = database.create_engine(database_url)
    schema.sync(engine)
    pools = {f"p{number}": thin() for number in range(2)}
    world = World(pools, engine=engine).started()
    ledger = world.database
    ids = sorted(world.made(size) for size in (5, 6, 7))

    def differing(limit: int = 10, after: str = "") -> list[str]:
        with ledger.reading() as session:
            return allocations.differing(session, limit, after)

    def tell(*volume_ids: str) -> dict[tuple[str, str], int]:
        plan = ledger.run(allocations.plan, volume_ids, "round")
        ledger.run(allocations.note, plan, "round")
        return {(each.volume_id, each.kind.value): each.size_gb for each in plan}

    with ledger.reading() as session:
        now = allocations.now(session)
        assert allocations.any_untold(session, now)
    assert (differing(), differing(2), differing(2, ids[1])) == (ids, ids[:2], ids[2:])
    assert sorted(tell(*ids).values()) == [5, 6, 7]
    assert differing() == []
    with ledger.reading() as session:
        assert not allocations.any_untold(session, now)
        assert allocations.told_of(session, "demo") == allocations.Told({"": 18}, False)
        assert sum(pool.told_gb for pool in allocations.pools(session)) == 18
        assert [pool.allocated_gb - pool.told_gb for pool in allocations.pools(session)] == [0, 0]
    # A round that has not ended is found again, and its end counts no more.
    world.extend(ids[0], 20)
    plan = ledger.run(allocations.plan, ids, "first")
    assert [each.size_gb for each in plan] == [20]
    with ledger.reading() as session:
        assert allocations.told_of(session, "demo").doubt
    ledger.run(allocations.plan, ids, "second")
    ledger.run(allocations.note, plan, "first")
    assert differing() == ids[:1]
    ledger.run(allocations.note, plan, "second")
    assert differing() == []
    world.settle()
    # A copy elsewhere is a consumer of its own.
    world.place([Move(MigrateVolume(request_id=world.request_id(), volume_id=ids[1]))])
    assert list(tell(*differing())) == [(ids[1], "MIGRATION")]
    with ledger.reading() as session:
        assert allocations.told_of(session, "demo").of("") == sum(
            row[0] for row in world.rows("SELECT size_gb FROM volumes")
        )
    engine.dispose()
