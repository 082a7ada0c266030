# SPDX-License-Identifier: Apache-2.0
"""The overviews of the ledger by their names, for commands that read it in SQL or by the REST API.

A row is a named tuple, and over REST an object with its fields.
"""

import datetime
import itertools
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import orm

from tonnage.capacity import type_conversion
from tonnage.capacity.pools.pool import backend_of, short_name
from tonnage.ledger.inventory import audit_findings, backends, capacity_figures, drains, names, volume_figures
from tonnage.ledger.inventory.capacity_figures import PoolFigures
from tonnage.ledger.inventory.volume_figures import ClaimFigures, TypeFigures, VolumeFigures
from tonnage.ledger.locks import backend_notices

#: Rows of one page of an overview that has pages.
PAGE_SIZE = 1000

#: ``(session, filters, service_down_time)``.
_Read: typing.TypeAlias = Callable[[orm.Session, Mapping[str, str], float], Iterable[Any]]


class PoolState(NamedTuple):
    """The figures of a pool, and whether it is up and it can have thin volumes.

    It is up if its backend is and reports it, and ``present`` if the last report of the backend had it.

    ``problem`` is the reason why the backend is down or in doubt, or why the pool is absent; None if neither is.
    """

    figures: PoolFigures
    up: bool
    thin: bool
    problem: str | None
    present: bool


class BackendState(NamedTuple):
    """A backend: the state that an operator has set, with its reason, and whether it is up.

    ``problem`` is the reason why it is down or in doubt, None if it is not. ``allocated_gb`` is the sum over its pools,
    also over those that it no longer reports, ``silence_s`` the number of seconds since its last report. While it
    drains, ``volumes_left`` is the number of its volumes, of which ``moving`` move and ``cannot_move`` cannot, the
    first of them for the ``drain_reasons``.
    """

    name: str
    state: str
    reason: str | None
    up: bool
    problem: str | None
    allocated_gb: int
    silence_s: float | None
    availability_zone: str
    epoch: int
    volumes_left: int | None
    moving: int | None
    cannot_move: int | None
    drain_reasons: list[str] | None


