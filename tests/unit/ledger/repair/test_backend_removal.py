# SPDX-License-Identifier: Apache-2.0
"""Removal of backends while volumes migrate from them or to them."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.claims.settlement import EndedOperation
from tonnage.ledger.db import database
from tonnage.ledger.inventory import pending_claims
from tonnage.ledger.repair import backend_removal

VOLUME = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"


@pytest.fixture
def ledger() -> Iterator[database.Database]:
    """A volume of 3 GiB migrates from h@one to h@two, which have not reported for a long time."""
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    ledger.run(fill)
    yield ledger
    ledger.close()


def fill(session: orm.Session) -> None:
    for number, name in ((1, "h@one"), (2, "h@two")):
        session.add(models.Backend(id=number, name=name, epoch=1, allocated_capacity_gb=3))
        session.flush()
        session.add(
            models.Pool(
                id=number, backend_id=number, name=f"{name}#p", allocated_capacity_gb=3, covers_epoch=1, stats={}
            )
        )
    session.add(
        models.Volume(
            id=VOLUME, project_id="p", size_gb=3, status="maintenance", migration_status="migrating", pool_id=1
        )
    )
    common = {"volume_id": VOLUME, "size_gb": 3, "physical_gb": 0, "target_size_gb": 3, "provisioning": "thin"}
    session.flush()
    session.add(
        models.Claim(id="made", backend_id=1, pool_id=1, verb="create", state="confirmed", contained=True, **common)
    )
    session.add(
        models.Claim(id="move", backend_id=2, pool_id=2, verb="migrate", state="pending", source_pool_id=1, **common)
    )


def volume(ledger: database.Database) -> models.Volume:
    with ledger.reading() as session:
        return session.get_one(models.Volume, VOLUME)


def claims(ledger: database.Database) -> list[tuple[str, str]]:
    with ledger.reading() as session:
        rows = session.execute(sa.select(models.Claim.verb, models.Claim.state).order_by(models.Claim.verb))
        return [(row[0], row[1]) for row in rows]


def test_a_finished_migration_restores_a_volume_whose_source_was_removed(ledger: database.Database) -> None:
    ledger.run(backend_removal.remove_backend, "h@one", 60.0)
    assert volume(ledger).status == "error"
    with ledger.reading() as session:
        [pending] = pending_claims.load(session)
    assert pending.source is not None
    assert pending.source.pool_name == "a pool that is gone"
    ledger.run(operation_outcomes.apply, [EndedOperation(claim_id="move", ok=True, epoch=1, tick=5, size_gb=3)], 3)
    assert (volume(ledger).status, volume(ledger).pool_id) == ("available", 2)
    assert claims(ledger) == [("migrate", "confirmed")], "no purge is ordered"


def test_a_failed_migration_leaves_a_volume_without_source_in_error(ledger: database.Database) -> None:
    ledger.run(backend_removal.remove_backend, "h@one", 60.0)
    ledger.run(operation_outcomes.apply, [EndedOperation(claim_id="move", ok=False, epoch=1, tick=5, clean=True)], 3)
    assert (volume(ledger).status, volume(ledger).pool_id) == ("error", None)
    assert claims(ledger) == []


def test_a_volume_that_migrates_to_a_removed_backend_stays_in_its_pool(ledger: database.Database) -> None:
    ledger.run(backend_removal.remove_backend, "h@two", 60.0)
    assert (volume(ledger).status, volume(ledger).migration_status, volume(ledger).pool_id) == ("available", "error", 1)
    assert claims(ledger) == [("create", "confirmed")]


def test_a_running_backend_is_not_removed(ledger: database.Database) -> None:
    ledger.run(
        lambda session: session.execute(sa.update(models.Backend).values(last_report_at=models.utcnow())) and None
    )
    with pytest.raises(errors.Conflict, match=r"^backend h@one reported \d s ago, .*: stop its agent first"):
        ledger.run(backend_removal.remove_backend, "h@one", 60.0)
    notice = {"notice": "withdrawn", "notice_text": "", "notice_at": models.utcnow()}
    ledger.run(lambda session: session.execute(sa.update(models.Backend).values(notice)) and None)
    with pytest.raises(errors.Conflict, match=r"and is down \d+ s from now \(.* = 60 s\): wait until then$"):
        ledger.run(backend_removal.remove_backend, "h@one", 60.0)
    with pytest.raises(errors.NotFound, match="no@where"):
        ledger.run(backend_removal.remove_backend, "no@where", 60.0)


def test_a_copy_that_a_clean_migration_did_not_make_is_not_purged(ledger: database.Database) -> None:
    ending = EndedOperation(claim_id="move", ok=False, epoch=1, tick=5, size_gb=3, clean=True, message="it is there")
    ledger.run(operation_outcomes.apply, [ending], 3)
    assert (volume(ledger).status, volume(ledger).pool_id) == ("available", 1)
    assert claims(ledger) == [("create", "confirmed"), ("migrate", "released")], "counted until a report has the copy"


def test_a_partial_copy_of_a_failed_migration_is_purged(ledger: database.Database) -> None:
    ledger.run(operation_outcomes.apply, [EndedOperation(claim_id="move", ok=False, epoch=1, tick=5, size_gb=3)], 3)
    assert (volume(ledger).status, volume(ledger).pool_id) == ("available", 1)
    assert ("purge", "pending") in claims(ledger)


def test_a_pool_is_removed_alone(ledger: database.Database) -> None:
    def add_pool(session: orm.Session) -> None:
        session.get_one(models.Backend, 1).allocated_capacity_gb = 7
        session.add(models.Pool(id=3, backend_id=1, name="h@one#q", allocated_capacity_gb=4, covers_epoch=1, stats={}))
        session.add(models.Volume(id=OTHER, project_id="p", size_gb=4, status="available", pool_id=3))
        session.flush()
        session.add(
            models.Claim(
                **{"id": "kept", "backend_id": 1, "pool_id": 3, "volume_id": OTHER, "verb": "create"},
                **{"size_gb": 4, "physical_gb": 0, "target_size_gb": 4, "provisioning": "thin", "state": "confirmed"},
            )
        )
        for pool in ("p", "q"):
            session.add(models.Finding(backend_id=1, pool=pool, breach="free-above-total", text="x"))
            session.add(models.StorageMark(backend_id=1, pool=pool, mark="m"))

    ledger.run(add_pool)
    removed = ledger.run(backend_removal.remove_backend, "h@one#p", 60.0)
    assert removed == backend_removal.Removed(("h@one#p",), (VOLUME,))
    assert (volume(ledger).status, volume(ledger).pool_id) == ("error", None)
    assert volume(ledger).status_reason == "an operator has removed pool h@one#p, with this volume in pool h@one#p"
    assert claims(ledger) == [("create", "confirmed"), ("migrate", "pending")]
    with ledger.reading() as session:
        backend = session.get_one(models.Backend, 1)
        assert backend.allocated_capacity_gb == 4
        assert session.scalars(sa.select(models.Pool.name).order_by(models.Pool.name)).all() == ["h@one#q", "h@two#p"]
        assert session.scalars(sa.select(models.Finding.pool)).all() == ["q"]
        assert session.scalars(sa.select(models.StorageMark.pool)).all() == ["q"]
        assert session.get_one(models.Volume, OTHER).status == "available"


def test_a_volume_that_migrates_to_a_removed_pool_stays_in_its_own(ledger: database.Database) -> None:
    ledger.run(backend_removal.remove_backend, "h@two#p", 60.0)
    assert (volume(ledger).status, volume(ledger).migration_status, volume(ledger).pool_id) == ("available", "error", 1)
    assert claims(ledger) == [("create", "confirmed")]


def test_a_pool_that_does_not_exist_is_named(ledger: database.Database) -> None:
    with pytest.raises(errors.NotFound, match="pool h@one#nowhere could not be found"):
        ledger.run(backend_removal.remove_backend, "h@one#nowhere", 60.0)
