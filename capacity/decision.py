# SPDX-License-Identifier: Apache-2.0
"""Decisions: a pool and why, or a refusal and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tonnage.capacity.request import Provisioning


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one filter turned one pool away.

    ``code`` is a stable word for programs (``no_capacity``), ``message`` continues a sentence that begins with the
    pool's name (``has headroom 380.00 GiB ...``), ``numbers`` are the figures in it.
    """

    code: str
    message: str
    numbers: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """How many pools a filter turned away."""

    filter: str
    refused: int


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The pool that came closest, and what turned it away."""

    pool: str
    filter: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class Placement:
    """A request was given a pool; ``provisioning`` is how the volume is judged and made."""

    pool: str
    provisioning: Provisioning


@dataclass(frozen=True, slots=True)
class Excess:
    """What of a quota a request would have gone beyond; no pool was asked then.

    ``resource`` is called as clients call it (``gigabytes_fast``). ``used`` is what counts already, ``requested`` what
    the request would add; of the size of one volume, ``used`` is nothing.
    """

    resource: str
    limit: int
    used: int
    requested: int

    @property
    def code(self) -> str:
        """The word that Block Storage clients know this by."""
        return _EXCESSES[self._kind][0]

    @property
    def message(self) -> str:
        """The sentence that Block Storage clients know this by."""
        return _EXCESSES[self._kind][1].format(self)

    @property
    def sentence(self) -> str:
        """Both, as they are answered."""
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
    """A request was given no pool. ``what`` describes it: ``500 GiB thin 'gold'``.

    ``pools`` is how many pools were asked; ``pool`` the only one, or the backend of those, that the request would take,
    if there was one. With an ``excess`` no pool was asked.
    """

    what: str
    pools: int
    outcomes: tuple[FilterOutcome, ...] = ()
    nearest: NearestMiss | None = None
    pool: str | None = None
    excess: Excess | None = None

    @property
    def message(self) -> str:
        """The refusal as one sentence, with each filter's count and the nearest miss with its numbers."""
        if self.excess is not None:
            return f"No quota for {self.what}: {self.excess.message}"
        if self.pools == 0:
            missing = "no backend has reported a pool" if self.pool is None else f"{self.pool} has not been reported"
            return f"No pool for {self.what}: {missing} yet"
        parts = [f"{self.pools} pool{'' if self.pools == 1 else 's'}"]
        for outcome in self.outcomes:
            if not outcome.refused:
                continue
            part = f"{outcome.filter} refused {outcome.refused}"
            if self.nearest is not None and self.nearest.filter == outcome.filter:
                part += f", nearest {self.nearest.pool} {self.nearest.rejection.message}"
            parts.append(part)
        return f"No pool for {self.what}: {'; '.join(parts)}"


Decision: TypeAlias = Placement | Refusal
