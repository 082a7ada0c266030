# SPDX-License-Identifier: Apache-2.0
"""The rows, commands, quotas and messages of Cinder that a volume needs which moves to grow."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa
from cinder import context as cinder_context
from cinder import exception, objects, quota, utils
from cinder.common import constants
from cinder.message import api as message_api
from cinder.message import message_field
from cinder.volume import rpcapi
from oslo_config import cfg
from oslo_db import api as oslo_db_api

from tonnage.extensions.cinder import releases
from tonnage.extensions.cinder.growth.growth_steps import (
    ERROR_EXTENDING,
    EXTENDING,
    Beats,
    Copy,
    NotOwner,
    Outcome,
    Progress,
    Volume,
)
from tonnage.extensions.cinder.ledger.growths import Growth

LOG = logging.getLogger(__name__)

CONF = cfg.CONF  # noqa: TID251  (Cinder's way)

cinder_db, models = releases.import_database()

#: Seconds after which a call is given up: longer than any copy lasts.
_LONGEST = 7 * 24 * 3600

_VOLUME = models.Volume.__table__.c
_SERVICE = models.Service.__table__.c
_place = sa.func.coalesce(_VOLUME.cluster_name, _VOLUME.host)
_LIVE = _VOLUME.deleted == sa.false()

#: Values of ``migration_status`` of a volume that is not being moved.
_AT_REST = ("", "error", "success", "deleting")

_NOT_MOVING = sa.or_(_VOLUME.migration_status.is_(None), _VOLUME.migration_status.in_(_AT_REST))


class GrowthCommands:
    """Cinder, for :class:`~tonnage.extensions.cinder.growth.growth_steps.Growing`.

    ``pools`` returns the pools that Cinder's schedulers know, by name. A called cinder-volume is silent after
    ``silence`` seconds without a sign of life. ``renew`` renews the ownership of a growth, and returns whether this
    scheduler has it: it is called right before each change, because the process may have been frozen before.
    """

    def __init__(self, pools: Callable[[], Mapping[str, Any]], silence: float, renew: Callable[[Growth], bool]) -> None:
        self._pools, self._silence, self._renew = pools, silence, renew
        self.beat_interval = float(CONF.report_interval)

    def volume(self, volume_id: str) -> Volume | None:
        """Return the row of a volume."""
        row = models.Volume
        statement = sa.select(
            row.id, _place, row.size, row.status, row.migration_status, row.previous_status, row._name_id
        )
        for id, pool, size, status, migration, previous, name_id in _execute(
            statement.where(row.id == volume_id, _LIVE)
        ):
            return Volume(pool, size or 0, status or "", migration or "", previous or "", name_id or id)
        return None

    def copies(self, volume_id: str) -> Sequence[Copy]:
        """Return the copies of a volume that it is not swapped with."""
        return _copies(_VOLUME.migration_status == f"target:{volume_id}")

    def old_copies(self, volume_id: str) -> Sequence[Copy]:
        """Return the remains of a volume in pools that it has left."""
        return _copies(
            _VOLUME.migration_status == "deleting", _VOLUME.display_description == f"migration src for {volume_id}"
        )

    def beats(self, backend: str) -> Beats:
        """Return the heartbeats of the services of a backend."""
        of_backend = sa.or_(_SERVICE.host == backend, _SERVICE.cluster_name == backend)
        beat = sa.func.coalesce(_SERVICE.updated_at, _SERVICE.created_at)
        rows = _execute(
            sa.select(_SERVICE.host, beat, sa.func.current_timestamp()).where(
                of_backend, _SERVICE.deleted == sa.false(), _SERVICE.topic == constants.VOLUME_TOPIC
            )
        )
        alive_since = utils.service_expired_time().replace(tzinfo=None)
        return Beats(
            any(at >= alive_since for _, at, _ in rows),
            {host: at.timestamp() for host, at, _ in rows},
            rows[0][2].timestamp() if rows else 0.0,
        )

    def _require(self, growth: Growth) -> None:
        if not self._renew(growth):
            raise NotOwner(growth.volume_id)

    def mark(self, growth: Growth) -> bool:
        """Mark the row as that of a volume that begins to move."""
        self._require(growth)
        begins = sa.and_(_VOLUME.migration_status == "starting", _VOLUME.previous_status == EXTENDING)
        return _write(
            sa.update(models.Volume.__table__)
            .where(*_stays(growth), sa.or_(_NOT_MOVING, begins))
            .values(migration_status="starting", previous_status=EXTENDING)
        )

    def migrate(self, growth: Growth, progress: Progress) -> None:
        """Send the command to migrate the volume."""
        target = self._pools()[growth.target]
        place = {"host": target.host, "cluster_name": target.cluster_name, "capabilities": target.capabilities}
        version = "3.5"
        if not rpcapi.VolumeAPI().client.can_send_version(version):
            version = "3.0"
            del place["cluster_name"]
        self._call(growth, progress, version, "migrate_volume", host=place, force_host_copy=False)

    def extend(self, growth: Growth, progress: Progress) -> None:
        """Send the command to extend the volume."""
        self._call(
            growth,
            progress,
            None,
            "extend_volume",
            new_size=growth.new_size_gb,
            reservations=list(growth.reservations),
        )

    def _call(self, growth: Growth, progress: Progress, version: str | None, method: str, **arguments: Any) -> None:
        """Call a method of the volume's cinder-volume in a thread of its own."""
        context = _context(growth)
        volume = objects.Volume.get_by_id(context, growth.volume_id)
        prepared = rpcapi.VolumeAPI()._get_cctxt(
            volume.service_topic_queue, version, timeout=_LONGEST, call_monitor_timeout=int(self._silence)
        )

        def call() -> None:
            outcome = Outcome.UNSENT
            try:
                self._require(growth)
                progress(Outcome.SENT)
                outcome = Outcome.ANSWERED
                prepared.call(context, method, volume=volume, **arguments)
            except NotOwner:
                LOG.warning("%s of volume %s is not sent: it is another scheduler's by now", method, volume.id)
            except exception.DriverNotInitialized as error:
                outcome = Outcome.REFUSED
                LOG.warning("%s of volume %s is refused: %s", method, volume.id, error)
            except messaging.MessagingTimeout:
                outcome = Outcome.SILENT
                LOG.warning("cinder-volume gives no sign of life during %s of volume %s", method, volume.id)
            except messaging.MessageDeliveryFailure as error:
                outcome = Outcome.UNCERTAIN
                LOG.warning("The command %s of volume %s may be lost: %s", method, volume.id, error)
            except Exception as error:  # any error of cinder-volume; the row shows the outcome
                LOG.warning("%s of volume %s failed: %s", method, volume.id, error)
            progress(outcome)

        threading.Thread(target=call, name=f"tonnage-{method}", daemon=True).start()

    def swap(self, growth: Growth, copy_id: str) -> None:
        """Swap the rows of a volume and its copy, and delete the old volume."""
        context = _context(growth)
        volume = objects.Volume.get_by_id(context, growth.volume_id)
        copy = objects.Volume.get_by_id(context, copy_id)
        self._require(growth)
        old = volume.finish_volume_migration(copy)
        volume.update({"status": EXTENDING, "previous_status": "available", "migration_status": "success"})
        volume.save()
        rpcapi.VolumeAPI().delete_volume(context, old)

    def resume(self, growth: Growth) -> bool:
        """Let a volume be extending again whose rows were swapped the moment before."""
        self._require(growth)
        return _write(
            sa.update(models.Volume.__table__)
            .where(
                _VOLUME.id == growth.volume_id,
                _LIVE,
                _place == growth.target,
                _VOLUME.status == "available",
                _VOLUME.previous_status == EXTENDING,
                _VOLUME.migration_status.is_(None),
            )
            .values(status=EXTENDING, migration_status="success")
        )

    def remove(self, growth: Growth, copy_id: str) -> None:
        """Delete a copy."""
        context = cinder_context.get_admin_context()
        copy = objects.Volume.get_by_id(context, copy_id)
        self._require(growth)
        _write(
            sa.update(models.Volume.__table__)
            .where(_VOLUME.id == copy_id, _LIVE, _VOLUME.use_quota == sa.false())
            .values(status="deleting")
        )
        rpcapi.VolumeAPI().delete_volume(context, copy)

    def give_back(self, growth: Growth) -> bool:
        """Make a volume that did not move available."""
        self._require(growth)
        return _write(
            sa.update(models.Volume.__table__)
            .where(*_stays(growth))
            .values(status="available", migration_status=None, previous_status=None, _name_id=_name_id(growth))
        )

    def give_back_moved(self, growth: Growth) -> bool:
        """Make a volume that did not grow available in its new pool."""
        self._require(growth)
        return _write(
            sa.update(models.Volume.__table__)
            .where(
                _VOLUME.id == growth.volume_id,
                _LIVE,
                _VOLUME.status == ERROR_EXTENDING,
                _VOLUME.size == growth.size_gb,
                _place == growth.target,
            )
            .values(status="available")
        )

    def roll_back(self, growth: Growth) -> None:
        """Roll the reservations back."""
        self._require(growth)
        quota.QUOTAS.rollback(_context(growth), list(growth.reservations), project_id=growth.project_id)

    def tell(self, growth: Growth) -> None:
        """Tell the user that the volume cannot grow, as Cinder does for an extend that finds no backend."""
        message_api.API().create(
            _context(growth),
            message_field.Action.EXTEND_VOLUME,
            resource_uuid=growth.volume_id,
            exception=exception.NoValidBackend(reason=growth.reason),
        )


