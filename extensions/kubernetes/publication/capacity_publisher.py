# SPDX-License-Identifier: Apache-2.0
"""The publisher that keeps a cluster's ``CSIStorageCapacity`` objects in step with the drivers' storage."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity import capacity_entries, driver_rows
from tonnage.extensions.kubernetes.capacity.capacity_entries import CapacityEntry
from tonnage.extensions.kubernetes.capacity.capacity_objects import (
    DRIVER_LABEL,
    MANAGER_LABEL,
    OWN_MANAGER,
    CapacityObjects,
    ExistingCapacity,
)
from tonnage.extensions.kubernetes.cluster import objects, quantities
from tonnage.extensions.kubernetes.cluster.nodes import Node
from tonnage.extensions.kubernetes.cluster.objects import NodeList
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import Owner
from tonnage.extensions.kubernetes.publication import template_capacities
from tonnage.extensions.kubernetes.publication.template_capacities import TemplateCapacity
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Seconds to wait for the API server's answer.
_TIMEOUT_SECONDS = 30.0

_CONFLICT = 409
_NOT_FOUND = 404


@dataclass(slots=True)
class PublishResult:
    """The numbers of objects that a round has changed, and has failed to change. It is true if any was changed."""

    created: int = 0
    replaced: int = 0
    deleted: int = 0
    failed: int = 0

    def __bool__(self) -> bool:
        return any((self.created, self.replaced, self.deleted))

    def __str__(self) -> str:
        return f"{self.created} made, {self.replaced} changed, {self.deleted} deleted, {self.failed} failed"


class Publisher:
    """Publishes in one namespace. Several publishers may run at once, because they write the same objects.

    With ``subtracts_claims`` the objects show the capacity less the claims. ``owner`` names the Deployment in the
    namespace without which the cluster deletes the objects. ``template_capacities`` are objects for nodes that do not
    exist yet. A page of a list has at most ``page_size`` objects.
    """

    def __init__(
        self,
        ledger: Database,
        api: client.ApiClient,
        namespace: str,
        page_size: int = 500,
        *,
        subtracts_claims: bool = False,
        owner: str | None = None,
        template_capacities: Sequence[TemplateCapacity] = (),
    ) -> None:
        self._ledger = ledger
        self._namespace = namespace
        self._page_size = page_size
        self._core, self._storage = client.CoreV1Api(api), client.StorageV1Api(api)
        self._objects = CapacityObjects(api, namespace)
        self._apps, self._owner_name = client.AppsV1Api(api), owner
        self._subtracts_claims, self._template_capacities = subtracts_claims, template_capacities
        #: The last logged failure of each object. A failure is logged again only if it changes.
        self._logged_failures: dict[str, str] = {}

    def publish(self) -> PublishResult:
        """Create missing objects, replace changed ones, delete obsolete ones, and return their numbers.

        The failure of an object is logged, and the next round tries again. Raises
        :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be read.
        """
        # The objects first: each write needs the version that was listed here, so it fails if another publisher has
        # written meanwhile, and a later reader of the ledger has no older figures.
        existing_by_name = {
            capacity_object.name: capacity_object
            for capacity_object in map(ExistingCapacity.from_raw, self._list_all(self._list_managed))
        }
        owner = self._owner()
        entries = self._desired_entries()
        desired = {name: self._objects.adapt_to_version(entry) for name, entry in entries.items()}
        result = PublishResult()
        for name, entry in desired.items():
            existing = existing_by_name.get(name)
            body = self._body(name, entry, existing, owner)
            if existing is None:
                result.created += self._write(result, name, self._objects.create, body=body)
            elif not existing.has_sizes_of(entry) or not existing.is_owned_by(owner):
                result.replaced += self._write(result, name, self._objects.replace, name=name, body=body)
        for name in existing_by_name.keys() - desired.keys():
            version = existing_by_name[name].resource_version
            result.deleted += self._write(result, name, self._objects.delete, name=name, version=version)
        self._logged_failures = {
            name: failure
            for name, failure in self._logged_failures.items()
            if name in desired or name in existing_by_name
        }
        return result

    def _desired_entries(self) -> dict[str, CapacityEntry]:
        classes: dict[str, list[str]] = {}
        for storage_class in self._list_all(self._storage.list_storage_class):
            classes.setdefault(storage_class.provisioner, []).append(storage_class.metadata.name)
        nodes = [Node(node.metadata.name, node.metadata.labels or {}) for node in self._list_all(self._list_nodes)]
        with self._ledger.reading(snapshot=True) as session:
            entries = self._entries(session, classes, nodes)
        provisioners = {name: driver for driver, names in classes.items() for name in names}
        return entries | template_capacities.build_entries(self._template_capacities, provisioners)

    def _entries(
        self, session: orm.Session, classes: dict[str, list[str]], nodes: list[Node]
    ) -> dict[str, CapacityEntry]:
        now, entries = capacity_claims.now(session), {}
        for driver in driver_rows.list_all(session):
            if driver.name in classes:
                full_driver = driver_rows.find(session, driver.name)
                claims = capacity_claims.published_on(session, driver.uid, now) if self._subtracts_claims else ()
                entries.update(capacity_entries.build_entries(full_driver, classes[driver.name], nodes, now, claims))
        return entries

    def _owner(self) -> dict[str, Any] | None:
        """Return the reference to the owner of the objects."""
        if self._owner_name is None:
            return None
        try:
            answer: Any = self._apps.read_namespaced_deployment(
                self._owner_name, self._namespace, _preload_content=False, _request_timeout=_TIMEOUT_SECONDS
            )
        except client.ApiException as error:
            raise errors.Unavailable(
                f"the Deployment {self._namespace}/{self._owner_name}, which owns the objects, cannot be read "
                f"({_status_text(error)}): name another one in [kubernetes] publisher_owner, or none"
            ) from error
        except Exception as error:  # the client does not wrap the errors of its libraries
            raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": self._owner_name}
        return {**reference, "uid": objects.decode(answer.data, Owner).metadata.uid}

    def _body(
        self, name: str, entry: CapacityEntry, existing: ExistingCapacity | None, owner: dict[str, Any] | None
    ) -> dict[str, Any]:
        labels = {MANAGER_LABEL: OWN_MANAGER, DRIVER_LABEL: entry.driver}
        metadata: dict[str, Any] = {"name": name, "namespace": self._namespace, "labels": labels}
        if existing is not None:
            # The API server rejects the write if the object has changed since it was read.
            metadata["resourceVersion"] = existing.resource_version
        # A write without the owners that others have added would remove these.
        owners = [*(existing.owners if existing is not None else ())]
        if owner is not None and owner["uid"] not in {reference["uid"] for reference in owners}:
            owners.append(owner)
        if owners:
            metadata["ownerReferences"] = owners
        expressions = [
            {"key": requirement.key, "operator": requirement.operator.value}
            | ({"values": list(requirement.values)} if requirement.values else {})
            for requirement in entry.selector
        ]
        body = {
            "metadata": metadata,
            "storageClassName": entry.storage_class,
            "nodeTopology": {"matchExpressions": expressions} if expressions else {},
            "capacity": quantities.render(entry.capacity),
        }
        if entry.maximum_volume_size is not None:
            body["maximumVolumeSize"] = quantities.render(entry.maximum_volume_size)
        return body

    def _list_managed(self, **arguments: Any) -> Any:
        return self._objects.list(label_selector=f"{MANAGER_LABEL}={OWN_MANAGER}", **arguments)

    def _list_nodes(self, **arguments: Any) -> Any:
        accepted = {"Accept": objects.NAMES_AND_LABELS}
        answer: Any = self._core.list_node(_headers=accepted, _preload_content=False, **arguments)
        page = objects.decode(answer.data, NodeList)
        return {"items": page.items or [], "metadata": {"continue": page.metadata.continue_token}}

    def _list_all(self, call: Callable[..., Any]) -> Iterator[Any]:
        """Yield all objects of a list, page by page."""
        continue_token: str | None = None
        while True:
            try:
                page = call(limit=self._page_size, _continue=continue_token, _request_timeout=_TIMEOUT_SECONDS)
            except client.ApiException as error:
                raise errors.Unavailable(
                    f"the API server of Kubernetes refused a look: {_status_text(error)}"
                ) from error
            except errors.TonnageError:
                raise
            except Exception as error:  # the client does not wrap the errors of its libraries
                raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
            # Objects without a class in the client are dictionaries.
            typed = not isinstance(page, dict)
            yield from page.items if typed else page["items"]
            continue_token = page.metadata._continue if typed else page["metadata"].get("continue")
            if not continue_token:
                return

    def _write(self, result: PublishResult, name: str, call: Callable[..., Any], /, **arguments: Any) -> bool:
        """Call a method that writes one object, and return whether it succeeded."""
        try:
            call(_request_timeout=_TIMEOUT_SECONDS, **arguments)
        except client.ApiException as error:
            # Another publisher was faster, or the object was deleted.
            if error.status not in (_CONFLICT, _NOT_FOUND):
                self._log_failure(name, _status_text(error))
                result.failed += 1
            return False
        except Exception as error:  # the client does not wrap the errors of its libraries
            raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
        self._logged_failures.pop(name, None)
        return True

    def _log_failure(self, name: str, failure: str) -> None:
        if self._logged_failures.get(name) != failure:
            LOG.warning("CSIStorageCapacity %s/%s cannot be written: %s", self._namespace, name, failure)
        self._logged_failures[name] = failure


def _status_text(error: client.ApiException) -> str:
    return f"{error.status} {error.reason or ''}".strip()
