# SPDX-License-Identifier: Apache-2.0
"""The types of the messages between the processes.

Sizes are GiB. :mod:`tonnage.rpc.serialization` converts messages to plain builtins and back, and checks their types.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.capacity.request import Provisioning
from tonnage.capacity.volume_request import CreateVolume as CreateVolume
from tonnage.capacity.volume_request import KeyedRequest as KeyedRequest
from tonnage.capacity.volume_request import ManageVolume as ManageVolume


class Verb(enum.StrEnum):
    """The operation of a command."""

    CREATE = "create"
    EXTEND = "extend"
    DELETE = "delete"
    #: Create a copy of a volume that is in another pool, with its content. The original stays until it is deleted.
    MIGRATE = "migrate"
    #: Adopt a volume that is on the storage already.
    MANAGE = "manage"
    #: Delete a surplus copy; the volume itself is in another pool, or was never placed.
    PURGE = "purge"


# Agent to scheduler


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """A process that runs a backend. ``lock`` stands for the lock file that it holds, ``name`` is ``pid@machine``.

    At most one process at a time holds a lock. ``nonce`` is the text of all this in a :class:`Hello`.
    """

    lock: str
    random: str
    name: str

    @classmethod
    def from_nonce(cls, nonce: str) -> "AgentProcess | None":
        """Return the process of a nonce, None for a text of another form."""
        parts = nonce.split("/", 2)
        return cls(*parts) if len(parts) == 3 else None

    @property
    def nonce(self) -> str:
        """The text, of at most 64 characters."""
        return f"{self.lock}/{self.random}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """An agent process introduces a backend. ``nonce`` is that of an :class:`AgentProcess`, and identifies its epoch.

    ``ledger_marks`` has the mark of the storage of each pool whose storage can be marked, an empty text without one.
    """

    backend: str
    nonce: str
    availability_zone: str
    driver: str
    ledger_marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The answer to a hello: the epoch in which the agent counts its ticks from now on.

    ``shared_storages`` are the ids of the storages that the backend shares with others according to the ledger.
    ``ledger_id`` is the id of that ledger, with which the marks of the storage begin.
    """

    epoch: int
    ledger_id: str = ""
    shared_storages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVolume:
    """A volume on the storage. ``pool`` is the pool's name within its backend."""

    volume_id: str
    pool: str
    size_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSnapshot:
    """The figures of a pool that the driver reported while it listed the volumes, and the sums of their sizes.

    ``figures`` are the reported figures that can be compared. ``least_gb`` is the sum of the volumes that were there
    all the time, ``all_gb`` that of all volumes; None if the listing may be of another moment than the figures.
    """

    figures: dict[str, Any]
    least_gb: float
    all_gb: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All volumes on a backend; ``tick`` was taken after the driver had listed them.

    ``in_hand`` are the claims whose operations were queued or running meanwhile. ``audit_snapshots`` are those of the
    pools whose figures were taken together with the listing. The first listing of an epoch also has ``ledger_marks``,
    by pool, or the ``unmarked_pools`` of a driver that cannot mark their storage: it has to show that the storage is
    the right one.
    """

    backend: str
    epoch: int
    tick: int
    volumes: list[ListedVolume]
    in_hand: list[str] = field(default_factory=list)
    audit_snapshots: list[AuditSnapshot] = field(default_factory=list)
    ledger_marks: dict[str, str] = field(default_factory=dict)
    unmarked_pools: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a command. ``end_tick`` was taken after its end.

    ``size_gb`` is the size of the volume now (0: it does not exist). ``clean`` means, for a failure, that the driver
    has verified that nothing was left behind. ``unknown``: the storage has not told the outcome, so the claim stays
    pending; the agent repeats the operation and sends another outcome when it knows it.
    """

    backend: str
    epoch: int
    claim_id: str
    ok: bool
    end_tick: int
    size_gb: float = 0.0
    clean: bool = False
    message: str = ""
    unknown: bool = False


#: The numbers of an agent's reports are multiples of this one. A scheduler that applies a report in parts gives each
#: further part the next number.
REPORT_STEP = 1024

#: Most pools of one backend. A scheduler would be busy with one report of more for minutes.
MOST_POOLS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    """The figures of a backend's pools at one moment.

    ``seq`` is the number of the report within the epoch, a multiple of :data:`REPORT_STEP`.
    ``covers`` is the tick that was taken before the driver collected the figures: they contain each operation that
    ended at a lower tick. ``ended`` are outcomes that may not have arrived yet: without them, the volumes would count
    as provisioned and as in flight. ``pools`` are mappings as drivers report them; the scheduler validates them.
    ``in_hand`` are the claims whose commands are queued or running. ``age`` is how many seconds ago the driver began to
    collect the figures. ``stamps`` are the stamps of shared storages, by ``storage_id``, that were taken before that:
    agents of different backends share no ticks. ``supports_auto_ratio`` is declared by the driver, None if the agent
    does not send it.
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


class NoticeCode(enum.StrEnum):
    """The reason why an agent sends no report."""

    #: It stops.
    STOPPED = "stopped"
    #: It runs, and serves the backend no more, which its configuration does not enable.
    WITHDRAWN = "withdrawn"
    #: It runs, but cannot use the storage.
    FAILING = "failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An agent sends no report of a backend, and tells why.

    ``seq`` is taken from the same numbers as those of reports. ``text`` is the error, empty for a plain stop
    and a withdrawal.
    """

    backend: str
    epoch: int
    seq: int
    code: NoticeCode
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Outcomes of one backend; the answer is a receipt for each, in their order."""

    outcomes: list[Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class StampQuery:
    """A request for stamps of storages before a report; the answer is a mapping of storage_id to stamp."""

    backend: str
    storage_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to an outcome or a listing. Not accepted: the epoch is over, another process runs the backend."""

    accepted: bool