def obstacle(volume: Any) -> str | None:
    """Return the reason why a volume of Cinder that is being extended cannot move, None if it can."""
    if volume.previous_status != "available" or volume.volume_attachment:
        return "it is attached, and Cinder would need Nova to copy it"
    if volume.group_id or volume.consistencygroup_id:
        return "it belongs to a group"
    if volume.replication_status not in (None, "disabled", "not-capable"):
        return "it is replicated"
    if cinder_db.snapshot_get_all_for_volume(cinder_context.get_admin_context(), volume.id):
        return "it has snapshots"
    if volume.migration_status not in (None, *_AT_REST):
        return "it is being migrated"
    return None


def _stays(growth: Growth) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions that a volume is still to be extended, at its size and where it was."""
    return (
        _VOLUME.id == growth.volume_id,
        _LIVE,
        _VOLUME.status == EXTENDING,
        _VOLUME.size == growth.size_gb,
        _place == growth.source,
    )


def _name_id(growth: Growth) -> str | None:
    return None if growth.name_id == growth.volume_id else growth.name_id


def _context(growth: Growth) -> Any:
    """Return the context of the request, with the rights of an administrator."""
    return cinder_context.RequestContext(
        user_id=growth.user_id or None,
        project_id=growth.project_id or None,
        request_id=growth.request_id or None,
        is_admin=True,
        overwrite=False,
    )


def _copies(*conditions: sa.ColumnElement[bool]) -> Sequence[Copy]:
    return [
        Copy(id, status or "")
        for id, status in _execute(sa.select(_VOLUME.id, _VOLUME.status).where(_LIVE, *conditions))
    ]


def _execute(statement: sa.Select[Any]) -> list[Any]:
    with cinder_db.get_engine().connect() as connection:
        return list(connection.execute(statement))


def _write(statement: sa.Update) -> bool:
    """Execute a conditional update of a row; return whether it has matched."""
    matched: int = _rows_of(statement)
    return matched > 0


@oslo_db_api.wrap_db_retry(max_retries=5, retry_on_deadlock=True)  # type: ignore[untyped-decorator]
def _rows_of(statement: sa.Update) -> int:
    """Execute an update, and return the number of rows that have matched."""
    with cinder_db.get_engine().begin() as connection:
        return int(connection.execute(statement).rowcount)
