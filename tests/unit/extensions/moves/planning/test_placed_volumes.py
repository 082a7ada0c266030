# SPDX-License-Identifier: Apache-2.0
"""The volumes of pools, read from the ledger."""

import sqlalchemy as sa

from tests.unit.extensions.moves.clouds import Cloud
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.ledger import models


def test_the_volumes_of_a_pool_are_sorted_the_largest_first() -> None:
    cloud = Cloud().add("a", 100, [10, 30], thin=True).add("b", 100, [5])
    reader = PlacedVolumes(cloud.database)
    volumes = reader.of("h@a#p")
    assert [(volume.size_gb, volume.pool, volume.is_thick) for volume in volumes] == [
        (30, "h@a#p", False),
        (10, "h@a#p", False),
    ]
    assert all(volume.is_brief and volume.may_move and volume.spec is None for volume in volumes)
    for volume in reader.read([volume.id for volume in volumes]).values():
        assert volume.spec is not None
        assert (volume.spec.copied_gb, volume.is_brief) == (volume.size_gb, False)


def test_a_volume_that_cannot_move_has_the_reason_and_no_request() -> None:
    cloud = Cloud().add("a", 100, [10], volume={"status": "error"}).add("b", 100, [5])
    volumes = PlacedVolumes(cloud.database)
    volumes.load(["h@a#p", "h@b#p"])
    [volume] = volumes.of("h@a#p")
    assert (volume.spec, volume.reason.endswith("is error: only an available volume can be moved")) == (None, True)
    assert not volume.may_move
    assert volume.staying("why").reason == "why"
    [other] = volumes.of("h@b#p")
    assert other.is_thick


def test_a_pool_is_read_once() -> None:
    cloud = Cloud().add("a", 100, [10])
    volumes = PlacedVolumes(cloud.database)
    before = volumes.of("h@a#p")
    with cloud.engine.begin() as connection:
        connection.execute(sa.delete(models.Volume))
    assert volumes.of("h@a#p") is before
    assert PlacedVolumes(cloud.database).of("h@a#p") == []


def test_volumes_are_read_by_their_ids_without_those_that_are_gone() -> None:
    cloud = Cloud().add("a", 100, [10, 30])
    ids = cloud.ids["a"]
    volumes = PlacedVolumes(cloud.database).read([ids[1], "gone"])
    assert {volume_id: volume.size_gb for volume_id, volume in volumes.items()} == {ids[1]: 30}
