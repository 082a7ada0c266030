# SPDX-License-Identifier: Apache-2.0
"""Drains: the volumes that are still on draining backends, those that move next, and why some of them cannot move."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects

#: Most reasons in the progress of a drain.
_MOST_REASONS = 3

#: Pause after a failed migration of a drain: each attempt may copy the whole volume, and sends its owner a message.
_AFTER_FAILURE = datetime.timedelta(minutes=10)

_FIGURE = re.compile(r"\d+")

_VOLUME = models.Volume
_MOVES = _VOLUME.status == "maintenance"
#: The last attempt to move the volume has failed, or nothing will move it as it is.
_CANNOT_MOVE = sa.and_(
    ~_MOVES,
    sa.or_(
        _VOLUME.drain_refusal.is_not(None),
        _VOLUME.group_id.is_not(None),
        _VOLUME.migration_status == "error",
        _VOLUME.status.like("error%"),
    ),
)


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The progress of a drain.

    ``volumes`` is the number of volumes that are still on the backend. ``moving`` of them move now, and ``stuck`` of
    them cannot move at present, the first of them for the ``reasons``, each of which names its volume.
    """

    volumes: int
    moving: int
    stuck: int
    reasons: Sequence[str]

    @property
    def is_stuck(self) -> bool:
        """Whether volumes are left and none of them can move."""
        return 0 < self.volumes == self.stuck

    @property
    def text(self) -> str:
        """The number of volumes that are to move, and the first reason if some cannot."""
        text = f"{self.volumes:,} volume{'' if self.volumes == 1 else 's'} to move"
        return f"{text}; {self.stuck:,} cannot: {self.reasons[0]}" if self.reasons else text


def load(session: orm.Session) -> dict[str, DrainProgress]:
    """Return the progress of each drain by the name of its backend; backends that are not draining have none."""
    backend, pool = models.Backend, models.Pool
    names = session.scalars(sa.select(backend.name).where(backend.draining.is_(True)).order_by(backend.name)).all()
    if not names:
        return {}
    moving, stuck = (sa.func.sum(sa.case((condition, 1), else_=0)) for condition in (_MOVES, _CANNOT_MOVE))
    of_backend = (
        sa.select(backend.name, sa.func.count(), moving, stuck)
        .select_from(backend)
        .join(pool, pool.backend_id == backend.id)
        .join(_VOLUME, _VOLUME.pool_id == pool.id)
        .where(backend.draining.is_(True))
        .group_by(backend.name)
    )
    sums = {row[0]: tuple(map(int, row[1:])) for row in session.execute(of_backend)}
    return {name: _progress(session, name, *sums.get(name, (0, 0, 0))) for name in names}


def reason(volume: models.Volume) -> str | None:
    """Return why a volume cannot leave its backend at present, as the end of a sentence; None if nothing keeps it."""
    if volume.status == "maintenance":
        return None
    if volume.group_id is not None:
        return f"belongs to group {volume.group_id}, whose volumes stay together: remove it from the group"
    if volume.status.startswith("error"):
        return f"is {volume.status}{_because(volume)}"
    if volume.migration_status == "error":
        return f"failed to move, and is tried again ten minutes later{_because(volume)}"
    return volume.drain_refusal


def record(session: orm.Session, reasons: Mapping[str, str]) -> set[str]:
    """Record why volumes of draining backends cannot move, by their ids.

    Return the ids of those with another reason than before. The figures in a reason, which change with each report,
    make no other reason.
    """
    before: dict[str, str | None] = {}
    for ids in dialects.in_chunks(reasons):
        before.update(session.execute(sa.select(_VOLUME.id, _VOLUME.drain_refusal).where(_VOLUME.id.in_(ids))).all())
    for volume_id, text in sorted(reasons.items()):
        session.execute(
            sa.update(_VOLUME)
            .where(_VOLUME.id == volume_id)
            # Nothing of the volume itself has changed.
            .values(drain_refusal=text, updated_at=_VOLUME.updated_at)
            .execution_options(synchronize_session=False)
        )
    return {
        volume_id
        for volume_id, text in reasons.items()
        if (last := before.get(volume_id)) is None or _FIGURE.sub("", last) != _FIGURE.sub("", text)
    }


def forget(session: orm.Session, backend_id: int) -> None:
    """Forget why volumes of a backend could not move: a drain begins or ends."""
    volume_ids = session.scalars(
        sa.select(_VOLUME.id)
        .join(models.Pool, models.Pool.id == _VOLUME.pool_id)
        .where(models.Pool.backend_id == backend_id, _VOLUME.drain_refusal.is_not(None))
        .order_by(_VOLUME.id)
    ).all()
    for ids in dialects.in_chunks(volume_ids):
        session.execute(
            sa.update(_VOLUME)
            .where(_VOLUME.id.in_(ids))
            .values(drain_refusal=None, updated_at=_VOLUME.updated_at)
            .execution_options(synchronize_session=False)
        )


def _progress(session: orm.Session, name: str, volumes: int, moving: int, stuck: int) -> DrainProgress:
    reasons: list[str] = []
    if stuck:
        of_backend = (
            sa.select(_VOLUME)
            .join(models.Pool, models.Pool.id == _VOLUME.pool_id)
            .join(models.Backend, models.Backend.id == models.Pool.backend_id)
            .where(models.Backend.name == name, _CANNOT_MOVE)
            .order_by(_VOLUME.id)
            .limit(_MOST_REASONS)
        )
        reasons = [f"volume {row.id}: {reason(row)}" for row in session.scalars(of_backend)]
    return DrainProgress(volumes, moving, stuck, reasons)


def _because(volume: models.Volume) -> str:
    return f": {volume.status_reason}" if volume.status_reason else ""


def next_volumes(session: orm.Session, limit: int, after: str = "") -> list[str]:
    """Return volumes to migrate away from draining backends, so that at most ``limit`` of them move at a time.

    They are returned in the order of their ids, starting after the id ``after`` and wrapping around, so that volumes
    that find no other pool do not block the rest. A volume whose migration failed is skipped for ten minutes.
    """
    volume, pool, backend = models.Volume, models.Pool, models.Backend
    if session.scalar(sa.select(backend.id).where(backend.draining.is_(True)).limit(1)) is None:
        return []  # the usual case; without this query the database might read all volumes
    of_draining = (
        sa.select(volume.id)
        .join(pool, pool.id == volume.pool_id)
        .join(backend, backend.id == pool.backend_id)
        # The volumes of a group stay together, so they are not moved.
        .where(backend.draining.is_(True), volume.group_id.is_(None))
    )
    moving = session.scalars(of_draining.where(volume.status == "maintenance").limit(limit)).all()
    if len(moving) >= limit:
        return []
    room = limit - len(moving)
    before = session.execute(sa.select(models.utcnow())).scalar_one() - _AFTER_FAILURE
    ready = of_draining.where(
        volume.status == "available",
        sa.or_(volume.migration_status.is_(None), volume.migration_status != "error", volume.updated_at < before),
    ).order_by(volume.id)
    volume_ids = list(session.scalars(ready.where(volume.id > after).limit(room)))
    if len(volume_ids) < room:
        volume_ids += session.scalars(ready.where(volume.id <= after).limit(room - len(volume_ids)))
    return volume_ids
