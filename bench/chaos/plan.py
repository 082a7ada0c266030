# SPDX-License-Identifier: Apache-2.0
"""The plan of a run, which the seed determines before the start."""

import random
from dataclasses import dataclass

DATABASES = ("postgresql", "mariadb", "sqlite", "galera", "patroni")

THIN = "thin"
THICK = "thick"
BOTH = "both"

#: Sizes of volumes in GiB, small ones more often; and operations and volume types with their frequency.
_SIZES = (1, 1, 1, 2, 2, 3, 5, 8, 12, 20)
_VERBS = {"create": 46, "group": 8, "extend": 14, "delete": 22, "migrate": 6, "retype": 4}
_TYPES = {None: 40, THIN: 30, THICK: 30}
#: Average growth per request in GiB, and the share of it for which the pools have room.
_GROWTH_GB = 3.4
_ROOM = 0.35


@dataclass(frozen=True, slots=True)
class Timing:
    """Options in seconds. They are short, so that many leases end and many backends go down within minutes."""

    claim_lease: int = 2
    service_down_time: int = 5
    polling_interval: int = 1
    listing_interval: int = 5
    response_timeout: int = 4
    message_ttl: int = 15


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """One pool, with sizes in GiB. ``kind`` is the provisioning type of its volumes: thin, thick or both."""

    agent: int
    number: int
    kind: str
    size_gb: int
    ratio: float
    reserved_percentage: int

    @property
    def name(self) -> str:
        """The name within the backend."""
        return f"pool{self.number}"

    @property
    def thin_limit_gb(self) -> float:
        """The limit for the sum of thin volumes: ratio * total (calculation ``cinder``)."""
        return self.size_gb * self.ratio

    @property
    def thick_limit_gb(self) -> float:
        """The limit for the sum of thick volumes: total less the reserve, which is rounded down."""
        return self.size_gb - self.size_gb * self.reserved_percentage // 100

    def makes(self, kind: str) -> bool:
        """Return whether the pool accepts volumes of this provisioning type."""
        return self.kind in (kind, BOTH)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """The content of one request. For an extend ``size_gb`` is the growth.

    ``pick``, from 0 to 1, selects the volume. With ``twin`` the same request is sent twice at the same time.
    """

    number: int
    verb: str
    size_gb: int
    kind: str | None
    count: int
    pick: float
    twin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a run."""

    database: str
    brokers: int = 1
    schedulers: int
    agents: int
    pools: tuple[PoolPlan, ...]
    requests: int
    faults: int
    threads: int
    seed: int
    room_for: int | None
    timing: Timing = Timing()

    def wish(self, number: int) -> PlannedRequest:
        """Return the content of request ``number``, which depends only on the seed."""
        draw = random.Random(f"{self.seed} wish {number}")
        if self.room_for is not None:
            return PlannedRequest(number, "create", 1, None, 1, 0.0, draw.random() < 0.05)
        verb = draw.choices(list(_VERBS), list(_VERBS.values()))[0]
        kind = draw.choices(list(_TYPES), list(_TYPES.values()))[0]
        size = draw.choice(_SIZES) if verb != "extend" else draw.randint(1, 6)
        return PlannedRequest(number, verb, size, kind, draw.randint(2, 5), draw.random(), draw.random() < 0.04)

    def agent_pools(self, agent: int) -> list[PoolPlan]:
        """Return the pools of one agent."""
        return [pool for pool in self.pools if pool.agent == agent]


def draw_pools(seed: int, agents: int, count: int, requests: int) -> tuple[PoolPlan, ...]:
    """Return pools with room for about a third of the requested capacity, so that many requests are refused."""
    draw = random.Random(f"{seed} pools")
    each = max(25.0, requests * _GROWTH_GB * _ROOM / count)
    return tuple(_pool(draw, number, agents, each) for number in range(count))


def one_pool(room_gb: int) -> tuple[PoolPlan, ...]:
    """Return a single pool with room for exactly ``room_gb`` GiB of thin volumes."""
    return (PoolPlan(agent=0, number=0, kind=THIN, size_gb=room_gb, ratio=1.0, reserved_percentage=0),)


def _pool(draw: random.Random, number: int, agents: int, each: float) -> PoolPlan:
    kind = (THIN, THICK, BOTH)[number % 3]
    ratio = draw.choice((1.0, 1.5, 2.0)) if kind != THICK else 1.0
    room = each * draw.uniform(0.6, 1.4)
    return PoolPlan(
        agent=number // 3 % agents,
        number=number,
        kind=kind,
        size_gb=max(20, round(room / ratio)),
        ratio=ratio,
        reserved_percentage=draw.choice((0, 0, 5, 10)),
    )
