# SPDX-License-Identifier: Apache-2.0
"""The reads and writes of the API in the ledger, on every database."""

import datetime
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals, type_access, type_catalog, user_messages, volume_types, volumes
from tonnage.ledger.db import database, paging
from tonnage.ledger.inventory import capacity_figures
from tonnage.ledger.locks import heartbeats

THREADS = 8


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[database.Database]:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    access = database.Database(engine)
    yield access
    access.close()


def add_volume(ledger: database.Database, project_id: str = "p", **fields: object) -> str:
    volume_id = str(uuid.uuid4())
    row = {"size_gb": 1, "status": "available", **fields}
    ledger.run(lambda session: session.add(models.Volume(id=volume_id, project_id=project_id, **row)))
    return volume_id


def run_on_threads(work: Callable[[int], object]) -> list[object]:
    """Run the same work on many threads at once; an error of ours is a result."""
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return work(number)
        except errors.TonnageError as error:
            return error

    with futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_types_are_created_listed_changed_and_deleted(ledger: database.Database) -> None:
    kind = ledger.run(volume_types.create, "gold", "fast", True, {"a": "1", "\u00e4\U0001f4be": "\u00fc"})
    with ledger.reading() as session:
        assert volume_types.find(session, "gold").extra_specs == {"a": "1", "\u00e4\U0001f4be": "\u00fc"}
        assert volume_types.find(session, kind.id).name == "gold"
        for missing in ("Gold", "silver", "x" * 300):
            with pytest.raises(errors.NotFound):
                volume_types.find(session, missing)
    assert ledger.run(volume_types.set_specs, kind.id, {"a": "2", "b": "3"}) == {
        "a": "2",
        "b": "3",
        "\u00e4\U0001f4be": "\u00fc",
    }
    ledger.run(volume_types.unset_spec, kind.id, "b")
    with pytest.raises(errors.NotFound, match="has no extra specs with key b"):
        ledger.run(volume_types.unset_spec, kind.id, "b")
    ledger.run(volume_types.create, "Gold")
    with pytest.raises(type_catalog.NameTaken, match="gold already exists"):
        ledger.run(volume_types.create, "gold")
    with pytest.raises(type_catalog.NameTaken):
        ledger.run(volume_types.update, kind.id, type_catalog.Changes(name="Gold"))
    volume_id = add_volume(ledger, volume_type_id=kind.id)
    with pytest.raises(errors.Conflict, match="in use by 1 volume"):
        ledger.run(volume_types.delete, kind.id)
    ledger.run(lambda session: session.execute(sa.delete(models.Volume).where(models.Volume.id == volume_id)))
    ledger.run(volume_types.delete, kind.id)
    with pytest.raises(errors.NotFound):
        ledger.run(volume_types.delete, kind.id)
    with ledger.reading() as session:
        assert set(volume_types.names(session).values()) == {"Gold", volume_types.DEFAULT}
        assert session.scalar(sa.select(sa.func.count()).select_from(models.ExtraSpec)) == 0


def test_concurrent_creations_of_a_type_name_have_one_winner(ledger: database.Database) -> None:
    results = run_on_threads(lambda number: ledger.run(volume_types.create, "gold", specs={"n": str(number)}))
    assert sum(isinstance(result, models.VolumeType) for result in results) == 1
    assert sum(isinstance(result, type_catalog.NameTaken) for result in results) == THREADS - 1


def test_concurrent_changes_of_extra_specs_are_all_kept(ledger: database.Database) -> None:
    kind = ledger.run(volume_types.create, "gold")
    results = run_on_threads(
        lambda number: ledger.run(volume_types.set_specs, kind.id, {"k": str(number), f"k{number}": "1"})
    )
    assert not [result for result in results if isinstance(result, Exception)]
    with ledger.reading() as session:
        specs = volume_types.get(session, kind.id).extra_specs
    assert set(specs) == {"k", *(f"k{number}" for number in range(THREADS))}


