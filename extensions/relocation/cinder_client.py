# SPDX-License-Identifier: Apache-2.0
"""The client of Cinder's REST API: all pages of the volumes of all projects, the pools, and the orders to move volumes.

The account has to be an administrator of Cinder, because others do not see in which pools volumes are.
"""

import datetime
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from keystoneauth1 import exceptions
from keystoneauth1.session import Session
from msgspec import UNSET, UnsetType

from tonnage.capacity import errors, type_conversion

#: The microversion of requests: the first with the clusters of volumes (Ussuri).
_VERSION = "3.61"

#: That of services, which ask no scheduler then.
_SERVICES_VERSION = "3.48"

_HEADER = "OpenStack-API-Version"

#: Most volumes of a page. Cinder's ``osapi_max_limit`` may be less.
_PAGE = 1000

#: How often a list is begun again, because the last volume of a page was deleted before the next page was read.
_ROUNDS = 5

T = TypeVar("T")


class Attachment(msgspec.Struct):
    """An attachment of a volume to a server, or to a host without one."""

    server_id: str | None = None
    host_name: str | None = None


class Volume(msgspec.Struct, kw_only=True):
    """A volume as Cinder shows it to administrators. Times are in UTC."""

    id: str
    size: int
    status: str
    name: str | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    attachments: list[Attachment] = []
    multiattach: bool = False
    encrypted: bool = False
    replication_status: str | None = None
    consistencygroup_id: str | None = None
    group_id: str | None = None
    cluster_name: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    host: str | UnsetType | None = msgspec.field(name="os-vol-host-attr:host", default=UNSET)
    migration_status: str | None = msgspec.field(name="os-vol-mig-status-attr:migstat", default=None)
    project_id: str | None = msgspec.field(name="os-vol-tenant-attr:tenant_id", default=None)

    @property
    def pool(self) -> str | None:
        """The pool of the volume as the scheduler names it; None while it has none."""
        host = None if self.host is UNSET else self.host
        return (self.cluster_name or host) if host else None

    @property
    def changed_at(self) -> datetime.datetime | None:
        """The time of the last change."""
        return read_time(self.updated_at) or read_time(self.created_at)


class _Snapshot(msgspec.Struct):
    volume_id: str


class VolumeType(msgspec.Struct):
    """A volume type with its extra specs."""

    id: str
    name: str
    extra_specs: dict[str, str] = {}


class ReportedPool(msgspec.Struct):
    """A pool that the scheduler knows, with the figures of its last report."""

    name: str
    capabilities: dict[str, Any] = {}


class Service(msgspec.Struct):
    """A volume service. ``status`` is ``enabled`` or ``disabled``, ``state`` is ``up`` or ``down``."""

    host: str
    zone: str = ""
    status: str = ""
    state: str = ""
    cluster: str | None = None
    frozen: bool = False


