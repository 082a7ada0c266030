# SPDX-License-Identifier: Apache-2.0
"""Requests: what somebody wants placed."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.elementwise import Bools

#: The extra spec that asks for thin or thick. It says how a volume is made and picks no pool.
PROVISIONING_SPEC = "provisioning:type"


class Provisioning(enum.StrEnum):
    """How a volume is made."""

    THIN = "thin"
    THICK = "thick"


class Operation(enum.StrEnum):
    """What capacity is asked for."""

    CREATE = "create"
    EXTEND = "extend"
    MIGRATE = "migrate"


#: The hint that names an instance; a volume that has it goes to the host where that runs.
LOCAL_TO_INSTANCE = "local_to_instance"


@dataclass(frozen=True, slots=True)
class Locality:
    """The host where an instance runs. Without one ``problem`` says why it is not known, and ``code`` in a word."""

    host: str | None = None
    code: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A volume that somebody wants placed, grown where it is, or moved.

    ``size_gb`` is what the pool has to take on: the size of a new volume or one that moves, the growth of an extended
    one. ``pool`` limits the request to one pool, ``backend`` to those of one backend, ``backends`` to those of backends
    that its group may be on; ``attempted`` keeps it from those that have failed it and from the one that it is to
    leave. ``same_backends`` and ``different_backends`` are where the
    volumes are that the hints ``same_host`` and ``different_host`` name; None where there is no such hint.
    ``locality`` is where the instance runs that the hint ``local_to_instance`` names; None where nobody could be asked.
    ``copies`` tells that the content comes from another volume, or the same one elsewhere.
    ``request_id`` is the idempotency key: the same id delivered twice is one volume.
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
        """Return the request as refusals name it: ``500 GiB thin 'gold'``."""
        words = [f"{self.size_gb} GiB"]
        if self.provisioning is not None:
            words.append(self.provisioning.value)
        if self.volume_type is not None:
            words.append(f"'{self.volume_type}'")
        return " ".join(words)

    def limited_to(self) -> str | None:
        """Return what the request is limited to, as refusals name it; None where any pool will do."""
        if self.pool is not None or self.backend is not None or self.backends is None:
            return self.pool or self.backend
        return " or ".join(sorted(self.backends)) or "a backend for all types of its group"


def asked_provisioning(extra_specs: Mapping[str, str]) -> Provisioning | None:
    """Return what ``provisioning:type`` asks for, or None.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a value other than thin or thick.
    """
    value = extra_specs.get(PROVISIONING_SPEC)
    if value is None:
        return None
    try:
        return Provisioning(value.strip().lower())
    except ValueError:
        raise errors.InvalidInput(f"extra spec {PROVISIONING_SPEC} is {value!r}; it takes 'thin' or 'thick'") from None


def judged_thin(supports_thin: Bools, supports_thick: Bools, asked: Provisioning | None) -> Bools:
    """Tell where a volume is judged and made thin (elsewhere thick).

    What was asked where the pool supports it, else the pool's only type; nothing asked: thin where supported.
    """
    if asked is Provisioning.THICK:
        return np.logical_and(supports_thin, np.logical_not(supports_thick))[()]
    return supports_thin