def test_volumes_are_paged_sorted_filtered_and_updated(ledger: database.Database) -> None:
    ids = [
        add_volume(ledger, name=name, availability_zone=zone) for name, zone in (("a", None), (None, "z"), ("b", "y"))
    ]
    foreign = add_volume(ledger, "other", name="a")
    query = volumes.Query(project_id="p")
    with ledger.reading() as session:
        for key in volumes.SORT_KEYS:
            for descending in (False, True):
                order = [paging.Order(key, descending)]
                seen: list[str] = []
                for _ in range(4):
                    part = paging.Page(1, seen[-1] if seen else None, order)
                    seen += [volume.id for volume in volumes.page(session, query, part)]
                assert sorted(seen) == sorted(ids), (key, descending)
        assert volumes.count(session, query) == 3
        named = volumes.Query(project_id=None, filters={"name": "a"})
        assert {volume.id for volume in volumes.page(session, named, paging.Page(10))} == {ids[0], foreign}
        for filters in ({"name~": "%"}, {"name~": "_"}, {"id": "x" * 400}, {"status": "a' OR '1'='1"}):
            nothing = volumes.Query(project_id="p", filters=filters)
            assert volumes.page(session, nothing, paging.Page(10)) == []
        for hidden in (foreign, str(uuid.uuid4()), "a", ""):
            with pytest.raises(errors.NotFound):
                volumes.get(session, hidden, "p")
            with pytest.raises(errors.NotFound):
                volumes.page(session, query, paging.Page(10, hidden))
        assert volumes.get(session, foreign, None).project_id == "other"
    changed = ledger.run(volumes.update, ids[0], "p", volumes.Changes(name="\U0001f4be", metadata={"k": "v"}))
    assert (changed.name, changed.user_metadata) == ("\U0001f4be", {"k": "v"})
    assert changed.updated_at is not None
    with pytest.raises(errors.NotFound):
        ledger.run(volumes.update, foreign, "p", volumes.Changes(name="mine"))
    with pytest.raises(errors.Conflict, match="is on no pool"):
        ledger.run(volumes.reset_status, ids[0], "available")


def test_volumes_are_found_by_metadata_and_host(ledger: database.Database) -> None:
    def pools(session: sa.orm.Session) -> list[int]:
        backend = models.Backend(name="h_%@b")
        rows = [models.Pool(name=name, backend=backend) for name in ("h_%@b#p", "h_%@b#p2", "hx%@b#p")]
        session.add_all(rows)
        session.flush()
        return [row.id for row in rows]

    one, two, other = ledger.run(pools)
    odd = "it's \U0001f4be $.a%"
    first = add_volume(ledger, pool_id=one, size_gb=5, user_metadata={"a.b": odd, odd: "1"})
    second = add_volume(ledger, pool_id=two, size_gb=7, user_metadata={"a.b": "1", "a": "TRUE"})
    third = add_volume(ledger, "other", pool_id=other, user_metadata={})

    def found(**filters: str) -> set[str]:
        query = volumes.Query(project_id=None, filters=filters)
        with ledger.reading() as session:
            page = {volume.id for volume in volumes.page(session, query, paging.Page(10))}
            assert volumes.totals(session, query)[0] == len(page)
        return page

    assert found(metadata=str({"a.b": odd})) == found(metadata=str({odd: "1"})) == {first}
    assert found(metadata="{'a.b': '1', 'a': 'TRUE'}") == {second}
    assert found(metadata="{'a': 'true'}") == found(metadata="{'b': '1'}") == found(metadata="{'a.b': '%'}") == set()
    assert found(metadata="{}") == found(bootable="false") == {first, second, third}
    assert found(host="h_%") == found(host="h_%@b") == {first, second}
    assert found(host="h_%@b#p") == {first}
    assert found(host="h_") == found(host="h_%@b#") == found(bootable="true") == found(migration_status="x") == set()
    with pytest.raises(errors.InvalidInput, match="metadata is 'a=b'"):
        found(metadata="a=b")
    with ledger.reading() as session:
        everything = volumes.Query(project_id=None)
        assert volumes.totals(session, everything) == (3, 13)
        assert volumes.totals(session, volumes.Query(project_id="nobody")) == (0, 0)
        assert volumes.all_metadata(session, everything) == {"a": ["TRUE"], "a.b": ["1", odd], odd: ["1"]}
        assert volumes.per_project(session, "h_%@b") == [("p", 2, 12)]
    ledger.run(volumes.set_metadata, first, "p", {"x": "y"}, replace=False)
    ledger.run(volumes.unset_metadata, first, "p", odd)
    with ledger.reading() as session:
        assert volumes.get(session, first, "p").user_metadata == {"a.b": odd, "x": "y"}
    for project_id, key in (("other", "x"), ("p", "absent")):
        with pytest.raises(errors.NotFound):
            ledger.run(volumes.unset_metadata, first, project_id, key)
    run_on_threads(lambda number: ledger.run(volumes.set_metadata, second, "p", {f"k{number}": "v"}, replace=False))
    with ledger.reading() as session:
        assert len(volumes.get(session, second, "p").user_metadata) == 2 + THREADS


