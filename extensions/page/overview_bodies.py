# SPDX-License-Identifier: Apache-2.0
"""Response bodies with overviews of the capacity, for the web page.

Capacities are GiB, or one of the words ``unknown`` and ``infinite``.
"""

from typing import TypeAlias

from msgspec import Struct

from tonnage.api.schemas.response_bodies import RecordedRefusal, RefusalCount

Capacity: TypeAlias = float | str


class PoolOverview(Struct, kw_only=True):
    """The figures of a pool.

    ``state`` is ``up``, ``down``, ``disabled`` or ``draining``, that of the backend, with its reason. The figures are
    ``stale`` if the backend is down or its last report had no usable figures of the pool; ``collected_at`` is the time
    at which the driver began to collect them. A pool with volumes that its backend no longer reports is ``down``, and
    nobody knows of what time its figures are.

    Physical: ``used_gb``, ``in_flight_physical_gb`` and ``reserved_gb`` are parts of ``total_gb``, and
    ``physical_left_gb`` is the rest, or less if the storage is shared. Promised: ``promised_gb`` contains
    ``in_flight_gb`` and is bounded by ``promise_limit_gb``, which is total times the over-subscription ratio (by the
    calculation of the installation) or, in a pool without thin volumes, total less the reserve. The percentages are
    relative to total less the reserve and to ``promise_limit_gb``; ``full_percent`` is the larger of both. An excess
    is the part above a bound. A headroom is null if the pool does not take such volumes. ``forecast`` is the forecast,
    in words, for the bound that is reached first, and ``full_in_days`` is its median, null if that is beyond the
    horizon; a full pool has the word ``full`` and 0.

    ``severity`` is ``over`` (a bound is exceeded), ``full`` (no volume of 1 GiB fits), ``near`` (more than 85 % of the
    physical or 90 % of the promised capacity are taken) or ``rest``; the other two severities are those of one bound.
    They are null for figures that are stale, unknown or infinite.
    """

    name: str
    backend: str
    availability_zone: str
    storage_id: str | None
    state: str
    state_reason: str | None
    stale: bool
    collected_at: str | None
    total_gb: Capacity
    free_gb: Capacity
    used_gb: Capacity
    in_flight_physical_gb: float
    reserved_gb: Capacity
    physical_left_gb: Capacity
    physical_excess_gb: Capacity
    promised_gb: Capacity
    in_flight_gb: float
    promise_limit_gb: Capacity
    promise_left_gb: Capacity
    promise_excess_gb: Capacity
    allocated_gb: float
    max_over_subscription_ratio: float
    headroom_thin_gb: Capacity | None
    headroom_thick_gb: Capacity | None
    physical_percent: float | None
    promised_percent: float | None
    full_percent: float | None
    severity: str | None
    physical_severity: str | None
    promised_severity: str | None
    forecast: str | None
    full_in_days: float | None


class PoolOverviews(Struct):
    """A page of pools. ``count`` is the number of pools on all pages."""

    pools: list[PoolOverview]
    count: int


class PoolFill(Struct, kw_only=True):
    """The selected pools by name, with ``full_percent``, ``severity`` and ``stale`` as in :class:`PoolOverview`."""

    names: list[str]
    full_percent: list[float | None]
    severity: list[str | None]
    stale: list[bool]


class SeverityCounts(Struct, kw_only=True):
    """The numbers of pools with each severity, see :class:`PoolOverview`."""

    over: int
    full: int
    near: int
    rest: int


class BackendOverview(Struct, kw_only=True):
    """A backend and the sums of its pools.

    ``state`` is ``up``, ``down``, ``disabled`` or ``draining``; ``reported_at`` is the time of the last report.
    ``state_reason`` of a drain has its progress. ``allocated_gb`` also counts the volumes in pools that the backend no
    longer reports.
    """

    name: str
    availability_zone: str
    state: str
    state_reason: str | None
    reported_at: str | None
    pools: int
    fullness: SeverityCounts
    allocated_gb: float
    in_flight_gb: float


class BackendOverviews(Struct):
    """All backends by name."""

    backends: list[BackendOverview]


class ProblemSubject(Struct, kw_only=True):
    """One subject of a problem: a backend, a pool, a volume or a refused request, with the reason.

    ``volume_id`` is the volume of a claim or of a request.
    """

    name: str
    text: str
    volume_id: str | None = None


class Problem(Struct, kw_only=True):
    """A problem that an operator has to look at.

    ``problem`` is ``ledger_unwritable`` (then ``backends_down`` is left out: no report can be recorded),
    ``backends_down``, ``backends_failing`` (up, but the agent has stopped or cannot report), ``pools_over_limit``,
    ``pools_full``, ``pools_absent`` (no longer reported, and with volumes), ``pools_stale``, ``drains_waiting``,
    ``claims_waiting`` (for longer than an hour), ``refusals`` (of the last 24 hours) or ``pools_full_soon`` (within 14
    days by the median of the forecast). ``subjects`` are the first of ``count``, and ``command`` shows all of them.
    """

    problem: str
    count: int
    subjects: list[ProblemSubject]
    command: str


