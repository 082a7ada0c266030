# SPDX-License-Identifier: Apache-2.0
"""What travels between the processes, as typed values.

Sizes are GiB. :mod:`tonnage.rpc.serialization` turns these into plain builtins and back, checking types on the way in.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.hypothetical_pools import Changes
from tonnage.capacity.request import Provisioning


class Verb(enum.StrEnum):
    """What an agent is told to do."""

    CREATE = "create"
    EXTEND = "extend"
    DELETE = "delete"
    #: Make a volume that is somewhere else, and its content, here. Where it was goes on until told otherwise.
    MIGRATE = "migrate"
    #: Take over a volume that is on the storage already.
    MANAGE = "manage"
    #: Delete a copy that nobody wants any more; the volume itself is elsewhere, or was never wanted.
    PURGE = "purge"


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
    """The answer to a hello: the epoch in which the agent counts its ticks from now on.

    ``shared_storages`` are the ids of the storages that the backend shares with others, as far as the ledger knows.
    """

    epoch: int
    shared_storages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVolume:
    """A volume that the storage holds. ``pool`` is the pool's name within its backend."""

    volume_id: str
    pool: str
    size_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a driver reported of a pool while it listed the volumes, and what these add up to.

    ``figures`` are those of the report that can be compared. ``least_gb`` is what was there all the time, ``all_gb``
    the sum; None if the list may be of another moment than the figures.
    """

    figures: dict[str, Any]
    least_gb: float
    all_gb: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All volumes on a backend; ``tick`` was taken after the driver had looked.

    ``tallies`` are given of pools whose figures were taken with the list.
    """

    backend: str
    epoch: int
    tick: int
    volumes: list[ListedVolume]
    in_hand: list[str] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)


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
    seconds ago the driver began to look. ``stamps`` are those that were taken before the look of the
    storages, by their ``storage_id``, that pools draw on: agents of different backends share no ticks.
    ``supports_auto_ratio`` is what the driver declares, None from an agent that does not tell.
    """

    backend: str
    epoch: int
    seq: int
    covers: int
    pools: list[dict[str, Any]]
    ended: list[Outcome] = field(default_factory=list)
    in_hand: list[str] = field(default_factory=list)
    age: float = 0.0
    stamps: dict[str, int] = field(default_factory=dict)
    supports_auto_ratio: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Several outcomes of one backend; the answer is a receipt for each, in their order."""

    outcomes: list[Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class StampQuery:
    """Asks for stamps of storages before a look; the answer is a mapping of storage_id to stamp."""

    backend: str
    storage_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to an outcome or a listing. Not accepted: the epoch is over, another process runs the backend now."""

    accepted: bool


# Scheduler to agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the content of a volume comes from: a volume in a pool, by its full name.

    ``location`` is what that pool reports as ``location_info``, from which a driver tells whether it can reach it.
    """

    volume_id: str
    pool: str
    size_gb: int
    location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One operation on one volume. ``size_gb`` is the absolute size that the volume shall have.

    ``ratio`` and ``calculation`` are what the scheduler judged by; the driver's own check uses the same. ``source`` is
    given for a migrate and for the create of a clone; ``reference``, for a manage, is the name that the volume has on
    the storage (whose size is not known before: ``size_gb`` is 0, and the outcome tells it).
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
    source: Source | None = None
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Several commands for one backend, in this order."""

    commands: list[Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStorages:
    """Storages that a backend shares with others. From now on it takes stamps of them before each look."""

    storage_ids: list[str]


# API and others to scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVolume:
    """A request for a new volume. ``request_id`` is the idempotency key; ``volume_type`` is a type's id or name.

    With ``source_volume_id`` it is a clone of that volume, with ``group_id`` it is placed where that group is.
    """

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
    source_volume_id: str | None = None
    group_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGroup:
    """A request for several new volumes, all of them or none.

    ``request_id`` is the idempotency key of the whole. The hints ``same_host`` and ``different_host`` may name volumes
    of the group itself.
    """

    request_id: str
    volumes: list[CreateVolume]


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


class MigrationPolicy(enum.StrEnum):
    """Whether a retype may move the volume."""

    NEVER = "never"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetypeVolume:
    """A request to give a volume another type, where it is or, if the policy allows, in another pool."""

    request_id: str
    volume_id: str
    volume_type: str
    migration_policy: MigrationPolicy = MigrationPolicy.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateVolume:
    """A request to move a volume.

    ``destination`` is a backend ``host@backend`` or a pool ``host@backend#pool``; without one any other pool will do.
    """

    request_id: str
    volume_id: str
    destination: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManageVolume:
    """A request to take over what is on the storage as ``reference`` in a pool ``host@backend#pool``."""

    request_id: str
    volume_id: str
    pool: str
    reference: str
    project_id: str
    user_id: str = ""
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmanageVolume:
    """A request to forget a volume and leave it on the storage."""

    request_id: str
    volume_id: str


class BackendState(enum.StrEnum):
    """What may happen on a backend."""

    #: Volumes are placed there.
    ENABLED = "enabled"
    #: None is placed there, and none grows; what is there stays.
    DISABLED = "disabled"
    #: The same, and what is there is moved away.
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBackendState:
    """A request to enable, disable or drain a backend ``host@backend``."""

    backend: str
    state: BackendState
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Requests that arrived together, each for itself; the answer is a list of what each would be given."""

    creates: list[CreateVolume] = field(default_factory=list)
    extends: list[ExtendVolume] = field(default_factory=list)
    deletes: list[DeleteVolume] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that a question is about: one of these."""

    create: CreateVolume | None = None
    group: CreateGroup | None = None
    extend: ExtendVolume | None = None
    migrate: MigrateVolume | None = None
    retype: RetypeVolume | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Asks how requests would be decided one after another, each seeing what those before it took.

    Those that are ``apart`` are alternatives of which none sees another: the same volumes on several nodes, say.
    ``changes`` are what would be different. Without ``detail`` the explanations have no verdicts of pools, which may be
    long: one for each pool and request.
    """

    requests: list[Asked]
    changes: Changes = field(default_factory=Changes)
    detail: bool = True
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """How one request would be decided: an explanation for each of its volumes, or that of a refusal.

    ``unchanged`` is the same as things are, without verdicts of pools; empty where nothing was to be different.
    """

    volumes: list[Explanation]
    unchanged: list[Explanation] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The decision on a create, extend, migrate or retype: the pool, or why not."""

    volume_id: str
    pool: str | None = None
    provisioning: Provisioning | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """The decision on a group: an answer for each volume in the order asked for, or one refusal for all."""

    volumes: list[Answer] = field(default_factory=list)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledPoolQuery(PoolQuery):
    """The same, and what is shown of each pool: its name alone, with ``detail`` all that is known of it, with
    ``factors`` its capacity factors as well.
    """

    detail: bool = False
    factors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledPools:
    """Pools in the words of the REST API, see :mod:`tonnage.rpc.batching.pool_list_text`."""

    text: str
    heard: str = ""
