# SPDX-License-Identifier: Apache-2.0
"""Decisions: a pool and why, or a refusal and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
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
class Refusal:
    """A request was given no pool. ``what`` describes it: ``500 GiB thin 'gold'``.

    ``pools`` is how many pools were asked; ``pool`` the only one, or the backend of those, that the request would take,
    if there was one.
    """

    what: str
    pools: int
    outcomes: tuple[FilterOutcome, ...] = ()
    nearest: NearestMiss | None = None
    pool: str | None = None

    @property
    def message(self) -> str:
        """The refusal as one sentence, with each filter's count and the nearest miss with its numbers."""
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
