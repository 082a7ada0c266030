# SPDX-License-Identifier: Apache-2.0
"""The calls of OpenStack Placement's API that Tonnage makes. Sizes are GiB, which Placement counts as ``DISK_GB``.

Microversion 1.38 is the first in which usage can be asked for by the type of the consumers: without that a volume that
is being moved would count twice. Placement has it since the release Xena.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tonnage.capacity import errors, type_conversion
from tonnage.ledger.catalog.placement_allocations import Kind, Telling

if TYPE_CHECKING:
    from keystoneauth1.adapter import Adapter

LOG = logging.getLogger(__name__)

#: What requests name in OpenStack-API-Version.
MICROVERSION = "1.38"

RESOURCE = "DISK_GB"

#: Stands for no project or no user, which Placement does not take; its own default for consumers without any.
_NOBODY = "00000000-0000-0000-0000-000000000000"

_Body = TypeVar("_Body")


class Away(errors.Unavailable):
    """Placement cannot be asked now: it or Keystone does not answer, is too old, or does not know the account."""


class Refused(errors.TonnageError):
    """Placement does not do what it was asked: something is otherwise there than was thought."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a provider has of ``DISK_GB``: Placement gives out at most ``(total - reserved) * allocation_ratio``."""

    total: int
    reserved: int
    allocation_ratio: float


class _Provider(msgspec.Struct):
    uuid: str
    name: str


class _Providers(msgspec.Struct):
    resource_providers: list[_Provider]


class _Inventory(msgspec.Struct):
    total: int
    reserved: int
    allocation_ratio: float


class _Inventories(msgspec.Struct):
    resource_provider_generation: int
    inventories: dict[str, _Inventory]


class _Holding(msgspec.Struct):
    resources: dict[str, int]


class _Holders(msgspec.Struct):
    allocations: dict[str, _Holding]


class _Consumer(msgspec.Struct):
    consumer_generation: int | None = None


class _Usage(msgspec.Struct):
    usages: dict[str, dict[str, int]]


class _Problem(msgspec.Struct):
    detail: str = ""


class _Problems(msgspec.Struct):
    errors: list[_Problem]


class Placement:
    """Asks and tells Placement. Safe to use from many threads. ``timeout`` are the seconds that it is given.

    All methods raise :class:`Away`; those that change something :class:`Refused` as well.
    """

    def __init__(self, adapter: "Adapter", timeout: float) -> None:
        self._adapter = adapter
        self.timeout = timeout

    def providers(self) -> dict[str, str]:
        """Return the ids of all resource providers by their names."""
        found = _decoded(self._call("GET", "/resource_providers"), _Providers)
        return {each.name: each.uuid for each in found.resource_providers}

    def create_provider(self, name: str, uuid: str) -> None:
        """Make a resource provider."""
        self._call("POST", "/resource_providers", {"name": name, "uuid": uuid})

    def delete_provider(self, uuid: str) -> None:
        """Remove a resource provider that nothing is allocated in."""
        self._call("DELETE", f"/resource_providers/{uuid}")

    def inventory(self, provider: str) -> tuple[int, Inventory | None]:
        """Return the generation of a provider and what it has, None if that is nothing."""
        found = _decoded(self._call("GET", f"/resource_providers/{provider}/inventories"), _Inventories)
        here = found.inventories.get(RESOURCE)
        inventory = None if here is None else Inventory(here.total, here.reserved, here.allocation_ratio)
        return found.resource_provider_generation, inventory

    def set_inventory(self, provider: str, generation: int, inventory: Inventory) -> None:
        """Set what a provider has."""
        values = {
            "total": inventory.total,
            "reserved": inventory.reserved,
            "allocation_ratio": inventory.allocation_ratio,
        }
        body = {"resource_provider_generation": generation, "inventories": {RESOURCE: values}}
        self._call("PUT", f"/resource_providers/{provider}/inventories", body)

    def tell(self, tellings: Iterable[Telling], providers: Mapping[int, str]) -> None:
        """Set what consumers hold, of all or of none. ``providers`` are the ids of pools' providers."""
        body = {
            each.consumer_id: {
                "allocations": {providers[each.pool_id]: {"resources": {RESOURCE: each.size_gb}}}
                if each.size_gb
                else {},
                "project_id": each.project_id or _NOBODY,
                "user_id": each.user_id or _NOBODY,
                "consumer_generation": each.generation,
                "consumer_type": each.kind.value,
            }
            for each in tellings
        }
        self._call("POST", "/allocations", body)

    def generation(self, consumer_id: str) -> int | None:
        """Return the generation of a consumer, None if there is none."""
        return _decoded(self._call("GET", f"/allocations/{consumer_id}"), _Consumer).consumer_generation

    def holders(self, provider: str) -> dict[str, int]:
        """Return which consumers hold how much of a provider."""
        found = _decoded(self._call("GET", f"/resource_providers/{provider}/allocations"), _Holders)
        return {consumer: each.resources.get(RESOURCE, 0) for consumer, each in found.allocations.items()}

    def used(self, project_id: str, user_id: str = "") -> int:
        """Return how much the volumes of a project, or of one user in it, hold; copies elsewhere do not count."""
        asked = {"project_id": project_id or _NOBODY, "consumer_type": Kind.VOLUME.value}
        if user_id:
            asked["user_id"] = user_id
        usages = _decoded(self._call("GET", "/usages", params=asked), _Usage).usages
        return usages.get(Kind.VOLUME.value, {}).get(RESOURCE, 0)

    def _call(self, method: str, path: str, body: object = None, params: Mapping[str, str] | None = None) -> bytes:
        from keystoneauth1 import exceptions

        more: dict[str, Any] = {} if body is None else {"json": body}
        try:
            answer = self._adapter.request(path, method, raise_exc=False, params=params or {}, **more)
        except exceptions.ClientException as error:
            # Keystone may be what does not answer, or has no endpoint of Placement.
            raise Away(f"OpenStack Placement cannot be asked: {' '.join(str(error).split())}") from error
        if answer.status_code < 300:
            return bytes(answer.content)
        why = f"{method} {path} answered {answer.status_code}: {_detail(answer.content)}"
        if answer.status_code in (401, 403):
            raise Away(f"OpenStack Placement does not let the account of the section [placement] do this: {why}")
        if answer.status_code == 406:
            raise Away(f"OpenStack Placement is too old: it takes microversion {MICROVERSION}, release Xena: {why}")
        if answer.status_code >= 500:
            raise Away(f"OpenStack Placement fails: {why}")
        raise Refused(answer.status_code, f"OpenStack Placement refuses: {why}")


def _decoded(content: bytes, kind: type[_Body]) -> _Body:
    try:
        return type_conversion.decode(content, kind)
    except msgspec.DecodeError as error:
        raise Away(f"what answers is not OpenStack Placement: {error}") from error


def _detail(content: bytes) -> str:
    """Return what an answer says of the problem, on one line."""
    try:
        said = "; ".join(each.detail for each in type_conversion.decode(content, _Problems).errors)
    except msgspec.DecodeError:
        said = content.decode(errors="replace")
    return " ".join(said.split())[:500]
