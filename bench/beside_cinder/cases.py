# SPDX-License-Identifier: Apache-2.0
"""Cases: a request, and pools as drivers report them, with the volumes and instances that there are."""

import uuid
from dataclasses import dataclass, field
from typing import Any

STANDARD, CINDER = "standard", "cinder"
WEIGHERS = "weighers"

ZONES = ["east", "west"]
PLACES = [f"h{host}@b{backend}#p{pool}" for host in (1, 2, 3) for backend in (1, 2) for pool in (1, 2, 3)]

_WITH_VOLUMES = [place for place in PLACES if not place.endswith("3")]

#: Volumes that there are, by id, and the pool of each; there are pools without one.
VOLUMES = {str(uuid.UUID(int=number, version=4)): _WITH_VOLUMES[number * 7 % 12] for number in range(30)}
NO_VOLUME = str(uuid.UUID(int=1000, version=4))

#: Volumes of another project than the one that asks, and the pool of each.
FOREIGN = {str(uuid.UUID(int=1100 + number, version=4)): _WITH_VOLUMES[number] for number in range(3)}

#: Instances and the hosts that they run on; one of which nobody may know the host.
INSTANCES = {str(uuid.UUID(int=2000 + number, version=4)): f"h{number}" for number in (1, 2, 9)}
NO_INSTANCE = str(uuid.UUID(int=2100, version=4))


@dataclass(frozen=True, slots=True)
class PoolCase:
    """A pool: what its driver reports, what was allocated by then, and the sizes of volumes placed there since."""

    name: str
    zone: str
    allocated: int
    report: dict[str, Any]
    placed: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wish:
    """A request. ``new_size`` is that of a volume that grows from ``size``, 0 where one is new."""

    size: int
    new_size: int = 0
    extra_specs: dict[str, str] = field(default_factory=dict)
    qos_specs: dict[str, str] = field(default_factory=dict)
    zone: str | None = None
    hints: dict[str, Any] = field(default_factory=dict)
    attempted: list[str] = field(default_factory=list)

    @property
    def takes(self) -> int:
        """The GiB that a pool would take on."""
        return self.new_size - self.size if self.new_size else self.size


@dataclass(frozen=True, slots=True)
class Case:
    """One question to both: ``plugin`` is the name of a filter here, or ``weighers``, which have multipliers."""

    plugin: str
    request: Wish
    pools: list[PoolCase]
    calculation: str = STANDARD
    ratio: float | str = 20.0
    weighers: dict[str, float] = field(default_factory=dict)
