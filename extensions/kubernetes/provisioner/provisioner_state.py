# SPDX-License-Identifier: Apache-2.0
"""Whether the provisioner of a ``CSIStorageCapacity`` object works.

external-provisioner does not write a figure again that has not changed, and its objects have no time. So an old object
is not a stale one. It is as fresh as its provisioner is alive:

* An owner of the object is the provisioner's pod, or the object that keeps this pod: a DaemonSet, a StatefulSet, a
  Deployment or a ReplicaSet. Owners of other kinds, and no owner, say nothing against it.
* Provisioners of which one is chosen renew a lease with the driver's name. It is in the namespace of the object.
"""

import datetime
import enum
import re
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from kubernetes import client

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import (
    CapacityObject,
    Lease,
    Owner,
    OwnerReference,
    PodNames,
)

T = TypeVar("T")

#: Seconds to wait for the API server's answer, and for which an answer about an owner is used. Processes that import
#: the same figures may disagree about an owner for so long.
_TIMEOUT_SECONDS = 10.0
_OWNER_SECONDS = 5.0

#: Seconds of a lease that does not tell, and how many of its durations may pass without a renewal.
_LEASE_SECONDS = 15
_LEASE_DURATIONS = 2

_APPS = re.compile(r"apps/v1.*")
_UNSAFE = re.compile(r"[^a-zA-Z0-9-]")
_NOT_FOUND = 404


class ProvisionerState(enum.Enum):
    """The state of a provisioner. Figures of one that is gone are not used from that moment on."""

    WORKING = enum.auto()
    UNKNOWN = enum.auto()
    GONE = enum.auto()


