# SPDX-License-Identifier: Apache-2.0
"""QoS specs: limits for volumes that a storage or a hypervisor enforces.

They are rows of their own, associated with volume types. Expressions of drivers see the specs of a request's type as
``qos``, with any consumer, as in the Block Storage service.
"""

import enum
import uuid
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import lost_commits, paging

SORT_KEYS: paging.SortKeys = {
    "id": lambda specs: specs.id,
    "name": lambda specs: specs.name,
    "consumer": lambda specs: specs.consumer,
    "created_at": lambda specs: specs.created_at,
}


class Consumer(enum.StrEnum):
    """The side that enforces the specs: the hypervisor, the storage, or both."""

    FRONT_END = "front-end"
    BACK_END = "back-end"
    BOTH = "both"


class NameTaken(errors.Conflict):
    """Other QoS specs have that name."""


class InUse(errors.Conflict):
    """QoS specs are associated with volume types."""


def create(
    session: orm.Session,
    name: str,
    consumer: Consumer = Consumer.BACK_END,
    specs: Mapping[str, str] | None = None,
) -> models.QosSpecs:
    """Add QoS specs. Raises :class:`NameTaken`."""
    committed = lost_commits.find_committed(session, models.QosSpecs, name, consumer=consumer.value, specs=specs or {})
    if committed is not None:
        return committed
    qos_specs = models.QosSpecs(id=str(uuid.uuid4()), name=name, consumer=consumer.value, specs=dict(specs or {}))
    session.add(qos_specs)
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise NameTaken(f"QoS Specs {name} already exists.") from None
    return qos_specs


def get(session: orm.Session, specs_id: str) -> models.QosSpecs:
    """Return the QoS specs with that id. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    return _find_one(session, sa.select(models.QosSpecs).where(models.QosSpecs.id == specs_id), specs_id)


def page(session: orm.Session, part: paging.Page) -> list[models.QosSpecs]:
    """Return a page of QoS specs. Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown marker."""
    if part.marker is not None:
        get(session, part.marker)
    return list(session.scalars(paging.apply(sa.select(models.QosSpecs), models.QosSpecs, SORT_KEYS, part)))


def update(
    session: orm.Session, specs_id: str, specs: Mapping[str, str], consumer: Consumer | None = None
) -> models.QosSpecs:
    """Set some of the specs and keep the others; set the consumer unless it is None.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    qos_specs = _lock(session, specs_id)
    qos_specs.specs = {**qos_specs.specs, **specs}
    if consumer is not None:
        qos_specs.consumer = consumer.value
    session.flush()
    return qos_specs


def unset(session: orm.Session, specs_id: str, keys: Collection[str]) -> None:
    """Remove all of these keys or none.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the specs, or one of the keys in them, are missing.
    """
    qos_specs = _lock(session, specs_id)
    for key in keys:
        if key not in qos_specs.specs:
            raise errors.NotFound(f"QoS Specs {specs_id} has no spec with key {key}.")
    qos_specs.specs = {key: value for key, value in qos_specs.specs.items() if key not in keys}
    session.flush()


def delete(session: orm.Session, specs_id: str, *, force: bool = False) -> None:
    """Delete QoS specs; ``force`` is required if volume types are associated, and removes the associations.

    Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`InUse`.
    """
    qos_specs = _lock(session, specs_id)
    if force:
        disassociate_all(session, specs_id)
    elif associations(session, specs_id):
        raise InUse(f"QoS Specs {specs_id} is still associated with entities.")
    session.delete(qos_specs)
    session.flush()


def associations(session: orm.Session, specs_id: str) -> list[models.VolumeType]:
    """Return the volume types of QoS specs, by name. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    get(session, specs_id)
    volume_type, link = models.VolumeType, models.TypeQos
    chosen = (
        sa.select(volume_type).join(link, link.volume_type_id == volume_type.id).where(link.qos_specs_id == specs_id)
    )
    return list(session.scalars(chosen.order_by(volume_type.name)))


def of_types(session: orm.Session, type_ids: Collection[str]) -> dict[str, str]:
    """Map the ids of volume types to the ids of their QoS specs; types without QoS specs are left out."""
    link = models.TypeQos
    rows = session.execute(
        sa.select(link.volume_type_id, link.qos_specs_id).where(link.volume_type_id.in_(list(type_ids)))
    )
    return {row.volume_type_id: row.qos_specs_id for row in rows}


def associate(session: orm.Session, specs_id: str, type_id: str) -> None:
    """Associate QoS specs with a volume type.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for a type
    with other QoS specs.
    """
    _lock(session, specs_id)
    # The lock keeps the type from being deleted, or associated with other specs, meanwhile.
    volume_types.lock(session, type_id)
    associated_id = session.scalar(
        sa.select(models.TypeQos.qos_specs_id).where(models.TypeQos.volume_type_id == type_id)
    )
    if associated_id is None:
        session.add(models.TypeQos(volume_type_id=type_id, qos_specs_id=specs_id))
        session.flush()
    elif associated_id != specs_id:
        raise errors.InvalidInput(f"Type {type_id} is already associated with another qos specs: {associated_id}")


def disassociate(session: orm.Session, specs_id: str, type_id: str) -> None:
    """Remove the association of QoS specs with a type, if any. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    get(session, specs_id)
    volume_types.get(session, type_id)
    link = models.TypeQos
    session.execute(sa.delete(link).where(link.volume_type_id == type_id, link.qos_specs_id == specs_id))


def disassociate_all(session: orm.Session, specs_id: str) -> None:
    """Remove all associations of QoS specs. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    get(session, specs_id)
    session.execute(sa.delete(models.TypeQos).where(models.TypeQos.qos_specs_id == specs_id))


def _lock(session: orm.Session, specs_id: str) -> models.QosSpecs:
    """Return QoS specs and lock their row until the transaction ends."""
    return _find_one(
        session, sa.select(models.QosSpecs).where(models.QosSpecs.id == specs_id).with_for_update(), specs_id
    )


def _find_one(session: orm.Session, statement: sa.Select[Any], specs_id: str) -> models.QosSpecs:
    qos_specs: models.QosSpecs | None = session.scalar(statement)
    if qos_specs is None:
        raise errors.NotFound(f"No such QoS spec {specs_id}.")
    return qos_specs
