# SPDX-License-Identifier: Apache-2.0
"""All that the ledger has about the decisions on one volume: its request, its claims and its refusals."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals
from tonnage.ledger.catalog.refusals import RefusalFilter
from tonnage.ledger.inventory import drains, volume_figures
from tonnage.ledger.inventory.volume_figures import ClaimFigures
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs

#: Most refusals of one volume.
_MOST_REFUSALS = 100

#: Most ids that an error about a name of several volumes lists.
_MOST_IDS = 10

#: The effect of a claim in the volume's pool, by its verb.
_DONE = {
    claim_verbs.CREATE: "placed here by request {0.request_id}",
    claim_verbs.MIGRATE: "moved here by request {0.request_id}",
    "manage": "managed here by request {0.request_id}, without a decision",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDecisions:
    """A volume with the request for it, its claims, the oldest first, and its refusals, the newest first.

    A request that was refused has only refusals: ``id`` is its volume, and the other fields are None or empty. A volume
    of another system has claims and refusals. ``pool`` and ``volume_type`` are names; ``attempted_pools`` are those
    that failed to create it. ``request_body`` is the body of the same request to ``POST /volumes``, or the last request
    of Cinder that was refused, see :func:`~tonnage.ledger.catalog.refusals.cinder_body`; None if the ledger has none.
    ``of_cinder`` is whether the volumes of this ledger are Cinder's.
    """

    id: str
    request_id: str
    project_id: str
    name: str | None = None
    status: str | None = None
    status_reason: str | None = None
    size_gb: int | None = None
    volume_type: str | None = None
    pool: str | None = None
    provisioning: str | None = None
    requested_zone: str | None = None
    hints: Mapping[str, Any] | None = None
    attempted_pools: Sequence[str] = ()
    source_volume_id: str | None = None
    created_at: datetime.datetime | None = None
    claims: Sequence[ClaimFigures] = ()
    refusals: Sequence[models.Refusal] = ()
    request_body: Mapping[str, Any] | None = None
    drain: str | None = None
    of_cinder: bool = False

    @property
    def reason(self) -> str:
        """The reason why the volume is where it is, or has no pool, in one sentence."""
        if self.pool is None:
            return self.status_reason or (self.refusals[0].message if self.refusals else "no pool is chosen yet")
        placement_claims = [claim for claim in self.claims if claim.pool == self.pool and claim.verb in _DONE]
        done = "the ledger has no decision about it"
        if placement_claims:
            done = (
                _DONE[placement_claims[-1].verb].format(placement_claims[-1])
                if placement_claims[-1].request_id
                else "adopted from Cinder without a decision"
            )
        tried = f", after {', '.join(self.attempted_pools)} failed to create it" if self.attempted_pools else ""
        return f"{done}{tried}"

    @property
    def waits_for(self) -> str | None:
        """The backend that the volume's operation waits for, see :class:`ClaimFigures`; None if it waits for none."""
        return volume_figures.first_wait(self.claims)


def find(session: orm.Session, name: str, down_time: float) -> VolumeDecisions:
    """Return the decisions on a volume, by its id or its name, or on a request, by its id.

    A backend is down after ``down_time`` seconds of silence.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for a name
    that several volumes have.
    """
    volume = _volume(session, name)
    if volume is not None:
        return VolumeDecisions(
            id=volume.id,
            request_id=volume.request_id,
            project_id=volume.project_id,
            name=volume.name,
            status=volume.status,
            status_reason=volume.status_reason,
            size_gb=volume.size_gb,
            volume_type=None if volume.volume_type is None else volume.volume_type.name,
            pool=None if volume.pool is None else volume.pool.name,
            provisioning=volume.provisioning,
            requested_zone=volume.requested_zone,
            hints=volume.hints,
            attempted_pools=volume.attempted_pools,
            source_volume_id=volume.source_volume_id,
            created_at=volume.created_at,
            drain=_drain(volume),
            claims=volume_figures.claims_of(session, volume.id, down_time),
            refusals=refusals.load(session, RefusalFilter(volume_id=volume.id), _MOST_REFUSALS),
            request_body=refusals.create_body(
                size_gb=volume.size_gb,
                volume_type=None if volume.volume_type is None else volume.volume_type.name,
                zone=volume.requested_zone,
                hints=volume.hints,
                source_volume_id=volume.source_volume_id,
            ),
        )
    if claims := volume_figures.claims_of(session, name, down_time):
        # A volume of another system: the ledger has its claims.
        live = [claim for claim in claims if claim.state in pool_counters.LIVE]
        refused = refusals.load(session, RefusalFilter(volume_id=name), _MOST_REFUSALS)
        return VolumeDecisions(
            id=name,
            request_id=claims[0].request_id,
            project_id=refused[0].project_id if refused else "",
            pool=live[-1].pool if live else None,
            claims=claims,
            refusals=refused,
            request_body=refused[0].request_body if refused else None,
            of_cinder=True,
        )
    for refusal_filter in (RefusalFilter(request_id=name), RefusalFilter(volume_id=name)):
        if matches := refusals.load(session, refusal_filter, _MOST_REFUSALS):
            last = matches[0]
            return VolumeDecisions(
                id=last.volume_id,
                request_id=last.request_id,
                project_id=last.project_id,
                refusals=matches,
                request_body=last.request_body,
                of_cinder=bool(session.scalar(sa.select(sa.exists().where(models.Backend.observed.is_(True))))),
            )
    raise errors.NotFound(
        f"{name} could not be found: there is no volume with this id or name, and no recorded refusal of a request "
        "with this id; the ledger does not keep deleted volumes"
    )


def _drain(volume: models.Volume) -> str | None:
    """Return whether a volume on a draining backend can leave it; None if its backend is not draining."""
    if volume.pool is None or not volume.pool.backend.draining:
        return None
    name, reason = volume.pool.backend.name, drains.reason(volume)
    return f"backend {name} is draining, and the volume " + ("is to leave it" if reason is None else f"stays: {reason}")


def _volume(session: orm.Session, name: str) -> models.Volume | None:
    row = models.Volume
    for column in (row.id, row.name, row.request_id):
        volumes = session.scalars(sa.select(row).where(column == name).order_by(row.id).limit(_MOST_IDS)).all()
        if len(volumes) > 1:
            ids = ", ".join(volume.id for volume in volumes)
            raise errors.InvalidInput(f"several volumes are named {name}: give the id of one, such as {ids}")
        if volumes:
            return volumes[0]
    return None