class PhysicalSums(Struct, kw_only=True):
    """Sums of pools; a storage that several pools share counts once.

    ``excess_gb`` is the sum of the parts above the bounds of single pools; ``left_gb`` is the sum of the rooms of the
    others, and at most the rest of the storage for the parts of a storage.
    """

    total_gb: float
    used_gb: float
    in_flight_gb: float
    reserved_gb: float
    left_gb: float
    excess_gb: float


class PromisedSums(Struct, kw_only=True):
    """Sums of pools; ``promised_gb`` contains ``in_flight_gb``. The excess is as in :class:`PhysicalSums`."""

    promised_gb: float
    in_flight_gb: float
    limit_gb: float
    left_gb: float
    excess_gb: float


class LeftOut(Struct, kw_only=True):
    """The numbers of pools that the sums leave out, each under the first of these reasons."""

    stale: int
    disabled: int
    unknown: int


class BackendCounts(Struct, kw_only=True):
    """The number of backends, of those whose figures are current, and the time of the oldest of these figures."""

    total: int
    current: int
    oldest_collected_at: str | None


class CapacitySummary(Struct, kw_only=True):
    """The capacity of all pools whose figures are current and known and that take volumes.

    ``reasons`` are those of the health check; there are none while volumes can be created. ``problems`` has the worst
    first. ``fullness`` counts all pools with current figures.
    """

    reasons: list[str]
    problems: list[Problem]
    backends: BackendCounts
    pools: int
    fullness: SeverityCounts
    summed_pools: int
    physical: PhysicalSums
    promised: PromisedSums
    left_out: LeftOut


class PoolVolume(Struct, kw_only=True):
    """A volume in a pool."""

    id: str
    name: str | None
    project_id: str
    status: str
    size_gb: int
    volume_type: str | None
    provisioning: str | None
    created_at: str


class PoolClaim(Struct, kw_only=True):
    """An operation in progress and the capacity that it claims."""

    volume_id: str
    verb: str
    state: str
    size_gb: int
    physical_gb: int
    request_id: str
    created_at: str


class PoolFinding(Struct, kw_only=True):
    """A rule for reports that the pool breaks."""

    breach: str
    text: str
    seen_at: str


class PoolDetail(Struct, kw_only=True):
    """One pool: its largest volumes, its operations in progress, the findings about it, and pools on its storage."""

    pool: PoolOverview
    volumes: list[PoolVolume]
    volume_count: int
    claims: list[PoolClaim]
    findings: list[PoolFinding]
    sharing: list[str]


class TypeOverview(Struct, kw_only=True):
    """A volume type, with the number of its volumes and the sum of their sizes."""

    name: str
    is_public: bool
    volumes: int
    size_gb: int


class TypeOverviews(Struct):
    """All volume types."""

    types: list[TypeOverview]


class FilterRefusals(Struct, kw_only=True):
    """The number of pools that a filter refuses first, with the reason of one of them."""

    filter: str
    pools: int
    example: str
    reason: str


class TypeCapacity(Struct, kw_only=True):
    """The pools for a volume of 1 GiB of a type, as a decision would find them now.

    ``candidates`` of ``pools`` accept it. ``headroom_gb`` is the size of the largest volume that one of them accepts,
    null without candidates. ``refused`` are the reasons of the others.
    """

    name: str
    message: str
    pools: int
    candidates: int
    headroom_gb: Capacity | None
    refused: list[FilterRefusals]


class LedgerFinding(Struct, kw_only=True):
    """A difference that the consistency check finds, see ``tonnage drift``."""

    cause: str
    is_drift: bool
    where: str
    subject: str
    ledger_gb: float
    found_gb: float
    text: str
    is_mended_by_repair: bool


class ReportAudit(Struct, kw_only=True):
    """A definition of reports that a pool breaks, see ``tonnage-manage driver audit``."""

    backend: str
    pool: str
    breach: str
    text: str
    seen_at: str


class BackendListing(Struct, kw_only=True):
    """The times of the last report and of the last listing of a backend."""

    name: str
    reported_at: str | None
    listed_at: str | None


class LedgerOverview(Struct, kw_only=True):
    """The consistency of the ledger at ``checked_at``.

    ``findings`` has the first of ``finding_count`` differences, drift first.
    """

    checked_at: str
    pools: int
    drift_count: int
    finding_count: int
    findings: list[LedgerFinding]
    audits: list[ReportAudit]
    backends: list[BackendListing]


class RefusalOverview(Struct, kw_only=True):
    """The numbers of refusals by day and reason, and the last 50."""

    counts: list[RefusalCount]
    refusals: list[RecordedRefusal]