def test_private_types_are_visible_to_granted_projects(ledger: database.Database) -> None:
    kind = ledger.run(volume_types.create, "secret", is_public=False, specs={"a": "1", "b": "2"})
    ledger.run(volume_types.create, "open", specs={"a": "1", "RESKEY:availability_zones": "north, south"})

    def seen(project_id: str | None, **filters: str) -> list[str]:
        query, part = type_catalog.Query(filters=filters), paging.Page(10, order=[paging.Order("name")])
        with ledger.reading() as session:
            names = [each.name for each in volume_types.page(session, query, part, project_id)]
        return [each for each in names if each != volume_types.DEFAULT]

    results = run_on_threads(lambda number: ledger.run(type_access.add, kind.id, "p"))
    assert results.count(None) == 1
    assert sum(isinstance(result, type_access.AccessExists) for result in results) == THREADS - 1
    assert (seen(None), seen("p"), seen("P"), seen("q")) == (["open", "secret"], ["open", "secret"], ["open"], ["open"])
    assert (seen("p", extra_specs="{'a': '1'}"), seen("q", extra_specs="{'a': '1'}")) == (["open", "secret"], ["open"])
    assert seen(None, extra_specs="{'a': '1', 'b': '2'}") == seen(None, name="secret") == ["secret"]
    for zone, names in (("south", ["open"]), ("South", []), ("outh", []), ("_orth", [])):
        assert seen(None, extra_specs=f"{{'RESKEY:availability_zones': '{zone}'}}") == names
    with ledger.reading() as session:
        assert type_access.projects(session, kind.id) == ["p"]
    ledger.run(type_access.remove, kind.id, "p")
    with pytest.raises(errors.NotFound):
        ledger.run(type_access.remove, kind.id, "p")
    ledger.run(type_access.add, kind.id, "p")
    ledger.run(volume_types.delete, kind.id)
    with ledger.reading() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(models.TypeAccess)) == 0


def test_user_messages_are_listed_deleted_and_purged(ledger: database.Database) -> None:
    def add(session: sa.orm.Session) -> None:
        for number in range(3):
            session.add(
                models.Message(
                    id=str(uuid.UUID(int=number)),
                    project_id="p" if number else "other",
                    resource_id=str(uuid.UUID(int=number)),
                    event="volume_create_failed",
                    text="no room",
                )
            )

    ledger.run(add)
    with ledger.reading() as session:
        assert len(user_messages.page(session, "p", {}, paging.Page(10))) == 2
        one = user_messages.page(session, "p", {"resource_uuid": str(uuid.UUID(int=1))}, paging.Page(10))
        assert [message.text for message in one] == ["no room"]
        with pytest.raises(errors.NotFound):
            user_messages.get(session, str(uuid.UUID(int=0)), "p")
    ledger.run(user_messages.delete, str(uuid.UUID(int=1)), "p")
    with pytest.raises(errors.NotFound):
        ledger.run(user_messages.delete, str(uuid.UUID(int=1)), "p")
    ages_ago = sa.update(models.Message).values(created_at=datetime.datetime(2020, 1, 1))  # noqa: DTZ001
    ledger.run(lambda session: session.execute(ages_ago.where(models.Message.project_id == "other")))
    assert ledger.run(user_messages.purge) == 1
    with ledger.reading() as session:
        assert [message.project_id for message in user_messages.page(session, None, {}, paging.Page(10))] == ["p"]


