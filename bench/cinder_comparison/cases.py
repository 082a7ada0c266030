# SPDX-License-Identifier: Apache-2.0
"""Cases of the differential test: a request, pools as drivers report them, and the existing volumes and instances."""

import uuid
from dataclasses import dataclass, field
from typing import Any

STANDARD, CINDER = "standard", "cinder"
WEIGHERS = "weighers"

ZONES = ["east", "west"]
PLACES = [f"h{host}@b{backend}#p{pool}" for host in (1, 2, 3) for backend in (1, 2) for pool in (1, 2, 3)]

_WITH_VOLUMES = [place for place in PLACES if not place.endswith("3")]

#: Existing volumes by id, with their pools. Some pools have no volume.
VOLUMES = {str(uuid.UUID(int=number, version=4)): _WITH_VOLUMES[number * 7 % 12] for number in range(30)}
NO_VOLUME = str(uuid.UUID(int=1000, version=4))

#: Volumes of another project than the request's, by id, with their pools.
FOREIGN = {str(uuid.UUID(int=1100 + number, version=4)): _WITH_VOLUMES[number] for number in range(3)}

#: Instances with their hosts, and an instance without a known host.
INSTANCES = {str(uuid.UUID(int=2000 + number, version=4)): f"h{number}" for number in (1, 2, 9)}
NO_INSTANCE = str(uuid.UUID(int=2100, version=4))


@dataclass(frozen=True, slots=True)
class PoolCase:
    """A pool: its driver's report, the allocated capacity in GiB at the report, and the sizes of later volumes."""

    name: str
    zone: str
    allocated: int
    report: dict[str, Any]
    placed: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CaseRequest:
    """A request. For the growth of a volume of ``size`` GiB ``new_size`` is the new size, for a new volume it is 0."""

    size: int
    new_size: int = 0
    extra_specs: dict[str, str] = field(default_factory=dict)
    qos_specs: dict[str, str] = field(default_factory=dict)
    zone: str | None = None
    hints: dict[str, Any] = field(default_factory=dict)
    attempted: list[str] = field(default_factory=list)

    @property
    def takes(self) -> int:
        """The GiB that the request adds to a pool."""
        return self.new_size - self.size if self.new_size else self.size


@dataclass(frozen=True, slots=True)
class Case:
    """A request and pools for both schedulers.

    ``plugin`` is the name of a filter in Tonnage, or ``weighers``. ``weighers`` maps their names to multipliers.
    """

    plugin: str
    request: CaseRequest
    pools: list[PoolCase]
    calculation: str = STANDARD
    ratio: float | str = 20.0
    weighers: dict[str, float] = field(default_factory=dict)
