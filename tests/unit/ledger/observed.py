# SPDX-License-Identifier: Apache-2.0
"""A real ledger with one observed backend, and the steps of its schedulers."""

import uuid
from collections.abc import Collection

import sqlalchemy as sa

from tests.unit.scheduler.ledgers import in_memory
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.ledger import observed_claims, probes
from tonnage.extensions.cinder.ledger.observed_claims import OpenClaim, SeenEnd, SeenVolume
from tonnage.ledger import models
from tonnage.ledger.claims import bookings
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import reports
from tonnage.ledger.models import claim_verbs

BACKEND = "real@b1"
POOL = f"{BACKEND}#a"


class Ledger:
    """The ledger. Pools are of 10 GiB, thin unless ``thick``, with ratio 1."""

    def __init__(self, *, thick: bool = False) -> None:
        self.database = Database(in_memory(self), max_retries=0)
        self.thick = thick
        self.database.run(probes.observe, BACKEND, "nova", "cinder")

    def probe(self, interval: float = 0.0) -> probes.Probe | None:
        """Allocate the number of a probe."""
        return self.database.run(probes.next_probe, BACKEND, interval)

    def report(
        self,
        number: int,
        provisioned: float | None = 0,
        *,
        free: float = 10,
        pools: Collection[str] = (POOL,),
        lag: int = 0,
        epoch: int = 1,
    ) -> bool:
        """Apply the report that answers a probe."""
        figures = [
            reports.PoolFigures(
                id=None,
                name=pool,
                total_gb=10,
                free_gb=free,
                provisioned_gb=provisioned,
                ratio=1.0,
                thin_limit_gb=10,
                physical_limit_gb=free if self.thick else None,
                storage_id=None,
                storage_free_gb=None,
                changes_decisions=False,
                stats={},
            )
            for pool in pools
        ]
        probe = probes.Probe(BACKEND, epoch, number)
        report = probes.ProbedReport(probe=probe, figures=figures, lag=lag)
        return self.database.run(probes.apply, report)

    def probe_and_report(self, provisioned: float | None = 0, **more: object) -> int:
        """Probe the backend, and apply the report at once."""
        probe = self.probe()
        assert probe is not None
        assert self.report(probe.number, provisioned, **more)  # type: ignore[arg-type]
        return probe.number

    def book(
        self, size: int, volume_id: str | None = None, occasion: str = "1", verb: str = claim_verbs.CREATE
    ) -> bookings.Booking:
        """Book a claim that is not sent."""
        with self.database.reading() as session:
            row = session.scalars(sa.select(models.Pool).where(models.Pool.name == POOL)).one()
        booking = bookings.Booking(
            id=str(uuid.uuid4()),
            request_id="req",
            volume_id=volume_id or str(uuid.uuid4()),
            verb=verb,
            pool_id=row.id,
            pool_name=POOL,
            backend_id=row.backend_id,
            generation=int(row.generation),
            size_gb=size,
            physical_gb=size if self.thick else 0,
            target_size_gb=size,
            provisioning=Provisioning.THICK if self.thick else Provisioning.THIN,
        )
        key = observed_claims.key(booking.volume_id, verb, occasion)
        self.database.run(observed_claims.book, booking, key)
        return booking

    def send(self, size: int) -> bookings.Booking:
        """Book a claim, and record it as sent."""
        booking = self.book(size)
        assert self.record_sent(booking.id)
        return booking

    def record_sent(self, claim_id: str) -> bool:
        """Record a claim as sent."""
        return self.database.run(observed_claims.record_sent, claim_id)

    def settle(self, *ends: SeenEnd, found: Collection[SeenVolume] = ()) -> None:
        """Record the ends and volumes that the rows show."""
        self.database.run(observed_claims.settle, list(ends), list(found))

    def open_claims(self) -> list[OpenClaim]:
        """Return the live claims of all volumes."""
        with self.database.reading() as session:
            return observed_claims.open_claims(session, observed_claims.volumes(session))

    def due(self, interval: float = 0.0) -> list[str]:
        """Return the backends that need a probe."""
        with self.database.reading() as session:
            return probes.due(session, interval)

    def counters(self, pool: str = POOL) -> tuple[int, int]:
        """Return allocated and in-flight capacity of a pool."""
        row = models.Pool
        with self.database.reading() as session:
            counted = sa.select(row.allocated_capacity_gb, row.in_flight_gb).where(row.name == pool)
            allocated, in_flight = session.execute(counted).one()
        return int(allocated), int(in_flight)
