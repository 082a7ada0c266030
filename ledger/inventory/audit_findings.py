# SPDX-License-Identifier: Apache-2.0
"""Findings of the audit of drivers: breaches of the report format, stored so that all schedulers and commands see them.

A row exists for as long as the breach does. Most installations have none.
"""

import datetime
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.models.free_text import storable_text

#: Longest stored pool name (a longer name is invalid) and longest stored text, in characters.
_MAX_NAME_LENGTH = 255
_MAX_TEXT_LENGTH = 1000

#: Largest rounding error, in GiB, of a figure with two decimals and of a sum of listed sizes.
_PRECISION_GB = 0.011

#: The name of a pool within its backend, and the broken rule.
Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a breach. ``once`` is the tick of its listing while only one listing has shown it, else None."""

    text: str
    once: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFinding:
    """A breach. ``backend`` is the full name, ``pool`` the name within it; the figures are from ``seen_at``."""

    backend: str
    pool: str
    breach: str
    evidence: Evidence
    seen_at: datetime.datetime

    @property
    def key(self) -> Key:
        """The key that identifies the breach within its backend."""
        return self.pool, self.breach


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """The changes of the stored findings: breaches that are now certain, and certain breaches that have ended."""

    new: Collection[Key]
    mended: Collection[Key]


def stored_name(pool: str) -> str:
    """Return the name of a pool as it is stored here; a driver may report any text."""
    return storable_text(pool if pool.isprintable() else ascii(pool))[:_MAX_NAME_LENGTH]


def load(session: orm.Session, backend: str | None = None) -> list[RecordedFinding]:
    """Return all breaches, or those of one backend, in the order of their names; uncertain breaches are included."""
    table, owner = models.Finding, models.Backend
    statement = sa.select(table, owner.name).join(owner, owner.id == table.backend_id)
    if backend is not None:
        statement = statement.where(owner.name == backend)
    return [
        RecordedFinding(
            backend=name,
            pool=row.pool,
            breach=row.breach,
            evidence=Evidence(row.text, row.once_seq),
            seen_at=row.seen_at,
        )
        for row, name in session.execute(statement.order_by(owner.name, table.pool, table.breach))
    ]


def version(session: orm.Session) -> tuple[object, ...]:
    """Return a value that changes whenever the stored findings may have changed."""
    table = models.Finding
    return tuple(session.execute(sa.select(sa.func.count(), sa.func.max(table.id), sa.func.max(table.seen_at))).one())


def store(
    session: orm.Session, backend_id: int, findings: Mapping[Key, Evidence], judged: Callable[[Key], bool]
) -> FindingChanges:
    """Store the findings about a backend, and delete the breaches that ``findings`` lacks and that were ``judged``.

    A breach that was certain already keeps its text.
    """
    table = models.Finding
    rows = session.execute(
        sa.select(table.id, table.pool, table.breach, table.once_seq).where(table.backend_id == backend_id)
    )
    rows_by_key = {(row.pool, row.breach): row for row in rows}
    ended = [key for key in rows_by_key if key not in findings and judged(key)]
    for chunk in dialects.in_chunks(rows_by_key[key].id for key in ended):
        session.execute(sa.delete(table).where(table.id.in_(chunk)).execution_options(synchronize_session=False))
    certain = [key for key in findings if findings[key].once is None]
    confirmed = sorted(key for key in certain if key in rows_by_key and rows_by_key[key].once_seq is not None)
    if confirmed:
        texts = [{"of": rows_by_key[key].id, "said": _text(findings[key])} for key in confirmed]
        session.connection().execute(_CONFIRM, texts)
    added = sorted(key for key in findings if key not in rows_by_key)
    if added:
        session.connection().execute(
            sa.insert(_TABLE).values(seen_at=models.utcnow()),
            [
                {
                    "backend_id": backend_id,
                    "pool": pool,
                    "breach": breach,
                    "text": _text(findings[pool, breach]),
                    "once_seq": findings[pool, breach].once,
                }
                for pool, breach in added
            ],
        )
    new = [key for key in added if findings[key].once is None]
    return FindingChanges([*confirmed, *new], [key for key in ended if rows_by_key[key].once_seq is None])


def _text(evidence: Evidence) -> str:
    return evidence.text[:_MAX_TEXT_LENGTH]


_TABLE = models.table(models.Finding)
_CONFIRM = (
    sa.update(_TABLE)
    .where(_TABLE.c.id == sa.bindparam("of"))
    .values(text=sa.bindparam("said"), once_seq=None, seen_at=models.utcnow())
)


def doubtful(session: orm.Session, backend_ids: Collection[int]) -> set[int]:
    """Return the backends with a pool whose reported provisioned capacity differs from the expected one.

    The least expected capacity is the sum of the claims that the last report contains, plus the external capacity of
    the last listing. Where nothing is in flight and no other backend has volumes on the storage, it is also the largest
    expected capacity. The difference often has a good reason: only another listing can tell.
    """
    pool = models.Pool
    provisioned = pool.provisioned_capacity_gb
    contained_claims = (
        pool.allocated_capacity_gb + pool.shared_allocated_gb - pool.in_flight_gb - pool.shared_in_flight_gb
    )
    not_shared = sa.or_(pool.storage_id.is_(None), pool.storage_free_gb.is_not(None))
    expected_most = pool.allocated_capacity_gb + pool.external_gb
    statement = sa.select(pool.backend_id).where(
        pool.present.is_(True),
        sa.or_(
            provisioned < contained_claims + pool.external_gb - _PRECISION_GB,
            sa.and_(not_shared, pool.in_flight_gb == 0, provisioned > expected_most + _PRECISION_GB),
        ),
    )
    backends: set[int] = set()
    for chunk in dialects.in_chunks(backend_ids):
        backends.update(session.scalars(statement.where(pool.backend_id.in_(chunk)).distinct()))
    return backends
