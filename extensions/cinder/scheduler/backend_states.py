# SPDX-License-Identifier: Apache-2.0
"""Cinder's own states of backends and services, read again only after they have changed."""

import copy
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from cinder import utils
from cinder.common import constants
from cinder.scheduler import host_manager
from oslo_utils import timeutils

from tonnage.extensions.cinder import releases
from tonnage.extensions.cinder.ledger import backend_problems

cinder_db, models = releases.import_database()

#: Fields of a service that each heartbeat changes.
_BEATS = ("updated_at", "report_count")

_SERVICE, _CLUSTER = models.Service.__table__.c, models.Cluster.__table__.c

#: All facts that tell Cinder which backends are up. They are one text for each service: single values take longer.
_FACTS = (
    _SERVICE.id,
    _SERVICE.host,
    _SERVICE.cluster_name,
    _SERVICE.availability_zone,
    _SERVICE.disabled,
    _SERVICE.frozen,
    _CLUSTER.disabled,
    _CLUSTER.frozen,
    _SERVICE.updated_at >= sa.bindparam("alive_since", type_=sa.DateTime()),
)
_BAR = sa.literal_column("'|'", sa.String())
_TEXTS: list[sa.ColumnElement[str]] = [
    sa.func.coalesce(sa.cast(fact, sa.String(255)), sa.literal_column("''")) for fact in _FACTS
]


def _of_services(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return the query of columns of cinder-volume's services, and of their clusters."""
    return (
        sa.select(*columns)
        .select_from(models.Service.__table__)
        .outerjoin(
            models.Cluster.__table__,
            sa.and_(
                _CLUSTER.name == _SERVICE.cluster_name,
                _CLUSTER.binary == _SERVICE.binary,
                _CLUSTER.deleted == sa.false(),
            ),
        )
        .where(_SERVICE.deleted == sa.false(), _SERVICE.topic == constants.VOLUME_TOPIC)
        .order_by(_SERVICE.id)
    )


_SERVICES = _of_services(functools.reduce(lambda text, more: text + _BAR + more, _TEXTS))
_STATES = _of_services(
    _SERVICE.host,
    _SERVICE.cluster_name,
    sa.case((_SERVICE.cluster_name.is_(None), _SERVICE.disabled), else_=_CLUSTER.disabled),
    sa.case((_SERVICE.cluster_name.is_(None), _SERVICE.frozen), else_=_CLUSTER.frozen),
    sa.func.coalesce(_SERVICE.updated_at, _SERVICE.created_at) >= sa.bindparam("alive_since", type_=sa.DateTime()),
)

_revisions = itertools.count(1)


class ReportedBackend(host_manager.BackendState):  # type: ignore[misc]
    """Cinder's state of a backend, which takes over a report only once.

    Cinder applies the last report of each backend to all of its pools again for each decision, with the same result.
    ``revision`` changes with each report and with the service.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.revision = 0
        self._applied: tuple[Any, Mapping[str, Any]] | None = None

    def update_from_volume_capability(self, capability: Any, service: Mapping[str, Any] | None = None) -> None:
        facts = {key: value for key, value in (service or {}).items() if key not in _BEATS}
        if self._applied is not None and self._applied[0] is capability and self._applied[1] == facts:
            return
        super().update_from_volume_capability(capability, service)
        self._applied = capability, facts
        self.revision = next(_revisions)


def pool_states(host: str, cluster: str | None, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pools of a report as Cinder's own classes read them, by the names ``host@backend#pool``."""
    reported = copy.deepcopy(dict(capabilities))
    reported["timestamp"] = timeutils.utcnow()
    state = host_manager.BackendState(host, cluster)
    state.update_from_volume_capability(reported)
    return {pool.backend_id: pool for pool in state.pools.values()}


def services() -> list[str]:
    """Return all facts about cinder-volume's services, and their clusters, that tell Cinder which backends are up.

    Cinder reads them for each decision, as objects, which take a tenth of a millisecond each. Only whether they have
    changed is of interest here.
    """
    with cinder_db.get_engine().connect() as connection:
        return list(connection.scalars(_SERVICES, {"alive_since": utils.service_expired_time()}))


def problems() -> dict[str, str | None]:
    """Return why Cinder does not use a backend, None if it does, by the names of all backends."""
    with cinder_db.get_engine().connect() as connection:
        rows = connection.execute(_STATES, {"alive_since": utils.service_expired_time()}).all()
    return backend_problems.of_services(
        backend_problems.Service(cluster or host, bool(disabled), bool(frozen), bool(alive))
        for host, cluster, disabled, frozen, alive in rows
    )
