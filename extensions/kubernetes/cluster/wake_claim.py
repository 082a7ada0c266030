# SPDX-License-Identifier: Apache-2.0
"""A wake of kube-scheduler: it tries waiting pods again when any claim of the cluster changes.

kube-scheduler has no other way to learn of room in an extender. The claim is an object of Tonnage's own, which no pod
uses and which gets no volume.
"""

import time

from kubernetes import client

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable

#: The annotation that changes.
ANNOTATION = "tonnage/room-came-at"

_TIMEOUT_SECONDS = 5.0


class WakeClaim:
    """The claim of the option ``extender_wake_claim``, ``namespace/name``."""

    def __init__(self, api: client.ApiClient, full_name: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for a name without a namespace."""
        self._namespace, separator, self._name = full_name.partition("/")
        if not separator or not self._namespace or not self._name or "/" in self._name:
            raise errors.ConfigurationError(
                f"option [kubernetes] extender_wake_claim = {full_name}: expected namespace/name of a claim"
            )
        self._core = client.CoreV1Api(api)

    def change(self) -> None:
        """Change the claim.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        try:
            self._core.patch_namespaced_persistent_volume_claim(
                self._name,
                self._namespace,
                {"metadata": {"annotations": {ANNOTATION: f"{time.time():.3f}"}}},
                _preload_content=False,
                _request_timeout=_TIMEOUT_SECONDS,
            )
        except Exception as error:  # the client does not wrap the errors of its libraries
            reason = getattr(error, "reason", None) or error
            raise ClusterUnavailable(
                f"claim {self._namespace}/{self._name} of [kubernetes] extender_wake_claim cannot be changed: {reason}"
            ) from error
