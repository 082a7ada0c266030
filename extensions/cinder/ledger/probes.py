# SPDX-License-Identifier: Apache-2.0
"""Probes of observed backends, and their reports.

No agent counts ticks for an observed backend, so the ledger numbers the probes: requests for a report, each with a
number of its own that the report repeats. A number is allocated, and committed, before its probe is sent. So a report
with the number *n* comes from a look that began after every claim with a lower number of its end had ended.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.inventory import backends, reports

#: The nonce of all observed backends: their epoch is that of no process, and grows only when a ledger is restored.
_NONCE = "observed"


@dataclass(frozen=True, slots=True)
class Probe:
    """The number of a probe, with the epoch of its backend."""

    backend: str
    epoch: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedReport:
    """The report of an observed backend that answers a probe; it has the figures of all of the backend's pools.

    Pools whose figures cannot be used are not among ``figures``. ``lag`` is the number of earlier probes whose figures
    the storage may still report.
    """

    probe: Probe
    figures: Sequence[reports.PoolFigures]
    lag: int = 0


def observe(session: orm.Session, name: str, zone: str, system: str) -> int:
    """Return the id of an observed backend, whose row is inserted if it is new. ``system`` names the other system."""
    row = backends.hello(session, name, _NONCE, zone, system).row
    session.execute(
        sa.update(models.Backend)
        .where(models.Backend.id == row.id, models.Backend.observed.is_(False))
        .values(observed=True)
        .execution_options(synchronize_session=False)
    )
    return row.id


def due(session: orm.Session, interval: float) -> list[str]:
    """Return the observed backends that need a probe and had none for ``interval`` seconds.

    A backend needs one if it has never reported, or if a claim that has ended waits to be contained.
    """
    backend, claim = models.Backend, models.Claim
    waits = sa.exists().where(claim.backend_id == backend.id, claim.contained.is_(False), claim.end_tick.is_not(None))
    rows = session.execute(
        sa.select(backend.name, backend.probed_at, models.utcnow())
        .where(backend.observed.is_(True), sa.or_(backend.report_seq == 0, waits))
        .order_by(backend.name)
    )
    return [name for name, at, now in rows if at is None or _is_over(at, now, interval)]


def next_probe(session: orm.Session, name: str, interval: float) -> Probe | None:
    """Allocate the number of the next probe of a backend; None if another scheduler has just probed it.

    The probe must be sent after the commit of this transaction.
    """
    backend = models.Backend
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    allocated = session.connection().execute(
        sa.update(models.table(backend))
        .where(
            backend.name == name,
            backend.observed.is_(True),
            sa.or_(backend.probed_at.is_(None), backend.probed_at <= now - datetime.timedelta(seconds=interval)),
        )
        .values(last_probe=backend.last_probe + 1, probed_at=now)
    )
    if not allocated.rowcount:
        return None
    row = session.execute(sa.select(backend.epoch, backend.last_probe).where(backend.name == name)).one()
    return Probe(name, row.epoch, int(row.last_probe))


def apply(session: orm.Session, report: ProbedReport) -> bool:
    """Apply a report that answers a probe; return whether it was applied: an outdated report is not.

    Pools that the report lacks are no longer present: nothing fits there until a report has usable figures of them.
    """
    backend, pool = models.Backend, models.Pool
    row = session.execute(
        sa.select(backend.id, backend.report_seq, backend.rules_generation, backend.last_probe)
        .where(backend.name == report.probe.backend, backend.observed.is_(True))
        .with_for_update()
    ).one_or_none()
    # A number that was never allocated comes from another ledger, of which this one is a copy.
    if row is None or report.probe.number > row.last_probe:
        return False
    ids_by_name = {
        pool_row.name: pool_row.id
        for pool_row in session.execute(sa.select(pool.name, pool.id).where(pool.backend_id == row.id))
    }
    reported = {figures.name for figures in report.figures}
    [applied] = reports.apply(
        session,
        [
            reports.Report(
                backend_id=row.id,
                epoch=report.probe.epoch,
                seq=report.probe.number,
                base=int(row.report_seq),
                covers=max(0, report.probe.number - report.lag),
                rules=int(row.rules_generation),
                figures=[figures._replace(id=ids_by_name.get(figures.name)) for figures in report.figures],
                vanished=[pool_id for name, pool_id in ids_by_name.items() if name not in reported],
            )
        ],
    )
    return applied is not None


def _is_over(since: datetime.datetime, now: datetime.datetime, interval: float) -> bool:
    return (now - since).total_seconds() >= interval
