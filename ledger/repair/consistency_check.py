# SPDX-License-Identifier: Apache-2.0
"""A check of the ledger against itself and against the last listings of its backends.

The check reads one snapshot, so schedulers may go on: it sees each of their transactions completely or not at all.
Sizes are GiB.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import listings, names
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.repair import claim_check, counter_check, orphans

#: Precision of reported figures, in GiB.
_PRECISION_GB = 0.01


class Cause(enum.StrEnum):
    """The cause of a finding."""

    #: A counter of a pool differs from the sum of its claims.
    COUNTER = "counter"
    #: The counter of a backend differs from the sum of the claims on its pools.
    BACKEND_COUNTER = "backend_counter"
    #: A shared counter of a pool differs from the sum of claims of the other pools on its storage.
    SHARED_COUNTER = "shared_counter"
    #: A claim counts a volume that is missing or in another pool, and no pending operation will end it.
    LEAKED = "leaked_claim"
    #: The size in a volume's row differs from its claims.
    VOLUME_SIZE = "volume_size"
    #: A volume is in a pool without a claim.
    UNCLAIMED = "unclaimed_volume"
    #: A volume is in a transitional state without a pending claim.
    STUCK = "stuck_volume"
    #: The last listings show a volume in another pool than the ledger.
    MISPLACED = "misplaced"
    #: The ledger counts a volume that the last listing did not show.
    LOST = "lost"
    #: The last listing of a pool showed more orphans with the name of a volume than volumes.
    UNKNOWN = "unknown_volumes"
    #: The last listing showed a volume with another size.
    SIZE = "size"
    #: The last listing showed a copy that no claim names.
    ORPHAN = "orphan"
    #: Claims that the pool's figures do not contain yet: a later report will.
    IN_FLIGHT = "in_flight"
    #: The pool's figures contain more than the claims on it.
    EXTERNAL = "external"
    #: The pool's figures contain less than the claims on it, and no pending operation explains that.
    MISSING = "missing"


#: Causes that compare a counter with a sum of claims.
COUNTERS = frozenset({Cause.COUNTER, Cause.BACKEND_COUNTER, Cause.SHARED_COUNTER})

#: Causes that mean that the ledger is wrong, or that data is missing. An orphan counts as external capacity; it and the
#: other causes only explain figures.
DRIFT = COUNTERS | {
    Cause.LEAKED,
    Cause.VOLUME_SIZE,
    Cause.UNCLAIMED,
    Cause.STUCK,
    Cause.MISPLACED,
    Cause.LOST,
    Cause.UNKNOWN,
    Cause.SIZE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference.

    ``where`` is a pool or, for the counter of a backend, a backend. ``subject`` is a column, or a volume's id or name.
    ``ledger_gb`` is the value in the ledger, ``found_gb`` the correct or real value. ``mended`` is True if a repair
    corrects it.
    """

    cause: Cause
    where: str
    subject: str
    ledger_gb: float
    found_gb: float
    text: str
    mended: bool = False

    @property
    def drift(self) -> bool:
        """Whether the finding is an error, and not just an explanation."""
        return self.cause in DRIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAge:
    """The seconds since a backend's last report and its last listing; None if there was none."""

    name: str
    reported: float | None
    listed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The findings of a check, drift first, and the ages of the reports and listings that it relies on."""

    pools: int
    findings: Sequence[Finding]
    backends: Sequence[BackendAge]

    @property
    def drift(self) -> list[Finding]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding.drift]


@dataclass(frozen=True, slots=True)
class _Scope:
    """The pools to check, and the rows of all pools and backends."""

    pools: Mapping[int, counter_check.PoolSums]
    pool_ids: frozenset[int]
    backends: Sequence[models.Backend]
    #: The discrepancies of the last listings, by pool and name.
    listed: Mapping[listings.Location, models.Discrepancy]

    def name(self, pool_id: int) -> str:
        return self.pools[pool_id].name

    def has_listed(self, pool_id: int) -> bool:
        backend_id = self.pools[pool_id].backend_id
        return any(row.id == backend_id and row.last_listing_at is not None for row in self.backends)


def check(database: Database, *, pool: str | None = None, backend: str | None = None) -> Checked:
    """Check the whole ledger, one backend ``host@backend`` or one pool ``host@backend#pool``.

    Raises :class:`~tonnage.capacity.errors.NotFound` for a name that the ledger does not know.
    """
    with database.reading(snapshot=True) as session:
        return check_in(session, pool=pool, backend=backend)


def check_in(session: orm.Session, *, pool: str | None = None, backend: str | None = None) -> Checked:
    """Check in a session whose statements all see the same state of the database."""
    rows = session.execute(sa.select(models.Backend, models.utcnow()).order_by(models.Backend.name)).all()
    pools = counter_check.load(session)
    scope = _Scope(pools, _pools_in_scope(session, pools, pool, backend), [row for row, _ in rows], _listed(session))
    if backend is not None and all(row.name != backend for row in scope.backends):
        raise names.missing_backend(session, backend)
    findings = [
        *_counters(session, scope),
        *_backend_counters(scope, pool, backend),
        *_volumes(session, scope, whole=pool is None and backend is None),
        *_leaks(session, scope),
        *_listings(session, scope),
        *_unknown_pools(session, scope),
        *_explanations(scope),
    ]
    order = list(Cause)
    findings.sort(key=lambda finding: (not finding.drift, order.index(finding.cause), finding.where, finding.subject))
    backend_ids = {scope.pools[pool_id].backend_id for pool_id in scope.pool_ids}
    return Checked(
        pools=len(scope.pool_ids),
        findings=findings,
        backends=[
            BackendAge(
                name=row.name, reported=models.age(now, row.last_report_at), listed=models.age(now, row.last_listing_at)
            )
            for row, now in rows
            if row.id in backend_ids or row.name == backend
        ],
    )


def _pools_in_scope(
    session: orm.Session, pools: Mapping[int, counter_check.PoolSums], pool: str | None, backend: str | None
) -> frozenset[int]:
    if pool is not None and all(row.name != pool for row in pools.values()):
        raise names.missing_pool(session, pool)
    return frozenset(
        row.id
        for row in pools.values()
        if (pool is None or row.name == pool) and (backend is None or row.backend == backend)
    )


def _listed(session: orm.Session) -> dict[listings.Location, models.Discrepancy]:
    return {(row.pool_id, row.volume_id): row for row in session.scalars(sa.select(models.Discrepancy))}


def _counters(session: orm.Session, scope: _Scope) -> Iterator[Finding]:
    shared = counter_check.shared(session, scope.pools)
    for pool_id in sorted(scope.pool_ids):
        row = scope.pools[pool_id]
        expected = {**row.claimed, **shared.get(pool_id, counter_check.NOTHING_SHARED)}
        for column, total in expected.items():
            if row.counters[column] != total:
                yield Finding(
                    cause=Cause.SHARED_COUNTER if column in counter_check.SHARED else Cause.COUNTER,
                    where=row.name,
                    subject=column,
                    ledger_gb=row.counters[column],
                    found_gb=total,
                    text=f"the claims add up to {total}",
                    mended=True,
                )


def _backend_counters(scope: _Scope, pool: str | None, backend: str | None) -> Iterator[Finding]:
    if pool is not None:
        return
    sums: dict[int, int] = {}
    for row in scope.pools.values():
        # The correct counters of the pools, not the stored ones.
        sums[row.backend_id] = sums.get(row.backend_id, 0) + row.claimed[counter_check.ALLOCATED]
    for backend_row in scope.backends:
        total = sums.get(backend_row.id, 0)
        if backend in (None, backend_row.name) and backend_row.allocated_capacity_gb != total:
            yield Finding(
                cause=Cause.BACKEND_COUNTER,
                where=backend_row.name,
                subject=counter_check.ALLOCATED,
                ledger_gb=backend_row.allocated_capacity_gb,
                found_gb=total,
                text=f"the claims on its pools add up to {total}",
                mended=True,
            )


def _volumes(session: orm.Session, scope: _Scope, *, whole: bool) -> Iterator[Finding]:
    for row in claim_check.odd_volumes(session):
        if row.pool_id not in scope.pool_ids if row.pool_id is not None else not whole:
            continue
        where = "" if row.pool_id is None else scope.name(row.pool_id)
        if row.pool_id is not None and row.counted and row.claimed_gb != row.size_gb:
            yield Finding(
                cause=Cause.VOLUME_SIZE,
                where=where,
                subject=row.id,
                ledger_gb=row.size_gb,
                found_gb=row.claimed_gb,
                text=f"the volume's row says {row.size_gb}, its claims {row.claimed_gb}",
                # Where no listing contradicts the claims they are right, as the counters are their sums.
                mended=row.settled and scope.has_listed(row.pool_id) and (row.pool_id, row.id) not in scope.listed,
            )
        elif row.pool_id is not None and not row.counted:
            yield Finding(
                cause=Cause.UNCLAIMED,
                where=where,
                subject=row.id,
                ledger_gb=row.size_gb,
                found_gb=0,
                text=f"the volume is {row.status} there, and no claim counts it",
            )
        if row.unexplained:
            yield Finding(
                cause=Cause.STUCK,
                where=where,
                subject=row.id,
                ledger_gb=row.size_gb,
                found_gb=row.claimed_gb,
                text=f"the volume is {row.status} and {row.unexplained}",
            )


def _leaks(session: orm.Session, scope: _Scope) -> Iterator[Finding]:
    for leak in claim_check.leaks(session):
        if leak.pool_id not in scope.pool_ids:
            continue
        discrepancy = scope.listed.get((leak.pool_id, leak.volume_id))
        lost = discrepancy is not None and discrepancy.category == listings.LOST
        yield Finding(
            cause=Cause.LEAKED,
            where=scope.name(leak.pool_id),
            subject=leak.volume_id,
            ledger_gb=leak.size_gb,
            found_gb=0,
            text=f"{leak.state} claim {leak.claim_id} ({leak.verb}) is of a volume that {leak.why}"
            + ("; it is not on the storage" if lost else ""),
            mended=lost and leak.state == pool_counters.CONFIRMED,
        )


def _listings(session: orm.Session, scope: _Scope) -> Iterator[Finding]:
    locations = {location for location in scope.listed if location[0] in scope.pool_ids}
    claims = claim_check.live_sizes(session, locations)
    named = claim_check.named(session, locations)
    misplaced = {volume.id: volume for volume in claim_check.misplaced(session)}
    grown = {volume.id for volume in claim_check.grown(session)}
    for copy_location in sorted(locations):
        row = scope.listed[copy_location]
        # The difference may have been resolved since: then the next listing will not have it any more.
        unchanged = claims.get(copy_location) == row.ledger_gb
        if row.category == listings.ORPHAN and copy_location not in named:
            owner = misplaced.get(row.volume_id)
            text = "it is on the storage, and no claim names it" + (
                "" if owner is None else f"; the ledger has this volume in {scope.name(owner.pool_id)}, where it is not"
            )
            yield _listing_finding(scope, row, Cause.ORPHAN, text)
        elif row.category == listings.LOST and unchanged and row.volume_id in misplaced:
            yield _misplaced(scope, misplaced[row.volume_id])
        elif row.category == listings.LOST and unchanged:
            yield _listing_finding(scope, row, Cause.LOST, "the ledger counts it, and it is not on the storage")
        elif row.category == listings.SIZE and unchanged:
            text = f"on the storage it has {row.listed_gb:g}"
            yield replace(_listing_finding(scope, row, Cause.SIZE, text), mended=row.volume_id in grown)


def _unknown_pools(session: orm.Session, scope: _Scope) -> Iterator[Finding]:
    for pool_id, unknown in orphans.unknown_pools(session).items():
        if pool_id in scope.pool_ids:
            yield Finding(
                cause=Cause.UNKNOWN,
                where=scope.name(pool_id),
                subject=f"{unknown.orphans} orphans",
                ledger_gb=0,
                found_gb=sum(
                    row.listed_gb
                    for row in scope.listed.values()
                    if row.pool_id == pool_id and row.category == listings.ORPHAN
                ),
                text=f"the ledger knows {unknown.volumes} volume(s) here: it may be older than the storage, or not the "
                "right one",
            )


def _misplaced(scope: _Scope, volume: claim_check.MisplacedVolume) -> Finding:
    pools = " and ".join(scope.name(pool_id) for pool_id in volume.listed_in)
    return Finding(
        cause=Cause.MISPLACED,
        where=scope.name(volume.pool_id),
        subject=volume.id,
        ledger_gb=volume.size_gb,
        found_gb=volume.listed_gb,
        text=f"it is in {pools}, not here",
        mended=volume.target_id is not None,
    )


def _listing_finding(scope: _Scope, row: models.Discrepancy, cause: Cause, text: str) -> Finding:
    return Finding(
        cause=cause,
        where=scope.name(row.pool_id),
        subject=row.volume_id,
        ledger_gb=row.ledger_gb,
        found_gb=row.listed_gb,
        text=text,
    )


def _explanations(scope: _Scope) -> Iterator[Finding]:
    for pool_id in sorted(scope.pool_ids):
        row = scope.pools[pool_id]
        allocated, in_flight = row.claimed[counter_check.ALLOCATED], row.claimed[counter_check.IN_FLIGHT]
        if in_flight or row.pending:
            oldest = f", the oldest {row.oldest:.0f} s old" if row.pending and row.oldest is not None else ""
            uncontained = f"; no report contains {in_flight} GiB yet" if in_flight else ""
            yield Finding(
                cause=Cause.IN_FLIGHT,
                where=row.name,
                subject=counter_check.IN_FLIGHT,
                ledger_gb=in_flight,
                found_gb=0,
                text=f"{row.pending} operation(s) under way{oldest}{uncontained}",
            )
        if row.provisioned is None or not row.present:
            continue
        difference = round(row.provisioned - row.contained, 2)
        if difference >= _PRECISION_GB:
            yield Finding(
                cause=Cause.EXTERNAL,
                where=row.name,
                subject="provisioned_capacity_gb",
                ledger_gb=allocated,
                found_gb=row.provisioned,
                text=f"the report has {difference:g} provisioned that are no claim's; listings show {row.external:g}",
            )
        elif difference <= -_PRECISION_GB and not row.pending:
            yield Finding(
                cause=Cause.MISSING,
                where=row.name,
                subject="provisioned_capacity_gb",
                ledger_gb=allocated,
                found_gb=row.provisioned,
                text=f"the report has {-difference:g} less provisioned than its claims say",
            )
