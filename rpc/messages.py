# SPDX-License-Identifier: Apache-2.0
"""What travels between the processes, as typed values.

Sizes are GiB. :mod:`tonnage.rpc.wire` turns these into plain builtins and back, checking types on the way in.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Refusal
from tonnage.capacity.request import Provisioning


class Verb(enum.StrEnum):
    """What an agent is told to do."""

    CREATE = "create"
    EXTEND = "extend"
    DELETE = "delete"


# Agent to scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """An agent process introduces a backend. ``nonce`` is drawn once per process: the same one is the same epoch."""

    backend: str
    nonce: str
    availability_zone: str
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The answer to a hello: the epoch in which the agent counts its ticks from now on."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVolume:
    """A volume that the storage holds. ``pool`` is the pool's name within its backend."""

    volume_id: str
    pool: str
    size_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All volumes on a backend; ``tick`` was taken after the driver had looked."""

    backend: str
    epoch: int
    tick: int
    volumes: list[ListedVolume]
    in_hand: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended. ``end_tick`` was taken after its end.

    ``size_gb`` is the size that the volume has now (0: it is not there). ``clean`` says of a failure that the driver
    made sure that nothing was left behind.
    """

    backend: str
    epoch: int
    claim_id: str
    ok: bool
    end_tick: int
    size_gb: float = 0.0
    clean: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    """The figures of a backend's pools at one moment.

    ``covers`` is the tick that was taken before the driver looked: everything that ended at a lower tick is contained
    in the figures. ``ended`` are outcomes that may not have arrived yet: without them, what they made would count as
    provisioned and, for want of the outcome, as in flight still. ``pools`` are mappings as drivers report them; they
    are validated by the scheduler. ``in_hand`` are the claims whose commands are queued or running. ``age`` is how many
    seconds ago the driver began to look.
    """

    backend: str
    epoch: int
    seq: int
    covers: int
    pools: list[dict[str, Any]]
    ended: list[Outcome] = field(default_factory=list)
    in_hand: list[str] = field(default_factory=list)
    age: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to an outcome or a listing. Not accepted: the epoch is over, another process runs the backend now."""

    accepted: bool


# Scheduler to agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One operation on one volume. ``size_gb`` is the absolute size that the volume shall have.

    ``ratio`` and ``calculation`` are what the scheduler judged by; the driver's own check uses the same.
    """

    claim_id: str
    epoch: int
    verb: Verb
    volume_id: str
    pool: str
    size_gb: int
    provisioning: Provisioning
    ratio: float
    calculation: Calculation
    request_id: str = ""


# API and others to scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVolume:
    """A request for a new volume. ``request_id`` is the idempotency key; ``volume_type`` is a type's id or name."""

    request_id: str
    volume_id: str
    size_gb: int
    project_id: str
    user_id: str = ""
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendVolume:
    """A request to grow a volume to ``new_size_gb``."""

    request_id: str
    volume_id: str
    new_size_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVolume:
    """A request to delete a volume."""

    request_id: str
    volume_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The decision on a create or extend: the pool, or why not."""

    volume_id: str
    pool: str | None = None
    provisioning: Provisioning | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQuery:
    """Which pools get_pools shows. ``capabilities`` are compared as strings with what the pools report."""

    name: str | None = None
    volume_type: str | None = None
    capabilities: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """One pool as get_pools shows it: all that is reported and kept of it, and its capacity factors.

    Both are plain mappings with unknown and infinite capacities as words.
    """

    name: str
    capabilities: dict[str, Any]
    capacity_factors: list[dict[str, Any]]
