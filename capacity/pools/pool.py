# SPDX-License-Identifier: Apache-2.0
"""The data of one pool."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Capability of pools that agents report as false if the driver cannot clone volumes.
CLONE_SUPPORT = "clone_support"


_BACKEND = re.compile(r"[^@#\s]+@[^@#\s]+")


def is_backend_name(name: str) -> bool:
    """Return whether a text names a backend, ``host@backend``: two parts without ``@``, ``#`` and blanks."""
    return _BACKEND.fullmatch(name) is not None


def pool_name(backend: str, pool: str) -> str:
    """Return the full name of a pool, ``host@backend#pool``."""
    return f"{backend}#{pool}"


def stable_hash(text: str) -> int:
    """Return a 64-bit hash of the text that is the same in every process, unlike ``hash()``."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def backend_of(name: str) -> str:
    """Return the backend of a full pool name."""
    return name.rpartition("#")[0]


def short_name(name: str) -> str:
    """Return the part of a full pool name that is the name within the backend."""
    return name.rpartition("#")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool at the time of a decision. Capacities are GiB, ``nan`` is unknown, ``inf`` infinite.

    The numbers are the pool's *figures*, which every claim and every report may change. The other fields are its
    *traits*, which rarely change: name, flags, zone, capabilities.

    ``claimed`` and ``claimed_physical`` are the in-flight capacities of this pool's own claims. Pools with the same
    ``storage_id`` use the same storage: the ``shared`` figures are the sums of the claims of the other pools. A pool
    that reports ``storage_free`` is a partition of the storage, which shares only the physical room. ``external`` is
    the sum of the volumes that Tonnage did not place. ``up`` is false after its backend has been silent for too long,
    ``responsive`` is false while it is in doubt whether its agent serves the backend, and the pool is selected last.
    ``expired`` is true after the lifetime of the figures. ``volumes`` is the number of volumes; 0 unless a weigher
    needs it.

    ``in_flight``, ``in_flight_physical``, ``others`` and ``storage_room`` follow from the other figures, see
    :class:`tonnage.capacity.arithmetic.Figures`; the table computes them.
    """

    name: str
    total: float
    free: float
    provisioned: float = float("nan")
    allocated: float = 0.0
    claimed: float = 0.0
    claimed_physical: float = 0.0
    shared_allocated: float = 0.0
    shared_in_flight: float = 0.0
    shared_in_flight_physical: float = 0.0
    external: float = 0.0
    in_flight: float = 0.0
    in_flight_physical: float = 0.0
    others: float = 0.0
    storage_free: float = float("nan")
    storage_room: float = float("inf")
    volumes: float = 0.0
    reserved_percentage: float = 0.0
    ratio: float = 1.0
    thin: bool = False
    thick: bool = False
    up: bool = True
    enabled: bool = True
    responsive: bool = True
    expired: bool = False
    storage_id: str | None = None
    availability_zone: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        """Name of the backend, ``host@backend``."""
        return backend_of(self.name)