def test_heartbeats_show_services_as_up_or_down(ledger: database.Database) -> None:
    run_on_threads(
        lambda number: ledger.run(
            heartbeats.heartbeat,
            heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="one", availability_zone="nova"),
        )
    )
    ledger.run(heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="two"))
    ledger.run(lambda session: session.add(models.Backend(name="h@b", enabled=False, disabled_reason="broken")))
    old = datetime.timedelta(seconds=100)

    def age(session: sa.orm.Session) -> None:
        service = session.get_one(models.Service, (heartbeats.SCHEDULER, "two"))
        service.last_seen_at -= old

    ledger.run(age)
    with ledger.reading() as session:
        rows = heartbeats.load(session)
    assert [(row.binary, row.host) for row in rows] == [
        (heartbeats.AGENT, "h@b"),
        (heartbeats.SCHEDULER, "one"),
        (heartbeats.SCHEDULER, "two"),
    ]
    backend, one, two = rows
    assert (backend.enabled, backend.disabled_reason, backend.silence, backend.up(60)) == (False, "broken", None, False)
    assert one.availability_zone == "nova"
    assert one.silence is not None
    assert 0 <= one.silence < 60
    assert (one.up(60), two.up(60), two.up(1000)) == (True, False, True)
    ledger.run(heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="two"))
    with ledger.reading() as session:
        assert heartbeats.load(session)[2].up(60)


def test_refusals_are_recorded_counted_and_purged(ledger: database.Database) -> None:
    nearest = NearestMiss("h@b#\u00fc", "F", Rejection("no_capacity", "is full \U0001f4be", {"headroom": 7.0}))
    for number in range(3):
        refused = refusals.RefusedRequest(
            request_id=f"req-{number}",
            volume_id=str(uuid.uuid4()),
            project_id="p",
            verb="create",
            refusal=Refusal("9 GiB", 1, (FilterOutcome("F", 1),), nearest),
        )
        ledger.run(refusals.insert, [refused])
    with ledger.reading() as session:
        found = refusals.load(session, refusals.RefusalFilter(pool="h@b#\u00fc", project_id="p"), 2)
        [counted] = refusals.count(session, refusals.RefusalFilter(code="no_capacity"))
    assert [row.request_id for row in found] == ["req-2", "req-1"]
    assert found[0].message == "No pool for 9 GiB: 1 pool; F refused 1, nearest h@b#\u00fc is full \U0001f4be"
    assert (found[0].largest_size_gb, counted.number) == (7, 3)
    assert counted.day == f"{counted.last_at:%Y-%m-%d}"
    past = sa.update(models.Refusal).values(refused_at=datetime.datetime(2020, 1, 1))  # noqa: DTZ001
    ledger.run(lambda session: session.execute(past))
    assert ledger.run(refusals.purge) == 3


def test_a_pool_tells_whether_it_has_thin_volumes(ledger: database.Database) -> None:
    told = {"bool": True, "text": "True", "no": False, "text_no": "false", "null": None}

    def add(session: orm.Session) -> None:
        backend = models.Backend(name="h@b")
        session.add(backend)
        session.flush()
        for name, flag in told.items():
            stats = {"thin_provisioning_support": flag}
            session.add(models.Pool(name=f"h@b#{name}", backend_id=backend.id, stats=stats))
        session.add(models.Pool(name="h@b#missing", backend_id=backend.id, stats={}))

    ledger.run(add)
    with ledger.reading() as session:
        thin = capacity_figures.thin_pools(session)
    assert thin == {"h@b#bool", "h@b#text"}