# Scheduler to agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a volume's content: a volume in a pool, which has its full name here.

    ``location`` is the ``location_info`` that this pool reports; a driver decides by it whether it can reach the
    source.
    """

    volume_id: str
    pool: str
    size_gb: int
    location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One operation on one volume. ``size_gb`` is the absolute size of the volume after it.

    The scheduler decided with ``ratio`` and ``calculation``; the driver's own check uses the same. ``source`` is given
    for a migrate and for the create of a clone; ``reference``, for a manage, is the name of the volume on the storage
    (its size is not known before: ``size_gb`` is 0, and the outcome has the size). ``sent_before`` tells that the
    command may have been sent before, and that an earlier process of the agent may have run it.
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
    sent_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Commands for one backend, in their order. The agent checks each :class:`Command` by itself."""

    commands: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStorages:
    """Storages that a backend shares with others. From now on it takes stamps of them before each report."""

    storage_ids: list[str]


# API and others to scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGroup(KeyedRequest):
    """A request for several new volumes, all of them or none.

    The hints ``same_host`` and ``different_host`` may name volumes of the group itself.
    """

    volumes: list[CreateVolume]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendVolume(KeyedRequest):
    """A request to grow a volume to ``new_size_gb``."""

    volume_id: str
    new_size_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVolume(KeyedRequest):
    """A request to delete a volume."""

    volume_id: str


class MigrationPolicy(enum.StrEnum):
    """The permission of a retype to move the volume."""

    NEVER = "never"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetypeVolume(KeyedRequest):
    """A request to give a volume another type, where it is or, if the policy allows, in another pool."""

    volume_id: str
    volume_type: str
    migration_policy: MigrationPolicy = MigrationPolicy.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateVolume(KeyedRequest):
    """A request to move a volume.

    ``destination`` is a backend ``host@backend`` or a pool ``host@backend#pool``; None allows any other pool.
    """

    volume_id: str
    destination: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmanageVolume(KeyedRequest):
    """A request to remove a volume from the ledger and leave it on the storage."""

    volume_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBackends:
    """A request for listings of all volumes on these backends."""

    backends: list[str]


class BackendState(enum.StrEnum):
    """The administrative state of a backend."""

    #: Volumes are placed on it.
    ENABLED = "enabled"
    #: No volume is placed on it, and none grows; its volumes stay.
    DISABLED = "disabled"
    #: The same, and its volumes are moved away.
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBackendState:
    """A request to enable, disable or drain a backend ``host@backend``."""

    backend: str
    state: BackendState
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBatch:
    """Independent requests in one message; the answer is a list with the answer to each.

    They are each a :class:`CreateVolume`, :class:`ExtendVolume` or :class:`DeleteVolume`, which the scheduler checks by
    itself: a malformed request has no effect on the others.
    """

    creates: list[Any] = field(default_factory=list)
    extends: list[Any] = field(default_factory=list)
    deletes: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRequest:
    """One request of a simulation: exactly one of these."""

    create: CreateVolume | None = None
    group: CreateGroup | None = None
    extend: ExtendVolume | None = None
    migrate: MigrateVolume | None = None
    retype: RetypeVolume | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A simulation of requests that are decided one after another, each with the capacity that the ones before it left.

    With ``apart`` the requests are alternatives that do not affect each other, for example the same volumes on several
    nodes. ``changes`` are hypothetical changes of the pools. Without ``detail`` the explanations have no verdicts of
    pools, of which there is one for each pool and request.
    """

    requests: list[SimulatedRequest]
    changes: Changes = field(default_factory=Changes)
    detail: bool = True
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """The simulated decision on one request: an explanation for each of its volumes, or that of a refusal.

    ``unchanged`` is the same without the hypothetical changes and without verdicts of pools; empty if there were none.
    """

    volumes: list[Explanation]
    unchanged: list[Explanation] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The decision on a create, extend, migrate or retype: a pool or a refusal."""

    volume_id: str
    pool: str | None = None
    provisioning: Provisioning | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """The decision on a group: an answer for each volume in the order of the request, or one refusal for all."""

    volumes: list[Answer] = field(default_factory=list)
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQuery:
    """The selection of pools for get_pools. ``capabilities`` are compared as strings with the reported ones."""

    name: str | None = None
    volume_type: str | None = None
    capabilities: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """One pool as get_pools shows it: its reported and computed capabilities, and its capacity factors.

    Both are plain mappings; unknown and infinite capacities are the strings ``unknown`` and ``infinite``.
    """

    name: str
    capabilities: dict[str, Any]
    capacity_factors: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolListQuery(PoolQuery):
    """A selection of pools, and the fields of each: its name alone, with ``detail`` its capabilities too, with
    ``factors`` its capacity factors and the capabilities that Cinder does not have as well.

    With a ``limit`` at most so many pools are selected, by name, those after the name ``marker``.
    """

    detail: bool = False
    factors: bool = False
    limit: int | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolListText:
    """Pools as JSON of the REST API, see :mod:`tonnage.rpc.clients.pool_list_text`."""

    text: str
    last_report: str = ""
