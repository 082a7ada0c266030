# SPDX-License-Identifier: Apache-2.0
"""Decisions: placements and refusals, with their reasons."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from tonnage.capacity.request import Provisioning

#: Code of the rejection of a pool that has too little capacity; its number ``headroom`` is the largest size in GiB.
NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why one filter refuses one pool.

    ``code`` is a stable word for programs (``no_capacity``), ``message`` continues a sentence that begins with the
    pool's name (``has headroom 380.00 GiB ...``), ``numbers`` are the figures in it.
    """

    code: str
    message: str
    numbers: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """The number of pools that a filter refused."""

    filter: str
    refused: int


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The refused pool that came closest, with the filter and its reason."""

    pool: str
    filter: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class Placement:
    """The pool of a request; ``provisioning`` is the type of the volume there, for admission and creation."""

    pool: str
    provisioning: Provisioning


@dataclass(frozen=True, slots=True)
class Excess:
    """The quota that a request exceeds; no pool was checked.

    ``resource`` is the quota's name for clients (``gigabytes_fast``). ``used`` is the usage so far, ``requested`` the
    addition; for the limit of one volume's size, ``used`` is 0.
    """

    resource: str
    limit: int
    used: int
    requested: int

    @property
    def code(self) -> str:
        """The error code that Block Storage clients know."""
        return _EXCESSES[self._kind][0]

    @property
    def message(self) -> str:
        """The error message that Block Storage clients know."""
        return _EXCESSES[self._kind][1].format(self)

    @property
    def sentence(self) -> str:
        """The code and the message, as in the API's response."""
        return f"{self.code}: {self.message}"

    @property
    def _kind(self) -> str:
        if self.resource == "per_volume_gigabytes":
            return "size"
        return "gigabytes" if self.resource.startswith("gigabytes") else "count"


_EXCESSES = {
    "size": (
        "VolumeSizeExceedsLimit",
        "Requested volume size {0.requested}G is larger than maximum allowed limit {0.limit}G.",
    ),
    "gigabytes": (
        "VolumeSizeExceedsAvailableQuota",
        "Requested volume or snapshot exceeds allowed {0.resource} quota. Requested {0.requested}G, quota is "
        "{0.limit}G and {0.used}G has been consumed.",
    ),
    "count": (
        "VolumeLimitExceeded",
        "Maximum number of volumes allowed ({0.limit}) exceeded for quota '{0.resource}'.",
    ),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a request. ``request`` describes it: ``500 GiB thin 'gold'``.

    ``pools`` is the number of pools that were checked. ``pool`` is the pool or backend to which the request is limited,
    if any. With an ``excess`` no pool was checked. ``outgrown`` is the pool in which a volume has no room to grow,
    if its type lets it move for that: the pools are those that it might move to.
    """

    request: str
    pools: int
    outcomes: tuple[FilterOutcome, ...] = ()
    nearest: NearestMiss | None = None
    pool: str | None = None
    excess: Excess | None = None
    outgrown: str | None = None

    @property
    def largest_size_gb(self) -> int | None:
        """The size in GiB of the largest volume that the nearest pool accepts; None if the size is not the reason."""
        if self.nearest is None or self.nearest.rejection.code != NO_CAPACITY:
            return None
        headroom = self.nearest.rejection.numbers.get("headroom")
        return int(headroom) if isinstance(headroom, float | int) and 1 <= headroom < math.inf else None

    @property
    def reason(self) -> tuple[str, str]:
        """The filter and the code of the reason. Without a filter the first one is ``quota`` or ``none``."""
        if self.excess is not None:
            return "quota", self.excess.code
        if self.nearest is None:
            return "none", "no_pool"
        return self.nearest.filter, self.nearest.rejection.code

    def without_pools(self) -> "Refusal":
        """Return the refusal without the names and figures of pools."""
        named = self.pool is not None and "@" in self.pool
        outgrown = None if self.outgrown is None else "its pool"
        return replace(self, nearest=None, pool="its backend" if named else self.pool, outgrown=outgrown)

    @property
    def message(self) -> str:
        """The refusal as one sentence, with each filter's count and the nearest miss with its numbers."""
        if self.excess is not None:
            return f"No quota for {self.request}: {self.excess.message}"
        request = (
            self.request if self.outgrown is None else f"{self.request}, which has no room to grow in {self.outgrown}"
        )
        if self.pools == 0:
            missing = "no backend reports a pool" if self.pool is None else f"{self.pool} is not reported"
            return f"No pool for {request}: {missing} at present"
        parts = [f"{self.pools} pool{'' if self.pools == 1 else 's'}"]
        for outcome in self.outcomes:
            if not outcome.refused:
                continue
            part = f"{outcome.filter} refused {outcome.refused}"
            if self.nearest is not None and self.nearest.filter == outcome.filter:
                part += f", nearest {self.nearest.pool} {self.nearest.rejection.message}"
            parts.append(part)
        return f"No pool for {request}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Undecided:
    """A request without a decision for so many seconds: its message is lost, or still waits. Recorded like a refusal.

    ``request`` describes it: ``create of a volume of 10 GiB``.
    """

    request: str
    seconds: float

    nearest: ClassVar[None] = None
    largest_size_gb: ClassVar[None] = None
    reason: ClassVar[tuple[str, str]] = ("none", "undecided")

    @property
    def message(self) -> str:
        """The state of the request as one sentence."""
        return f"No decision on {self.request} for {self.seconds:.0f} s: the message is lost, or still waits on the bus"


@dataclass(frozen=True, slots=True)
class AttemptsExceeded:
    """A request that has failed in as many attempts as are allowed. Recorded like a refusal.

    ``request`` describes it: ``10 GiB 'gold'``. ``pools`` are in the order of the attempts. ``error`` is that of the
    last pool, empty if it is not known.
    """

    request: str
    pools: tuple[str, ...]
    error: str = ""

    nearest: ClassVar[None] = None
    largest_size_gb: ClassVar[None] = None
    reason: ClassVar[tuple[str, str]] = ("none", "attempts_exceeded")

    @property
    def message(self) -> str:
        """The refusal as one sentence."""
        last = f", in the last one with {self.error}" if self.error else ""
        return f"No pool for {self.request}: it has failed in {', '.join(self.pools)}{last}; no more pools are tried"


Decision: TypeAlias = Placement | Refusal
