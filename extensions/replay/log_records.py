# SPDX-License-Identifier: Apache-2.0
"""The lines of a decision log, each a JSON object whose ``line`` names its kind.

A log begins with ``rules``. ``pool`` and ``gone`` have the changes since the line before, ``decision`` is a decision.
Together they are all inputs of the decision, so it can be made again.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from tonnage.capacity import errors, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.request import Provisioning, Request
from tonnage.scheduler.cache.pool_figures import mended
from tonnage.scheduler.steps.group_packing import Member

#: The figures of a pool line, in this order; after them comes the ratio that the pool reports, null if none.
FIGURES = (
    "total",
    "free",
    "provisioned",
    "allocated",
    "claimed",
    "claimed_physical",
    "shared_allocated",
    "shared_in_flight",
    "shared_in_flight_physical",
    "external",
    "storage_free",
    "volumes",
    "reserved_percentage",
    "ratio",
)

_FORMAT = 1


class Rules(Struct, tag_field="line", tag="rules", frozen=True):
    """The rules that decide from here on. With ``begins`` no earlier line counts any more.

    ``volumes`` tells whether the numbers of volumes are kept.
    """

    time: str
    host: str
    filters: list[str]
    weighers: dict[str, float]
    calculation: Calculation
    default_ratio: float | str
    volumes: bool
    begins: bool
    format: int = _FORMAT


class Traits(Struct, frozen=True):
    """The properties of a pool that change seldom."""

    thin: bool
    thick: bool
    up: bool
    enabled: bool
    storage_id: str | None
    availability_zone: str
    capabilities: dict[str, Any]
    expired: bool = False
    responsive: bool = True


class PoolLine(Struct, tag_field="line", tag="pool", frozen=True, omit_defaults=True):
    """A pool that is new or has changed; a missing field is unchanged."""

    name: str
    figures: list[float | str | None] | None = None
    traits: Traits | None = None


class Gone(Struct, tag_field="line", tag="gone", frozen=True):
    """Pools that are no longer reported."""

    names: list[str]


class Decided(Struct, tag_field="line", tag="decision", frozen=True):
    """One decision: the requests, volume by volume, and the pool of each or the refusal.

    With ``together`` the volumes are placed all or none. With ``in_place`` a volume stays in its pool with another
    type, which needs no room.
    """

    time: str
    request: str
    requests: list[Request]
    pools: list[str]
    provisioning: list[Provisioning]
    refusal: str | None = None
    together: bool = False
    in_place: bool = False
    copied_gb: list[int] = []
    same: list[list[int]] = []
    different: list[list[int]] = []
    mates: list[list[int]] = []

    @property
    def members(self) -> list[Member]:
        """The volumes as they are packed."""
        return [
            Member(
                request=request,
                copied_gb=self.copied_gb[number],
                same=frozenset(self.same[number]),
                different=frozenset(self.different[number]),
                mates=frozenset(self.mates[number] if self.mates else ()),
            )
            for number, request in enumerate(self.requests)
        ]


Line: TypeAlias = Rules | PoolLine | Gone | Decided

_encoder = msgspec.json.Encoder()
_decoder: "msgspec.json.Decoder[Line]" = msgspec.json.Decoder(Line)


def encode(line: Line) -> bytes:
    """Return a line, without its end."""
    try:
        return _encoder.encode(line)
    except UnicodeEncodeError:  # from a driver that reports broken text
        return _encoder.encode(mended(msgspec.to_builtins(line)))


def decode(text: bytes) -> Line:
    """Return the record of a line. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    try:
        line = _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise errors.InvalidInput(f"no line of a decision log: {error}") from None
    if isinstance(line, Rules) and line.format != _FORMAT:
        raise errors.InvalidInput(f"the log has format {line.format}, and this release reads {_FORMAT}")
    return line


def figures(values: Sequence[float], ratio: float | str | None) -> list[float | str | None]:
    """Return the figures of a pool line: JSON has no unknown and no infinite numbers."""
    return [*(value if math.isfinite(value) else units.to_wire(value) for value in values), ratio]


def pool(name: str, figures: Sequence[float | str | None], traits: Traits) -> tuple[Pool, float | str | None]:
    """Return the pool that a log tells of, and the ratio that it reports."""
    numbers = {figure: _number(value) for figure, value in zip(FIGURES, figures, strict=False)}
    return (
        Pool(
            name=name,
            thin=traits.thin,
            thick=traits.thick,
            up=traits.up,
            enabled=traits.enabled,
            expired=traits.expired,
            responsive=traits.responsive,
            storage_id=traits.storage_id,
            availability_zone=traits.availability_zone,
            capabilities=traits.capabilities,
            **numbers,
        ),
        figures[len(FIGURES)],
    )


def _number(value: float | str | None) -> float:
    if value == units.INFINITE:
        return math.inf
    return float(value) if isinstance(value, (int, float)) else math.nan
