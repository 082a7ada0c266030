# SPDX-License-Identifier: Apache-2.0
"""Requests for capacity: volumes to create, extend or move."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.elementwise import Bools

#: The extra spec for thin or thick volumes. It selects the type of the volume, not the pool.
PROVISIONING_SPEC = "provisioning:type"


class Provisioning(enum.StrEnum):
    """The provisioning type of a volume."""

    THIN = "thin"
    THICK = "thick"


class Operation(enum.StrEnum):
    """The operation that needs capacity."""

    CREATE = "create"
    EXTEND = "extend"
    MIGRATE = "migrate"


#: The hint that names an instance; its volume is placed on the host of the instance.
LOCAL_TO_INSTANCE = "local_to_instance"


@dataclass(frozen=True, slots=True)
class Locality:
    """The host of an instance. If it is unknown, ``problem`` is the reason and ``code`` a word for it."""

    host: str | None = None
    code: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to create, extend or move a volume.

    ``size_gb`` is the capacity that the pool has to provide, in GiB: the size of a new or moved volume, the growth of
    an extended one. ``pool`` limits the request to one pool, ``backend`` to the pools of one backend, ``backends`` to
    the pools of the backends that its group may use. ``attempted`` excludes pools in which the request has failed, and
    the source pool of a move. ``same_backends`` and ``different_backends`` are the backends of the volumes in the hints
    ``same_host`` and ``different_host``; None without such a hint. ``locality`` is the host of the instance in the hint
    ``local_to_instance``; None if it could not be queried. ``copies`` is true if the content is copied from a volume.
    ``request_id`` is the idempotency key: a request that is delivered twice creates one volume.
    """

    request_id: str
    size_gb: int
    operation: Operation = Operation.CREATE
    provisioning: Provisioning | None = None
    volume_type: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    qos_specs: Mapping[str, str] = field(default_factory=dict)
    project_id: str = ""
    availability_zone: str | None = None
    hints: Mapping[str, object] = field(default_factory=dict)
    pool: str | None = None
    backend: str | None = None
    attempted: frozenset[str] = frozenset()
    same_backends: frozenset[str] | None = None
    different_backends: frozenset[str] | None = None
    locality: Locality | None = None
    copies: bool = False
    backends: frozenset[str] | None = None

    def describe(self) -> str:
        """Return the description of the request in refusals: ``500 GiB thin 'gold'``.

        The volume type is named only if it has extra specs, because only these exclude pools. A request of size 0,
        which fits into every pool, is described without a size: ``a volume thin 'gold'``.
        """
        words = [f"{self.size_gb} GiB" if self.size_gb else "a volume"]
        if self.provisioning is not None:
            words.append(self.provisioning.value)
        if self.volume_type is not None and self.extra_specs:
            words.append(f"'{self.volume_type}'")
        return " ".join(words)

    def limited_to(self) -> str | None:
        """Return the pool or backends that the request is limited to, as refusals name them; None without a limit."""
        if self.pool is not None or self.backend is not None or self.backends is None:
            return self.pool or self.backend
        return " or ".join(sorted(self.backends)) or "a backend for all types of its group"


def requested_provisioning(extra_specs: Mapping[str, str]) -> Provisioning | None:
    """Return the provisioning type that the extra specs request, None if they request none.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a value other than thin or thick.
    """
    value = extra_specs.get(PROVISIONING_SPEC)
    if value is None:
        return None
    try:
        return Provisioning(value.strip().lower())
    except ValueError:
        raise errors.InvalidInput(f"extra spec {PROVISIONING_SPEC} is {value!r}; it takes 'thin' or 'thick'") from None


def judged_thin(supports_thin: Bools, supports_thick: Bools, provisioning: Provisioning | None) -> Bools:
    """Return whether the volume is thin in each pool (otherwise thick), for admission and creation.

    The type is the requested ``provisioning`` if the pool supports it, else the pool's only type. Without a requested
    type the volume is thin in each pool that supports thin.
    """
    if provisioning is Provisioning.THICK:
        return np.logical_and(supports_thin, np.logical_not(supports_thick))[()]
    return supports_thin
