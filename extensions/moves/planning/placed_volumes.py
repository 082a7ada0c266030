# SPDX-License-Identifier: Apache-2.0
"""The volumes of pools as a plan needs them: the request that their move makes, or why they cannot be moved."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.extensions.moves.planning.plan import StayingVolume
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import MigrateVolume
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.requests.placement_requests import Move, Single
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec
from tonnage.scheduler.steps import moves

#: Seconds that a planner works at a time, and that it pauses then. A pause of no length would not do: a thread that
#: waits for the interpreter has no time to take it.
_TURN, _PAUSE = 0.001, 0.0001


class _Turn(threading.local):
    """The time when the turn of a thread began."""

    began = 0.0


_turn = _Turn()


def give_way() -> None:
    """Let other threads go on, the decisions above all, if this one has had its turn: a plan may take a minute."""
    if time.perf_counter() - _turn.began >= _TURN:
        time.sleep(_PAUSE)
        _turn.began = time.perf_counter()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedVolume:
    """A volume in a pool. ``spec`` is None for one that cannot be moved, for the ``reason``.

    ``spec`` is None too for a volume of which no more than its size has been read (``is_brief``): most volumes stay
    where they are. ``state`` is kept with the step of its move: by it a change of the volume shows later.
    """

    id: str
    size_gb: int
    pool: str
    is_thick: bool
    spec: RequestSpec | None
    reason: str = ""
    state: Mapping[str, Any] | None = None
    is_brief: bool = False

    @property
    def may_move(self) -> bool:
        """Whether no reason is known why it stays."""
        return self.is_brief or self.spec is not None

    def staying(self, reason: str) -> StayingVolume:
        """Return the volume as one that stays for a reason."""
        return StayingVolume(volume_id=self.id, size_gb=self.size_gb, pool=self.pool, reason=reason)


class VolumeReader(Protocol):
    """Reads the volumes of pools."""

    def load(self, pools: Iterable[str]) -> None:
        """Read the volumes of these pools, unless they have been read."""

    def read(self, ids: Sequence[str]) -> Mapping[str, PlacedVolume]:
        """Return volumes by their ids as they are now, without those that are in no pool."""

    def lookup(self, items: Sequence[Single]) -> Lookup:
        """Return the rows that requests refer to."""

    def of(self, pool: str) -> list[PlacedVolume]:
        """Return the volumes of a pool, the largest first; those that are brief are read in full later."""


class PlacedVolumes:
    """Reads the volumes of pools from the ledger, those of each pool once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._by_pool: dict[str, list[PlacedVolume]] = {}

    def load(self, pools: Iterable[str]) -> None:
        """Read the volumes of these pools, unless they have been read."""
        names = sorted(set(pools) - self._by_pool.keys())
        if not names:
            return
        self._by_pool.update({name: [] for name in names})
        with self._database.reading() as session:
            unusual: list[str] = []
            for chunk in dialects.in_chunks(names):
                for part in _brief_rows(session, chunk):
                    give_way()
                    for volume_id, size_gb, provisioning, status, group_id, pool in part:
                        if status != "available" or group_id is not None:
                            unusual.append(volume_id)
                            continue
                        is_thick = provisioning == Provisioning.THICK
                        self._by_pool[pool].append(
                            PlacedVolume(
                                id=volume_id, size_gb=size_gb, pool=pool, is_thick=is_thick, spec=None, is_brief=True
                            )
                        )
            # Of these the reason is told why they stay.
            for placed in _read(session, unusual):
                # A volume may have gone elsewhere between the two statements.
                if placed.pool in self._by_pool:
                    self._by_pool[placed.pool].append(placed)
        for name in names:
            self._by_pool[name].sort(key=lambda volume: (-volume.size_gb, volume.id))

    def read(self, ids: Sequence[str]) -> dict[str, PlacedVolume]:
        """Return volumes by their ids as they are now, without those that are in no pool."""
        with self._database.reading() as session:
            return {volume.id: volume for volume in _read(session, ids)}

    def lookup(self, items: Sequence[Single]) -> Lookup:
        """Return the rows that requests refer to."""
        with self._database.reading() as session:
            return resolution.read_references(session, items)

    def of(self, pool: str) -> list[PlacedVolume]:
        """Return the volumes of a pool that the ledger has in it, the largest first."""
        self.load([pool])
        return self._by_pool[pool]


def _brief_rows(session: orm.Session, pools: Sequence[str]) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the volumes of pools in parts: id, size, provisioning, status, group and pool."""
    volume, pool = models.Volume, models.Pool
    statement = (
        sa.select(volume.id, volume.size_gb, volume.provisioning, volume.status, volume.group_id, pool.name)
        .join(pool, pool.id == volume.pool_id)
        .where(pool.name.in_(pools))
    )
    rows = session.connection().execute(statement, execution_options={"yield_per": dialects.CHUNK_SIZE})
    return rows.partitions()


def _read(session: orm.Session, ids: Sequence[str]) -> Iterator[PlacedVolume]:
    """Yield the volumes with these ids that are in a pool."""
    for chunk in dialects.in_chunks(ids):
        give_way()
        requests = [Move(MigrateVolume(request_id="", volume_id=volume_id), keeps_affinity=True) for volume_id in chunk]
        lookup = resolution.read_references(session, requests)
        for request in requests:
            row = lookup.volumes.get(request.message.volume_id)
            if row is not None and row.pool is not None:
                yield _placed(request, row, row.pool.name, lookup)


def _placed(request: Move, row: models.Volume, pool: str, lookup: Lookup) -> PlacedVolume:
    is_thick = row.provisioning == Provisioning.THICK
    try:
        spec = moves.resolve_move(request, lookup)
    except (errors.Conflict, errors.InvalidInput) as error:
        return PlacedVolume(
            id=row.id, size_gb=row.size_gb, pool=pool, is_thick=is_thick, spec=None, reason=error.message
        )
    return PlacedVolume(id=row.id, size_gb=row.size_gb, pool=pool, is_thick=is_thick, spec=spec)