class ProvisionerStates:
    """Reads the owners of objects and the leases of provisioners.

    ``clock`` returns seconds, ``now`` the time in UTC.
    """

    def __init__(
        self,
        api: client.ApiClient,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        apps, self._core = client.AppsV1Api(api), client.CoreV1Api(api)
        self._leases = client.CoordinationV1Api(api)
        self._owner_calls: dict[str, Callable[..., Any]] = {
            "DaemonSet": apps.read_namespaced_daemon_set,
            "StatefulSet": apps.read_namespaced_stateful_set,
            "Deployment": apps.read_namespaced_deployment,
            "ReplicaSet": apps.read_namespaced_replica_set,
        }
        self._clock, self._now = clock, now
        self._owner_states: dict[tuple[str, str], tuple[float, ProvisionerState]] = {}
        self._pod_uids: dict[str, tuple[float, Collection[str]]] = {}
        #: When the present call of :meth:`read` began.
        self._began_at = 0.0
        #: The last renewal of each lease, and when it was first seen.
        self._renewals: dict[tuple[str, str], tuple[datetime.datetime | None, float]] = {}

    def read(self, capacity_objects: Iterable[tuple[CapacityObject, str]]) -> dict[str, ProvisionerState]:
        """Return the state of the provisioner of each object, given with its driver, by the object's full name.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the cluster cannot be read.
        """
        self._began_at = self._clock()
        leases: dict[tuple[str, str], ProvisionerState] = {}
        states = {}
        for capacity_object, driver in capacity_objects:
            namespace = capacity_object.metadata.namespace
            state = self._state_of_owners(namespace, capacity_object.metadata.owner_references or ())
            if state is ProvisionerState.WORKING:
                if (namespace, driver) not in leases:
                    leases[namespace, driver] = self._state_of_lease(namespace, driver)
                state = leases[namespace, driver]
            states[capacity_object.full_name] = state
        now = self._clock()
        self._owner_states = {
            key: entry for key, entry in self._owner_states.items() if now - entry[0] < _OWNER_SECONDS
        }
        return states

    def _state_of_owners(self, namespace: str, references: Collection[OwnerReference]) -> ProvisionerState:
        """Return the best state of the owners: an object is kept as long as it has one."""
        states = {self._state_of_owner(namespace, reference) for reference in references}
        for state in (ProvisionerState.WORKING, ProvisionerState.UNKNOWN, ProvisionerState.GONE):
            if state in states:
                return state
        return ProvisionerState.WORKING

    def _state_of_owner(self, namespace: str, reference: OwnerReference) -> ProvisionerState:
        if (reference.api_version, reference.kind) == ("v1", "Pod"):
            return ProvisionerState.WORKING if self._has_pod(namespace, reference.uid) else ProvisionerState.GONE
        call = self._owner_calls.get(reference.kind)
        if call is None or not _APPS.fullmatch(reference.api_version):
            return ProvisionerState.WORKING
        now, key = self._clock(), (namespace, reference.uid)
        entry = self._owner_states.get(key)
        if entry is None or now - entry[0] >= _OWNER_SECONDS:
            owner = self._read(Owner, call, name=reference.name, namespace=namespace)
            if owner is None or owner.metadata.uid != reference.uid or owner.metadata.deletion_timestamp is not None:
                state = ProvisionerState.GONE
            else:
                # None of its pods may be ready while they are replaced.
                state = ProvisionerState.WORKING if owner.ready_pods else ProvisionerState.UNKNOWN
            entry = self._owner_states[key] = now, state
        return entry[1]

    def _has_pod(self, namespace: str, uid: str) -> bool:
        """Return whether a namespace has a pod. An older list may lack a new one, so it is read again for that."""
        now = self._clock()
        entry = self._pod_uids.get(namespace)
        if entry is None or now - entry[0] >= _OWNER_SECONDS or (uid not in entry[1] and entry[0] < self._began_at):
            pods = self._read(
                PodNames,
                self._core.list_namespaced_pod,
                namespace=namespace,
                _headers={"Accept": objects.NAMES_AND_LABELS},
            )
            uids = {pod.metadata.uid for pod in (pods and pods.items) or ()}
            entry = self._pod_uids[namespace] = now, uids
        return uid in entry[1]

    def _state_of_lease(self, namespace: str, driver: str) -> ProvisionerState:
        """Return the state that the lease of a driver's provisioners shows, if they have one.

        A lease is alive while its renewal changes, as seen from here: clocks of machines differ. Its time alone counts
        for the first look.
        """
        name = lease_name(driver)
        lease = self._read(Lease, self._leases.read_namespaced_lease, name=name, namespace=namespace)
        if lease is None:
            return ProvisionerState.WORKING
        now, spec = self._clock(), lease.spec
        allowed = (spec.lease_duration_seconds or _LEASE_SECONDS) * _LEASE_DURATIONS
        last = self._renewals.get((namespace, name))
        if not spec.holder_identity or spec.renew_time is None:
            return ProvisionerState.UNKNOWN
        if last is None or last[0] != spec.renew_time:
            self._renewals[namespace, name] = spec.renew_time, now
            age = abs((self._now() - spec.renew_time).total_seconds())
            is_renewed = last is not None or age < allowed
            if not is_renewed:
                # Nobody has renewed it as far as its time tells: wait for a renewal.
                self._renewals[namespace, name] = spec.renew_time, now - allowed
            return ProvisionerState.WORKING if is_renewed else ProvisionerState.UNKNOWN
        return ProvisionerState.WORKING if now - last[1] < allowed else ProvisionerState.UNKNOWN

    def _read(self, object_type: type[T], call: Callable[..., Any], **arguments: Any) -> T | None:
        try:
            answer = call(**arguments, _preload_content=False, _request_timeout=_TIMEOUT_SECONDS)
        except client.ApiException as error:
            if error.status == _NOT_FOUND:
                return None
            raise errors.Unavailable(
                f"the API server of Kubernetes refused a look at the owners of capacity: {error.status} {error.reason}"
            ) from error
        except Exception as error:  # the client does not wrap the errors of its libraries
            raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
        return objects.decode(answer.data, object_type)


def lease_name(driver: str) -> str:
    """Return the name of the lease of a driver's provisioners, as csi-lib-utils forms it."""
    name = _UNSAFE.sub("-", driver)
    return f"{name}X" if name.endswith("-") else name