class CinderClient:
    """Cinder's API with the session of an account. ``url`` is its endpoint, with ``/v3`` and perhaps a project."""

    def __init__(self, session: Session, url: str) -> None:
        self._session, self._url = session, url

    @property
    def cloud(self) -> str:
        """The address of the API without the project: the name of the cloud in the rows of plans."""
        return re.sub(r"/v3(/[^/]*)?$", "", self._url)

    def volumes(self, **filters: str) -> list[Volume]:
        """Return the volumes of all projects that match, from all pages."""
        volumes = self._all("/volumes/detail", "volumes", Volume, {"all_tenants": "1", **filters})
        if any(volume.host is UNSET for volume in volumes):
            raise errors.ConfigurationError(
                "Cinder does not tell this account in which pools volumes are: take one with the role admin, or allow "
                "it the rule volume_extension:volume_host_attribute"
            )
        return volumes

    def volume(self, volume_id: str) -> Volume | None:
        """Return a volume, None if there is none with this id."""
        try:
            return self._read(f"/volumes/{volume_id}", "volume", Volume)
        except errors.NotFound:
            return None

    def volumes_with_snapshots(self, **filters: str) -> set[str]:
        """Return the ids of the volumes that have snapshots."""
        snapshots = self._all("/snapshots", "snapshots", _Snapshot, {"all_tenants": "1", **filters})
        return {snapshot.volume_id for snapshot in snapshots}

    def types(self) -> list[VolumeType]:
        """Return all volume types, private ones too."""
        return self._all("/types", "volume_types", VolumeType, {"is_public": "None"})

    def pools(self) -> list[ReportedPool]:
        """Return the pools of the backends that are up and enabled."""
        return self._get("/scheduler-stats/get_pools?detail=true", "pools", list[ReportedPool])

    def services(self) -> list[Service]:
        """Return the volume services."""
        return self._get("/os-services?binary=cinder-volume", "services", list[Service], _SERVICES_VERSION)

    def migrate(self, volume_id: str, pool: str, *, is_cluster: bool, lock: bool) -> None:
        """Order the move of a volume to a pool. With ``lock`` it is in maintenance until then.

        Raises :class:`~tonnage.capacity.errors.Conflict` with Cinder's reason if it does not begin.
        """
        target = {"cluster" if is_cluster else "host": pool, "force_host_copy": False, "lock_volume": lock}
        self._act(volume_id, {"os-migrate_volume": target})

    def retype(self, volume_id: str, volume_type: str) -> None:
        """Order another type for a volume, for which Cinder's scheduler chooses a pool. Raises as :meth:`migrate`."""
        self._act(volume_id, {"os-retype": {"new_type": volume_type, "migration_policy": "on-demand"}})

    def _act(self, volume_id: str, body: Mapping[str, Any]) -> None:
        self._request("POST", f"/volumes/{volume_id}/action", _VERSION, body)

    def _get(self, path: str, key: str, form: type[T], version: str = _VERSION) -> T:
        """Return the content of an answer. The object is always there, so its absence is a fault of the moment."""
        try:
            return self._read(path, key, form, version)
        except errors.NotFound as error:
            raise self._missing(path, error) from None

    def _missing(self, path: str, error: errors.NotFound) -> errors.Unavailable:
        return errors.Unavailable(f"{self._url}{path} answers 404: {error.message}")

    def _read(self, path: str, key: str, form: type[T], version: str = _VERSION) -> T:
        answer = self._request("GET", path, version)
        try:
            return type_conversion.convert(answer[key], form)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise errors.Unavailable(f"the answer of {self._url}{path} is not one of Cinder: {error}") from None

    def _all(self, path: str, key: str, form: type[T], query: Mapping[str, str]) -> list[T]:
        for _ in range(_ROUNDS - 1):
            try:
                return list(self._pages(path, key, form, query))
            except errors.NotFound:
                continue
        try:
            return list(self._pages(path, key, form, query))
        except errors.NotFound as error:
            raise self._missing(path, error) from None

    def _pages(self, path: str, key: str, form: type[T], query: Mapping[str, str]) -> Iterator[T]:
        marker: dict[str, str] = {}
        while True:
            parameters = urllib.parse.urlencode({**query, "limit": str(_PAGE), **marker})
            answer = self._request("GET", f"{path}?{parameters}", _VERSION)
            rows = answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(rows, list):
                raise errors.Unavailable(f"the answer of {self._url}{path} is not one of Cinder: it has no {key}")
            try:
                yield from type_conversion.convert(rows, list[form])  # type: ignore[valid-type]
                links: Sequence[Any] = answer.get(f"{key}_links") or ()
                if not rows or not any(link.get("rel") == "next" for link in links):
                    return
                marker = {"marker": rows[-1]["id"]}
            except (KeyError, AttributeError, msgspec.ValidationError) as error:
                raise errors.Unavailable(f"the answer of {self._url}{path} is not one of Cinder: {error}") from None

    def _request(self, method: str, path: str, version: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request, and return its answer.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if it is not known whether it has an effect, and for a
        question without an answer; :class:`~tonnage.capacity.errors.ConfigurationError` for an account that Cinder does
        not accept; and :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict` with
        Cinder's reason. A status 404 that is not one of Cinder is one of the web server or proxy before it.
        """
        headers = {_HEADER: f"volume {version}", "Accept": "application/json"}
        more: dict[str, Any] = {} if body is None else {"json": body}
        try:
            answer = self._session.request(f"{self._url}{path}", method, headers=headers, raise_exc=False, **more)
        except (exceptions.Unauthorized, exceptions.MissingAuthPlugin) as error:
            raise errors.ConfigurationError(f"Keystone does not accept the account: {_line(error)}") from None
        except exceptions.ClientException as error:
            raise errors.Unavailable(f"{self._url} does not answer: {_line(error)}") from None
        if answer.status_code >= 500:
            raise errors.Unavailable(f"{self._url} answers {answer.status_code}: {_message(answer)}")
        if answer.status_code in (401, 403):
            raise errors.ConfigurationError(
                f"Cinder does not allow the account {method} {path.partition('?')[0]}: {_message(answer)}"
            )
        if answer.status_code == 406:
            raise errors.ConfigurationError(f"Cinder does not have the microversion {version}: it is too old")
        if answer.status_code == 404 and _is_missing_item(answer):
            raise errors.NotFound(_message(answer))
        if answer.status_code == 404 or (answer.status_code >= 400 and method == "GET"):
            raise errors.Unavailable(f"{self._url}{path} answers {answer.status_code}: {_message(answer)}")
        if answer.status_code >= 400:
            raise errors.Conflict(f"Cinder refuses: {_message(answer)}")
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise errors.Unavailable(f"the answer of {self._url}{path} is no JSON") from None


def read_time(text: str | None) -> datetime.datetime | None:
    """Return a time of Cinder in UTC, None for none or one that cannot be read."""
    try:
        time = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is None else time.astimezone(datetime.UTC).replace(tzinfo=None)


def _is_missing_item(answer: Any) -> bool:
    """Return whether a status 404 is one of Cinder itself."""
    try:
        return "itemNotFound" in answer.json()
    except (ValueError, TypeError):
        return False


def _message(answer: Any) -> str:
    """Return the message of an error. The body has one key, the name of the error."""
    try:
        [fault] = answer.json().values()
        return str(fault["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return str(answer.reason or "no message")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