class PoolFinding(NamedTuple):
    """A breach of the report format by a pool: the broken rule, the time of its figures, and the evidence."""

    breach: str
    seen_at: datetime.datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """An overview: the class of its rows, its filters, and the function that reads it.

    One with pages goes on after the row whose id is ``after``.
    """

    row: type[Any]
    read: _Read
    filters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    has_pages: bool = False

    def page(self, session: orm.Session, filters: Mapping[str, str], down_time: float) -> list[Any]:
        """Return the rows, or those of one page. A backend is down after ``down_time`` seconds of silence.

        Raises :class:`~tonnage.capacity.errors.NotFound` for the name of a missing object in a filter.
        """
        rows = self.read(session, filters, down_time)
        return list(itertools.islice(rows, PAGE_SIZE if self.has_pages else None))

    def from_objects(self, objects: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return the rows for objects of the REST API. Raises KeyError for an object without one of the fields."""
        rows: list[Any] = type_conversion.convert(
            [_in_order(self.row, fields) for fields in objects],
            list[self.row],  # type: ignore[name-defined]
        )
        return rows


def as_object(row: Any) -> dict[str, Any]:
    """Return a row as an object for the REST API."""
    return {
        name: as_object(value) if hasattr(value, "_fields") else value
        for name, value in zip(row._fields, row, strict=True)
    }


def _in_order(value_type: Any, value: Any) -> Any:
    """Return an object as the list of the fields of a named tuple, and any other value as it is."""
    row_class = next((part for part in (value_type, *typing.get_args(value_type)) if hasattr(part, "_fields")), None)
    if row_class is None or value is None:
        return value
    hints = typing.get_type_hints(row_class)
    return [_in_order(hints[name], value[name]) for name in row_class._fields]


def _backends(session: orm.Session, filters: Mapping[str, str], down_time: float) -> list[BackendState]:
    progress, down = drains.load(session), capacity_figures.reported_down(session)
    return [
        BackendState(
            name=row.name,
            state="draining" if row.draining else "enabled" if row.enabled else "disabled",
            reason=row.disabled_reason,
            up=capacity_figures.is_up(row.silence, down_time),
            problem=backend_notices.state_reason(row.silence, row.notice, down_time, is_reported_down=row.name in down),
            allocated_gb=row.allocated_gb,
            silence_s=None if row.silence is None else round(row.silence, 1),
            availability_zone=row.availability_zone,
            epoch=row.epoch,
            volumes_left=None if (drain := progress.get(row.name)) is None else drain.volumes,
            moving=None if drain is None else drain.moving,
            cannot_move=None if drain is None else drain.stuck,
            drain_reasons=None if drain is None else list(drain.reasons),
        )
        for row in backends.load_backends(session)
    ]


def _pools(session: orm.Session, filters: Mapping[str, str], down_time: float) -> list[PoolState]:
    backend = filters.get("backend")
    if backend is not None:
        names.require_backend(session, backend)
    thin, absent = capacity_figures.thin_pools(session), capacity_figures.absent_pools(session)
    return [
        PoolState(
            figures,
            figures.up(down_time) and figures.name not in absent,
            figures.name in thin,
            _pool_problem(figures, down_time, is_absent=figures.name in absent),
            figures.name not in absent,
        )
        for figures in capacity_figures.pools(session, backend=backend, with_absent=True)
    ]


def _pool_problem(figures: PoolFigures, down_time: float, *, is_absent: bool) -> str | None:
    """Return why a pool is down or in doubt, None if it is not."""
    reason = backend_notices.state_reason(figures.silence, figures.notice, down_time)
    if not is_absent:
        return reason
    missing = f"its backend no longer reports it, and the ledger counts {figures.allocated_gb} GiB of volumes there"
    return missing if reason is None else f"{missing}; {reason}"


def _volumes(session: orm.Session, filters: Mapping[str, str], down_time: float) -> Iterable[VolumeFigures]:
    if (pool := filters.get("pool")) is not None:
        names.require_pool_or_backend(session, pool)
    if (volume_type := filters.get("volume_type")) is not None:
        names.require_type(session, volume_type)
    waits = volume_figures.waits(session, down_time)
    volumes = volume_figures.volumes(session, volume_figures.VolumeFilter(**filters))
    return (volume._replace(waits_for=waits.get(volume.id)) for volume in volumes)


def _types(session: orm.Session, filters: Mapping[str, str], down_time: float) -> list[TypeFigures]:
    return volume_figures.types(session)


def _claims(session: orm.Session, filters: Mapping[str, str], down_time: float) -> list[ClaimFigures]:
    if (pool := filters.get("pool")) is not None:
        return volume_figures.claims_in_flight(session, pool, down_time)
    return volume_figures.open_claims(session, down_time)


def _findings(session: orm.Session, filters: Mapping[str, str], down_time: float) -> list[PoolFinding]:
    pool = filters["pool"]
    return [
        PoolFinding(finding.breach, finding.seen_at, finding.evidence.text)
        for finding in audit_findings.load(session, backend_of(pool))
        if finding.evidence.once is None and finding.pool == audit_findings.stored_name(short_name(pool))
    ]


OVERVIEWS: Mapping[str, Overview] = {
    "backends": Overview(row=BackendState, read=_backends),
    "pools": Overview(row=PoolState, read=_pools, filters=("backend",)),
    "volumes": Overview(
        row=VolumeFigures,
        read=_volumes,
        filters=("project_id", "status", "pool", "volume_type", "after"),
        has_pages=True,
    ),
    "types": Overview(row=TypeFigures, read=_types),
    #: The operations under way or, with a pool, its claims that its figures do not contain.
    "claims": Overview(row=ClaimFigures, read=_claims, filters=("pool",)),
    "findings": Overview(row=PoolFinding, read=_findings, required=("pool",)),
}
