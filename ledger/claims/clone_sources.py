# SPDX-License-Identifier: Apache-2.0
"""Volumes that others depend on as they are placed: sources of clones, and those that say where another one goes.

A clone claims what its source has, so that must not grow until the clone is made. Whoever of two comes later, by the
lock on the source, sees the other.
"""

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import chunks

#: States in which a volume may be cloned.
CLONEABLE = ("available", "in-use")


def being_cloned(session: orm.Session, volume_ids: Collection[str]) -> dict[str, str]:
    """Return those of these volumes that a clone is being made of, each with a clone.

    One that a pool has failed to make, and that is to be made in another, is among them.
    """
    volume = models.Volume
    pairs: dict[str, str] = {}
    for some in chunks.cut(volume_ids):
        being_made = sa.select(volume.source_volume_id, volume.id).where(
            volume.status == "creating", volume.source_volume_id.in_(some)
        )
        pairs.update((str(row[0]), row[1]) for row in session.execute(being_made))
    return pairs


def hold(
    session: orm.Session,
    seen: Mapping[str, tuple[int, int | None]],
    bound: Mapping[str, int | None],
    others: Collection[str],
    changed: Collection[str] = (),
) -> None:
    """Lock what is to be cloned, what says where others go, and what is changed, all in one order.

    ``changed`` must not be cloned at once; ``others`` are changed in a way that a clone does not mind.

    ``seen`` has the size in GiB and the pool that each source had when it was decided, ``bound`` the pools of those
    that say where others go. Raises :class:`~tonnage.capacity.errors.Conflict` if they have others by now or, of a
    source, if it cannot be cloned.
    """
    if not seen and not bound:
        return
    volume = models.Volume
    cloneable: dict[str, tuple[int, int | None]] = {}
    pools: dict[str, int | None] = {}
    for some in chunks.cut(sorted({*seen, *bound, *others, *changed})):
        rows = session.execute(
            sa.select(volume.id, volume.size_gb, volume.pool_id, volume.status)
            .where(volume.id.in_(some))
            .order_by(volume.id)
            .with_for_update()
        )
        for row in rows:
            pools[row.id] = row.pool_id
            if row.status in CLONEABLE:
                cloneable[row.id] = row.size_gb, row.pool_id
    for source, as_seen in seen.items():
        if source in changed or cloneable.get(source) != as_seen:
            raise errors.Conflict(f"volume {source} was changed by another request; try again")
    for other, pool_id in bound.items():
        if pools.get(other) != pool_id:
            raise errors.Conflict(f"volume {other} was given another place by another request; try again")


def let_be(session: orm.Session, grown: Collection[str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.Conflict` if a clone is being made of a volume that is to grow.

    Ask once the rows of those are locked, so that no clone can come after.
    """
    if grown and (cloned := being_cloned(session, grown)):
        raise errors.Conflict(f"{', '.join(cloned)} is being cloned by another request; try again")
