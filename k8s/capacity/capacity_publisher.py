# SPDX-License-Identifier: Apache-2.0
"""Keeps the ``CSIStorageCapacity`` objects of a cluster as the drivers' storage is, with the official client."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.k8s.capacity import capacity_entries, driver_rows, quantities
from tonnage.k8s.capacity.capacity_entries import Entry
from tonnage.k8s.capacity.capacity_objects import Capacities, Present
from tonnage.k8s.cluster import objects
from tonnage.k8s.cluster.nodes import Node
from tonnage.k8s.cluster.objects import NodeList
from tonnage.k8s.fit import capacity_claims
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Objects with this label are ours; others are left alone.
MANAGED_BY = "csi.storage.k8s.io/managed-by"
OURS = "tonnage"
DRIVER = "csi.storage.k8s.io/drivername"

#: Seconds that the server gets to answer.
_PATIENCE = 30.0
#: How many objects a page of a list has.
_PAGE = 500

_CONFLICT = 409
_NOT_FOUND = 404


@dataclass(slots=True)
class Done:
    """What a round has changed, which may be nothing, and what it could not change."""

    created: int = 0
    replaced: int = 0
    deleted: int = 0
    failed: int = 0

    def __bool__(self) -> bool:
        return any((self.created, self.replaced, self.deleted))

    def __str__(self) -> str:
        return f"{self.created} made, {self.replaced} changed, {self.deleted} deleted, {self.failed} failed"


class Publisher:
    """Publishes in one namespace. Any number may run side by side: what they write is the same."""

    def __init__(self, ledger: Database, api: client.ApiClient, namespace: str) -> None:
        self._ledger = ledger
        self._namespace = namespace
        self._core, self._storage = client.CoreV1Api(api), client.StorageV1Api(api)
        self._capacities = Capacities(api, namespace)
        #: What was last said of objects that cannot be written; said again only when it changes.
        self._told: dict[str, str] = {}

    def publish(self) -> Done:
        """Make what is missing, change what has other values, and delete what is not so any more.

        What fails for one object is logged, and tried again the next time. Raises
        :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be read.
        """
        entries = self._wanted()
        present = {each.name: each for each in map(Present.read, self._listed(self._list_ours))}
        wanted = {name: self._capacities.narrowed(entry) for name, entry in entries.items()}
        done = Done()
        for name, entry in wanted.items():
            there = present.get(name)
            body = self._body(name, entry, there)
            if there is None:
                done.created += self._do(done, name, self._capacities.create, body=body)
            elif not there.says(entry):
                done.replaced += self._do(done, name, self._capacities.replace, name=name, body=body)
        for name in present.keys() - wanted.keys():
            done.deleted += self._do(done, name, self._capacities.delete, name=name)
        self._told = {name: said for name, said in self._told.items() if name in wanted or name in present}
        return done

    def _wanted(self) -> dict[str, Entry]:
        classes: dict[str, list[str]] = {}
        for each in self._listed(self._storage.list_storage_class):
            classes.setdefault(each.provisioner, []).append(each.metadata.name)
        nodes = [Node(each.metadata.name, each.metadata.labels or {}) for each in self._listed(self._list_nodes)]
        with self._ledger.reading(snapshot=True) as session:
            return self._entries(session, classes, nodes)

    @staticmethod
    def _entries(session: orm.Session, classes: dict[str, list[str]], nodes: list[Node]) -> dict[str, Entry]:
        now, found = capacity_claims.now(session), {}
        for driver in driver_rows.every(session):
            if driver.name in classes:
                whole = driver_rows.find(session, driver.name)
                found.update(capacity_entries.entries(whole, classes[driver.name], nodes, now))
        return found

    def _body(self, name: str, entry: Entry, there: Present | None) -> dict[str, Any]:
        labels = {MANAGED_BY: OURS, DRIVER: entry.driver}
        metadata: dict[str, Any] = {"name": name, "namespace": self._namespace, "labels": labels}
        if there is not None:
            # What somebody else has changed since it was read is not written over.
            metadata["resourceVersion"] = there.resource_version
        expressions = [
            {"key": one.key, "operator": one.operator.value} | ({"values": list(one.values)} if one.values else {})
            for one in entry.selector
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

    def _list_ours(self, **arguments: Any) -> Any:
        return self._capacities.list(label_selector=f"{MANAGED_BY}={OURS}", **arguments)

    def _list_nodes(self, **arguments: Any) -> Any:
        accepted = {"Accept": objects.NAMES_AND_LABELS}
        answer: Any = self._core.list_node(_headers=accepted, _preload_content=False, **arguments)
        page = objects.decode(answer.data, NodeList)
        return {"items": page.items, "metadata": {"continue": page.metadata.more}}

    def _listed(self, call: Callable[..., Any]) -> Iterator[Any]:
        """Return all objects of a list, page by page."""
        more: str | None = None
        while True:
            try:
                page = call(limit=_PAGE, _continue=more, _request_timeout=_PATIENCE)
            except client.ApiException as error:
                raise errors.Unavailable(f"the API server of Kubernetes refused a look: {_said(error)}") from error
            except errors.TonnageError:
                raise
            except Exception as error:  # the client lets through what its libraries raise
                raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
            # Objects that the client has no class for come as dictionaries.
            known = not isinstance(page, dict)
            yield from page.items if known else page["items"]
            more = page.metadata._continue if known else page["metadata"].get("continue")
            if not more:
                return

    def _do(self, done: Done, what: str, call: Callable[..., Any], /, **arguments: Any) -> bool:
        """Change one object; tell whether that was done."""
        try:
            call(_request_timeout=_PATIENCE, **arguments)
        except client.ApiException as error:
            # Another publisher was faster, or somebody has deleted it.
            if error.status not in (_CONFLICT, _NOT_FOUND):
                self._tell(what, _said(error))
                done.failed += 1
            return False
        except Exception as error:  # the client lets through what its libraries raise
            raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
        self._told.pop(what, None)
        return True

    def _tell(self, what: str, failure: str) -> None:
        if self._told.get(what) != failure:
            LOG.warning("CSIStorageCapacity %s/%s cannot be written: %s", self._namespace, what, failure)
        self._told[what] = failure


def _said(error: client.ApiException) -> str:
    return f"{error.status} {error.reason or ''}".strip()
