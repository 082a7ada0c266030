# SPDX-License-Identifier: Apache-2.0
"""Client of OpenStack Placement's API. Sizes are GiB of the resource class ``DISK_GB``.

Microversion 1.38 is the first one that returns usage by the type of the consumers. Without it a volume that is being
migrated would count twice. Placement supports it since the release Xena.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tonnage.capacity import errors, type_conversion
from tonnage.extensions.placement.placement_allocations import AllocationChange, ConsumerType

if TYPE_CHECKING:
    from keystoneauth1.adapter import Adapter

LOG = logging.getLogger(__name__)

#: Microversion in the header OpenStack-API-Version of requests.
MICROVERSION = "1.38"

RESOURCE = "DISK_GB"

#: Id of the project or user of consumers without one. Placement requires an id; this is its own default.
_NO_OWNER = "00000000-0000-0000-0000-000000000000"

_Body = TypeVar("_Body")


class PlacementUnavailable(errors.Unavailable):
    """Placement is unusable now: it or Keystone does not answer, is too old, or does not accept the account."""


class PlacementRefused(errors.TonnageError):
    """Placement refused a request, because its data differ from the caller's. ``status`` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Inventory:
    """The ``DISK_GB`` of a provider. Placement allocates at most ``(total - reserved) * allocation_ratio``."""

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


class _Allocation(msgspec.Struct):
    resources: dict[str, int]


class _Allocations(msgspec.Struct):
    allocations: dict[str, _Allocation]


class _Consumer(msgspec.Struct):
    consumer_generation: int | None = None


class _Usage(msgspec.Struct):
    usages: dict[str, dict[str, int]]


class _Problem(msgspec.Struct):
    detail: str = ""


class _Problems(msgspec.Struct):
    errors: list[_Problem]


class PlacementClient:
    """Sends requests to Placement. Thread-safe. ``timeout`` is the time limit of a request in seconds.

    All methods raise :class:`PlacementUnavailable`, methods that change something :class:`PlacementRefused` as well.
    """

    def __init__(self, adapter: "Adapter", timeout: float) -> None:
        self._adapter = adapter
        self.timeout = timeout

    def providers(self) -> dict[str, str]:
        """Return the ids of all resource providers by their names."""
        reply = _decoded(self._call("GET", "/resource_providers"), _Providers)
        return {provider.name: provider.uuid for provider in reply.resource_providers}

    def create_provider(self, name: str, uuid: str) -> None:
        """Create a resource provider."""
        self._call("POST", "/resource_providers", {"name": name, "uuid": uuid})

    def delete_provider(self, uuid: str) -> None:
        """Delete a resource provider without allocations."""
        self._call("DELETE", f"/resource_providers/{uuid}")

    def inventory(self, provider: str) -> tuple[int, Inventory | None]:
        """Return the generation of a provider and its inventory, None if it has none."""
        reply = _decoded(self._call("GET", f"/resource_providers/{provider}/inventories"), _Inventories)
        disk = reply.inventories.get(RESOURCE)
        inventory = None if disk is None else Inventory(disk.total, disk.reserved, disk.allocation_ratio)
        return reply.resource_provider_generation, inventory

    def set_inventory(self, provider: str, generation: int, inventory: Inventory) -> None:
        """Set the inventory of a provider."""
        values = {
            "total": inventory.total,
            "reserved": inventory.reserved,
            "allocation_ratio": inventory.allocation_ratio,
        }
        body = {"resource_provider_generation": generation, "inventories": {RESOURCE: values}}
        self._call("PUT", f"/resource_providers/{provider}/inventories", body)

    def set_allocations(self, allocations: Iterable[AllocationChange], providers: Mapping[int, str]) -> None:
        """Set the allocations of consumers, all of them or none. ``providers`` maps pool ids to provider ids."""
        body = {
            change.consumer_id: {
                "allocations": {providers[change.pool_id]: {"resources": {RESOURCE: change.size_gb}}}
                if change.size_gb
                else {},
                "project_id": change.project_id or _NO_OWNER,
                "user_id": change.user_id or _NO_OWNER,
                "consumer_generation": change.generation,
                "consumer_type": change.consumer_type.value,
            }
            for change in allocations
        }
        self._call("POST", "/allocations", body)

    def generation(self, consumer_id: str) -> int | None:
        """Return the generation of a consumer, None if there is none."""
        return _decoded(self._call("GET", f"/allocations/{consumer_id}"), _Consumer).consumer_generation

    def allocations(self, provider: str) -> dict[str, int]:
        """Return the allocated GiB of a provider by consumer."""
        reply = _decoded(self._call("GET", f"/resource_providers/{provider}/allocations"), _Allocations)
        return {consumer: allocation.resources.get(RESOURCE, 0) for consumer, allocation in reply.allocations.items()}

    def usage(self, project_id: str, user_id: str = "") -> int:
        """Return the GiB of the volumes of a project, or of one user in it, without the copies of a migration."""
        params = {"project_id": project_id or _NO_OWNER, "consumer_type": ConsumerType.VOLUME.value}
        if user_id:
            params["user_id"] = user_id
        usages = _decoded(self._call("GET", "/usages", params=params), _Usage).usages
        return usages.get(ConsumerType.VOLUME.value, {}).get(RESOURCE, 0)

    def _call(self, method: str, path: str, body: object = None, params: Mapping[str, str] | None = None) -> bytes:
        from keystoneauth1 import exceptions

        more: dict[str, Any] = {} if body is None else {"json": body}
        try:
            answer = self._adapter.request(path, method, raise_exc=False, params=params or {}, **more)
        except exceptions.ClientException as error:
            # Keystone may be unreachable as well, or have no endpoint of Placement.
            raise PlacementUnavailable(
                f"OpenStack Placement cannot be asked: {' '.join(str(error).split())}"
            ) from error
        if answer.status_code < 300:
            return bytes(answer.content)
        problem = f"{method} {path} answered {answer.status_code}: {_detail(answer.content)}"
        if answer.status_code in (401, 403):
            raise PlacementUnavailable(
                f"OpenStack Placement does not let the account of the section [placement] do this: {problem}"
            )
        if answer.status_code == 406:
            raise PlacementUnavailable(
                f"OpenStack Placement is too old: it takes microversion {MICROVERSION}, release Xena: {problem}"
            )
        if answer.status_code >= 500:
            raise PlacementUnavailable(f"OpenStack Placement fails: {problem}")
        raise PlacementRefused(answer.status_code, f"OpenStack Placement refuses: {problem}")


def _decoded(content: bytes, body_type: type[_Body]) -> _Body:
    try:
        return type_conversion.decode(content, body_type)
    except msgspec.DecodeError as error:
        raise PlacementUnavailable(f"the server is not OpenStack Placement: {error}") from error


def _detail(content: bytes) -> str:
    """Return the error message of a response on one line."""
    try:
        text = "; ".join(problem.detail for problem in type_conversion.decode(content, _Problems).errors)
    except msgspec.DecodeError:
        text = content.decode(errors="replace")
    return " ".join(text.split())[:500]
