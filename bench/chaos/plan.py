# SPDX-License-Identifier: Apache-2.0
"""What a run looks like: drawn from the seed before anything starts."""

import random
from dataclasses import dataclass

THIN = "thin"
THICK = "thick"
BOTH = "both"

#: Sizes of volumes in GiB, small ones more often; and what a request asks for.
_SIZES = (1, 1, 1, 2, 2, 3, 5, 8, 12, 20)
_VERBS = {"create": 46, "group": 8, "extend": 14, "delete": 22, "migrate": 6, "retype": 4}
_TYPES = {None: 40, THIN: 30, THICK: 30}
#: GiB that a request adds in the end, on average; and the share of that for which there is room.
_GROWTH_GB = 3.4
_ROOM = 0.35


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Short, so that a run of minutes sees many leases end and many backends counted as down."""

    claim_lease: int = 2
    service_down_time: int = 5
    polling_interval: int = 1
    listing_interval: int = 5
    response_timeout: int = 4
    message_ttl: int = 15


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """One pool, in GiB. ``kind`` is what volumes it makes."""

    agent: int
    number: int
    kind: str
    size_gb: int
    ratio: float
    reserved_percentage: int

    @property
    def name(self) -> str:
        """Its name within its backend."""
        return f"pool{self.number}"

    @property
    def thin_limit_gb(self) -> float:
        """What its thin volumes may come to: ratio * total (calculation ``cinder``)."""
        return self.size_gb * self.ratio

    @property
    def thick_limit_gb(self) -> float:
        """What its thick volumes may come to: total less the reserve, which is floored."""
        return self.size_gb - self.size_gb * self.reserved_percentage // 100

    def makes(self, kind: str) -> bool:
        """Tell whether it makes thin, or thick, volumes."""
        return self.kind in (kind, BOTH)


@dataclass(frozen=True, slots=True)
class Wish:
    """What one request is to ask for. For an extend ``size_gb`` is the growth; ``pick`` chooses the volume, 0 to 1.

    ``twin``: the same request is sent twice at the same time.
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
    """A run."""

    database: str
    schedulers: int
    agents: int
    pools: tuple[PoolPlan, ...]
    requests: int
    faults: int
    threads: int
    seed: int
    room_for: int | None
    timing: Timing = Timing()

    def wish(self, number: int) -> Wish:
        """Return what request ``number`` asks for: the same for the same seed, whoever sends it and when."""
        draw = random.Random(f"{self.seed} wish {number}")
        if self.room_for is not None:
            return Wish(number, "create", 1, None, 1, 0.0, draw.random() < 0.05)
        verb = draw.choices(list(_VERBS), list(_VERBS.values()))[0]
        kind = draw.choices(list(_TYPES), list(_TYPES.values()))[0]
        size = draw.choice(_SIZES) if verb != "extend" else draw.randint(1, 6)
        return Wish(number, verb, size, kind, draw.randint(2, 5), draw.random(), draw.random() < 0.04)

    def agent_pools(self, agent: int) -> list[PoolPlan]:
        """Return the pools of one agent."""
        return [pool for pool in self.pools if pool.agent == agent]


def draw_pools(seed: int, agents: int, count: int, requests: int) -> tuple[PoolPlan, ...]:
    """Return pools that together have room for about half of what is asked for, so that much is refused."""
    draw = random.Random(f"{seed} pools")
    each = max(25.0, requests * _GROWTH_GB * _ROOM / count)
    return tuple(_pool(draw, number, agents, each) for number in range(count))


def one_pool(room_gb: int) -> tuple[PoolPlan, ...]:
    """Return a single pool with room for exactly so many GiB of thin volumes."""
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
