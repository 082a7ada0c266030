# SPDX-License-Identifier: Apache-2.0
"""``quota_driver`` of Cinder: use is counted from rows, and reservations end with their rows."""

import contextlib
import datetime
import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from cinder import exception, quota
from oslo_config import cfg

from tonnage.extensions.cinder import releases
from tonnage.extensions.cinder.quota import quota_operations, quota_options, quota_usage, reservation_ends
from tonnage.extensions.cinder.quota.quota_reservations import (
    Amount,
    Begin,
    LimitExceeded,
    Reservation,
    ReservationBook,
)
from tonnage.extensions.cinder.quota.quota_usage import Resource, Rules
from tonnage.extensions.cinder.quota.row_observer import Change, RowObserver
from tonnage.extensions.cinder.quota.volume_amounts import VolumeChanged

cinder_db, models = releases.import_database()

CONF = cfg.CONF  # noqa: TID251  (Cinder's way)
quota_options.register(CONF)

#: The largest amount that a column of Cinder's tables takes.
_LARGEST = 2**31 - 1


def _rules() -> Rules:
    return Rules(CONF.tonnage.quota_reservation_lifetime, not CONF.no_snapshot_gb_quota)


def _too_late(_identifier: str) -> Exception:
    lifetime = CONF.tonnage.quota_reservation_lifetime
    error: Exception = exception.QuotaError(
        message=f"The reservation of quota ended before its row was made: this service stopped for more than "
        f"{lifetime / 2:g} seconds, half of [tonnage] quota_reservation_lifetime. Try again."
    )
    return error


_BOOK = ReservationBook(_rules)
_OBSERVER = RowObserver(_BOOK, lambda: not CONF.no_snapshot_gb_quota, _too_late)
_OBSERVER.listen(
    {"volumes": models.Volume, "snapshots": models.Snapshot, "backups": models.Backup, "groups": models.Group}
)


class QuotaDriver(quota.DbQuotaDriver):  # type: ignore[misc]
    """Cinder's driver, with use that is counted from rows. Limits and classes are Cinder's own."""

    def get_project_quotas(
        self,
        context: Any,
        resources: Mapping[str, Any],
        project_id: str,
        quota_class: str | None = None,
        defaults: bool = True,
        usages: bool = True,
    ) -> dict[str, dict[str, int]]:
        """Return the limits of a project by resource, with ``usages`` also the use and the reservations that count."""
        quotas: dict[str, dict[str, int]] = super().get_project_quotas(
            context, resources, project_id, quota_class=quota_class, defaults=defaults, usages=False
        )
        if usages and quotas:
            types = {
                resource.volume_type_id: resource.volume_type_name
                for resource in resources.values()
                if isinstance(resource, quota.VolumeTypeResource)
            }
            use = _BOOK.use(_begin(context), types, project_id)
            for name, values in quotas.items():
                counted = use.get(name, quota_usage.Use())
                values.update(in_use=counted.in_use, reserved=counted.reserved)
        return quotas

    def _reserve(
        self,
        context: Any,
        resources: Mapping[str, Any],
        quotas: Mapping[str, int],
        deltas: Mapping[str, int],
        expire: datetime.datetime,
        project_id: str,
    ) -> list[str]:
        amounts = [Amount(_resource(resources[name]), delta, quotas[name]) for name, delta in deltas.items()]
        _check_size(amounts, quotas)
        booking = quota_operations.of_frames()
        try:
            identifier = _BOOK.reserve(_begin(context), project_id, amounts, booking, expire)
        except LimitExceeded as refusal:
            usages = {name: {"in_use": use.in_use, "reserved": use.reserved} for name, use in refusal.use.items()}
            raise exception.OverQuota(overs=list(refusal.names), quotas=quotas, usages=usages) from None
        except VolumeChanged as change:
            raise exception.InvalidVolume(reason=str(change)) from None
        if identifier is None:
            return []
        if booking.operation.makes is not None:
            _OBSERVER.expect(
                identifier,
                booking.operation.makes,
                project_id,
                {amount.resource: amount.delta for amount in amounts if amount.delta > 0},
            )
        value = reservation_ends.first_value(booking.operation, project_id)
        if value is not None and booking.row_id is not None:
            reservation = Reservation(
                identifier=identifier, project_id=project_id, amounts=amounts, booking=booking, expire=expire
            )
            _OBSERVER.expect_begin(
                Change(
                    identifier=identifier,
                    row_id=booking.row_id,
                    value=value,
                    request_id=context.request_id,
                    renew=functools.partial(_renew, reservation),
                )
            )
        return [identifier]

    def commit(self, context: Any, reservations: Collection[str], project_id: str | None = None) -> None:
        """End reservations whose rows are made or changed."""
        if remaining := _OBSERVER.end(reservations or ()):
            _OBSERVER.expect_change(_BOOK.commit(_begin(context), remaining))

    def rollback(self, context: Any, reservations: Collection[str], project_id: str | None = None) -> None:
        """End reservations whose rows are not made or changed."""
        _OBSERVER.end(reservations or ())
        if reservations:
            _BOOK.roll_back(_begin(context), reservations)

    def expire(self, context: Any) -> None:
        """Remove the reservations that do not count any more."""
        _BOOK.remove_ended(_begin(context))


def _renew(reservation: Reservation, begin: Begin) -> None:
    """Compare a reservation that is old with the limits once more, or raise Cinder's error."""
    try:
        _BOOK.renew(begin, reservation)
    except LimitExceeded as refusal:
        raise exception.QuotaError(
            message=f"The reservation of quota to {reservation.booking.operation.name} ended after "
            f"{CONF.tonnage.quota_reservation_lifetime:g} seconds ([tonnage] quota_reservation_lifetime), and by now "
            f"the limit of {', '.join(refusal.names)} would be exceeded. Delete something, or have the limit raised, "
            "and try again."
        ) from None
    except VolumeChanged as change:
        raise exception.InvalidVolume(reason=str(change)) from None


def _begin(context: Any) -> Begin:
    @contextlib.contextmanager
    def begin() -> Iterator[sa.Connection]:
        with cinder_db.main_context_manager.writer.using(context) as session:
            yield session.connection()

    return begin


def _resource(resource: Any) -> Resource:
    if isinstance(resource, quota.VolumeTypeResource):
        part = resource.name.removesuffix(f"_{resource.volume_type_name}")
        return Resource(resource.name, part, resource.volume_type_id)
    return Resource(resource.name, resource.name)


def _check_size(amounts: Collection[Amount], quotas: Mapping[str, int]) -> None:
    """Raise Cinder's error for an amount that does not fit in its tables."""
    too_large = sorted(amount.resource.name for amount in amounts if amount.delta > _LARGEST)
    if too_large:
        usages = {name: {"in_use": 0, "reserved": 0} for name in too_large}
        kind = getattr(exception, "QuotaUsageOverflow", exception.OverQuota)
        raise kind(overs=too_large, quotas=quotas, usages=usages, max_int=_LARGEST)
