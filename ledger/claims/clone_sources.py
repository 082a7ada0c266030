# SPDX-License-Identifier: Apache-2.0
"""Locks on volumes that a placement depends on: clone sources and the targets of affinity hints.

A clone claims the size of its source, so the source must not grow until the clone is made. Of two requests, the later
holder of the lock on the source sees the change of the earlier one.
"""

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import dialects

#: States in which a volume may be cloned.
CLONEABLE = ("available", "in-use")


def being_cloned(session: orm.Session, volume_ids: Collection[str]) -> dict[str, str]:
    """Map each of these volumes that is being cloned to one of its clones.

    This includes a clone that one pool failed to make and that is to be made in another.
    """
    volume = models.Volume
    pairs: dict[str, str] = {}
    for chunk in dialects.in_chunks(volume_ids):
        being_made = sa.select(volume.source_volume_id, volume.id).where(
            volume.status == "creating", volume.source_volume_id.in_(chunk)
        )
        pairs.update((str(row[0]), row[1]) for row in session.execute(being_made))
    return pairs


def lock(
    session: orm.Session,
    seen_sources: Mapping[str, tuple[int, int | None]],
    hint_targets: Mapping[str, int | None],
    also_changed: Collection[str],
    changed: Collection[str] = (),
) -> None:
    """Lock clone sources, hint targets and changed volumes, all in id order.

    ``seen_sources`` maps each clone source to its size in GiB and its pool in the decision, ``hint_targets`` each hint
    target to its pool in the decision. ``changed`` volumes must not be clone sources of the same batch; a change of
    ``also_changed`` volumes does not affect a clone.

    Raises :class:`~tonnage.capacity.errors.Conflict` if a source or a target has changed since, or if a source cannot
    be cloned.
    """
    if not seen_sources and not hint_targets:
        return
    volume = models.Volume
    cloneable: dict[str, tuple[int, int | None]] = {}
    pools: dict[str, int | None] = {}
    for chunk in dialects.in_chunks(sorted({*seen_sources, *hint_targets, *also_changed, *changed})):
        rows = session.execute(
            sa.select(volume.id, volume.size_gb, volume.pool_id, volume.status)
            .where(volume.id.in_(chunk))
            .order_by(volume.id)
            .with_for_update()
        )
        for row in rows:
            pools[row.id] = row.pool_id
            if row.status in CLONEABLE:
                cloneable[row.id] = row.size_gb, row.pool_id
    for source, as_seen in seen_sources.items():
        if source in changed or cloneable.get(source) != as_seen:
            raise errors.Conflict(f"volume {source} was changed by another request; try again")
    for target, pool_id in hint_targets.items():
        if pools.get(target) != pool_id:
            raise errors.Conflict(f"volume {target} was given another place by another request; try again")


def require_not_cloning(session: orm.Session, grown: Collection[str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.Conflict` if one of the extended volumes is being cloned.

    Call it after the rows of these volumes are locked, so that no new clone can begin.
    """
    if grown and (cloned := being_cloned(session, grown)):
        raise errors.Conflict(f"{', '.join(cloned)} is being cloned by another request; try again")
