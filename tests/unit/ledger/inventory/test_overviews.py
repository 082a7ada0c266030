# SPDX-License-Identifier: Apache-2.0
"""Tests of the overviews of the ledger."""

from collections.abc import Iterator

import msgspec
import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory import overviews
from tonnage.ledger.inventory.overviews import OVERVIEWS, PoolFinding


@pytest.fixture
def world() -> Iterator[World]:
    """A pool with three volumes of the same moment."""
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=engine).started()
    for _ in range(3):
        world.create(1)
    with engine.begin() as connection:
        connection.execute(sa.update(models.Volume).values(created_at=models.utcnow()))
    yield world
    engine.dispose()


def rows(world: World, name: str, **filters: str) -> list[object]:
    with database.Database(world.engine).reading() as session:
        return OVERVIEWS[name].page(session, filters, 60.0)


@pytest.mark.parametrize("name", ["backends", "pools", "volumes", "types", "claims"])
def test_rows_are_the_same_after_their_way_over_rest(world: World, name: str) -> None:
    before = rows(world, name)
    objects = msgspec.json.decode(msgspec.json.encode([overviews.as_object(row) for row in before]))
    assert OVERVIEWS[name].from_objects(objects) == before
    # A newer API has further fields, an older one lacks some.
    assert OVERVIEWS[name].from_objects([{**fields, "new": 1} for fields in objects]) == before
    for fields in objects:
        fields.popitem()
        with pytest.raises(KeyError):
            OVERVIEWS[name].from_objects([fields])


def test_pages_of_volumes_have_each_volume_once_even_of_one_moment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [row.id for row in rows(world, "volumes")]  # type: ignore[attr-defined]
    assert len(every) == 3
    monkeypatch.setattr(overviews, "PAGE_SIZE", 2)
    first = [row.id for row in rows(world, "volumes")]  # type: ignore[attr-defined]
    second = [row.id for row in rows(world, "volumes", after=first[-1])]  # type: ignore[attr-defined]
    assert (first, second) == (every[:2], every[2:])
    assert rows(world, "volumes", after=every[-1]) == []


def test_filters_select_rows_and_a_missing_name_is_an_error(world: World) -> None:
    assert len(rows(world, "pools", backend=BACKEND)) == 1
    assert len(rows(world, "claims", pool=f"{BACKEND}#p0")) == 3
    assert rows(world, "claims", pool="h@b#p") == []
    for name, filters in (
        ("pools", {"backend": "h@b"}),
        ("volumes", {"pool": "h@b#p"}),
        ("volumes", {"volume_type": "nothing"}),
    ):
        with pytest.raises(errors.NotFound, match="could not be found"):
            rows(world, name, **filters)


def test_a_finding_of_one_listing_alone_is_none(world: World) -> None:
    with world.engine.begin() as connection:
        backend_id = connection.scalar(sa.select(models.Backend.id))
        for breach, once in (("certain", None), ("uncertain", 3)):
            values = {"backend_id": backend_id, "pool": "p0", "breach": breach, "text": "is odd", "once_seq": once}
            connection.execute(sa.insert(models.Finding).values(**values))
    [finding] = rows(world, "findings", pool=f"{BACKEND}#p0")
    assert isinstance(finding, PoolFinding)
    assert (finding.breach, finding.text) == ("certain", "is odd")
    assert rows(world, "findings", pool=f"{BACKEND}#p1") == []
