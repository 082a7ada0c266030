# SPDX-License-Identifier: Apache-2.0
"""The ledger as the schedulers of a Cinder use it: pools, reports, probes and the poll of rows."""

import logging
import re
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.decision import AttemptsExceeded, Undecided
from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.cinder import releases
from tonnage.extensions.cinder.extension import EXTENSION
from tonnage.extensions.cinder.ledger import backend_problems, growths, observed_claims, probes
from tonnage.extensions.cinder.ledger.growths import Growth, Step
from tonnage.extensions.cinder.pools.ledger_pools import LedgerPools
from tonnage.extensions.cinder.scheduler import claim_ends
from tonnage.extensions.cinder.scheduler.claim_ends import VolumeRow
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals
from tonnage.ledger.claims import bookings, request_keys
from tonnage.ledger.db import database, schema
from tonnage.ledger.inventory import backends, reports
from tonnage.ledger.models import claim_verbs

LOG = logging.getLogger(__name__)

#: The option with the URL of the ledger.
_OPTION = "[tonnage] connection"

#: The name of the other system in the rows of backends.
_SYSTEM = "cinder"

#: The request id of a probe, which Cinder's report repeats.
_TOKEN = re.compile(r"req-tonnage-(\d+)-(\d+)")

#: Volumes that are settled in one transaction.
_CHUNK = 200

#: Connections beyond those that are kept open: Cinder decides in 64 threads.
_CONNECTIONS = 64

#: How often a transaction is tried again while the database is away, and the seconds between: users wait meanwhile.
_RETRIES, _PAUSE = 2, 1


def token(probe: probes.Probe) -> str:
    """Return the request id of a probe."""
    return f"req-tonnage-{probe.epoch}-{probe.number}"


def answered(backend: str, request_id: str | None) -> probes.Probe | None:
    """Return the probe that a report of a backend answers, by its request id; None if it answers none."""
    match = _TOKEN.fullmatch(request_id or "")
    return None if match is None else probes.Probe(backend, int(match[1]), int(match[2]))


def connect(options: cfg.ConfigOpts) -> "CinderLedger":
    """Return the ledger that the options of the group ``[tonnage]`` name.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a missing or unusable URL or an outdated schema,
    and for PostgreSQL on eventlet.
    """
    if not options.connection:
        raise errors.ConfigurationError(f"option {_OPTION} is not set: it takes the URL of the ledger")
    name = f"option {_OPTION}"
    if releases.runs_on_eventlet() and options.connection.startswith("postgresql"):
        # psycopg waits in C: the only thread would wait for a lock that another request has to release.
        raise errors.ConfigurationError(
            f"option {_OPTION} names PostgreSQL, which would stop a scheduler that runs on eventlet: take MariaDB for "
            "the ledger, or Cinder 29 on threads (OS_CINDER_DISABLE_EVENTLET_PATCHING=1)"
        )
    engine = database.create_engine(options.connection, name=name, max_overflow=_CONNECTIONS, pool_recycle=3600)
    schema.require_current(engine, {_SYSTEM: EXTENSION}, _OPTION)
    return CinderLedger(database.Database(engine, _RETRIES, _PAUSE, _PAUSE), options.claim_lease, options.figures_lag)


class CinderLedger:
    """The steps of schedulers on the ledger, for any thread. All raise ``Unavailable`` while the database is away.

    ``pools`` are the ledger's pools in memory.
    """

    def __init__(self, ledger: database.Database, lease: float, lag: int) -> None:
        self.database = ledger
        self.pools = LedgerPools(ledger)
        self._lease, self._lag = lease, lag
        #: This scheduler, as the owner of growths.
        self._owner = str(uuid.uuid4())
        self._backend_ids: dict[str, int] = {}
        self._lock = threading.Lock()

    def observe(self, backend: str) -> int:
        """Make a backend known to the ledger, and return its id."""
        with self._lock:
            if backend not in self._backend_ids:
                self._backend_ids[backend] = self.database.run_past_duplicates(probes.observe, backend, "", _SYSTEM)
            return self._backend_ids[backend]

    def report(self, probe: probes.Probe, figures: Sequence[reports.PoolFigures]) -> bool:
        """Apply the report that answers a probe; return False if another scheduler did, or a later one is applied."""
        answer = probes.ProbedReport(probe=probe, figures=figures, lag=self._lag)
        return self.database.run_past_duplicates(probes.apply, answer)

    def due(self, interval: float) -> list[str]:
        """Return the backends that need a probe."""
        with self.database.reading(patient=False) as session:
            return probes.due(session, interval)

    def next_probe(self, backend: str, interval: float) -> probes.Probe | None:
        """Allocate the number of a probe; None if another scheduler probes the backend."""
        return self.database.run(probes.next_probe, backend, interval)

    def record_problems(self, problems: Mapping[str, str | None]) -> None:
        """Record why Cinder does not use backends, None if it does, by the names of all of its backends."""
        with self.database.reading(patient=False) as session:
            changes = backend_problems.changes(session, problems)
        for change in changes:
            self.database.run(backend_problems.record, change)

    def refuse(self, refused: refusals.RefusedRequest, key: request_keys.Key | None = None) -> None:
        """Record a refusal for ``tonnage why``.

        Raises :class:`~tonnage.extensions.cinder.ledger.observed_claims.Repeated` if the request with the key was
        answered before.
        """

        def record(session: orm.Session) -> None:
            if key is not None:
                observed_claims.refuse(session, key)
            refusals.insert(session, [refused])

        self.database.run_past_duplicates(record)

    def book_growth(
        self, growth: Growth, in_place: bookings.Booking, moving: bookings.Booking, key: request_keys.Key
    ) -> bool:
        """Book a growth in the volume's own pool, or else in another one; return whether the volume moves.

        Raises the errors of :func:`tonnage.extensions.cinder.ledger.growths.book`.
        """
        return self.database.run(growths.book, growth, in_place, moving, key, self._owner)

    def growths(self) -> list[Growth]:
        """Return the growths whose next steps this scheduler takes."""
        with self.database.reading(patient=False) as session:
            if not growths.exist(session):
                return []
        return self.database.run(growths.take_over, self._owner, growths.LEASE)

    def renew(self, growth: Growth) -> bool:
        """Give a sign of life for a growth, and return whether this scheduler still owns it."""
        return self.database.run(growths.renew, growth, self._owner)

    def record(self, growth: Growth, step: Step, reason: str = "") -> Growth | None:
        """Record a step of a growth; return the growth with it, None if the step is not to be taken."""
        return self.database.run(growths.record, growth, self._owner, step, reason)

    def end(self, growth: Growth) -> None:
        """End a growth; for one that was undone ``tonnage why`` has the reason."""

        def end(session: orm.Session) -> None:
            if growths.end(session, growth, self._owner) and growth.reason:
                size = f"{growth.new_size_gb - growth.size_gb} GiB more by a move from {growth.source}"
                refused = refusals.RefusedRequest(
                    request_id=growth.request_id,
                    volume_id=growth.volume_id,
                    project_id=growth.project_id,
                    verb=claim_verbs.EXTEND,
                    refusal=AttemptsExceeded(size, (growth.target,), growth.reason),
                )
                refusals.insert(session, [refused])

        self.database.run(end)

    def probes(self, backend: str) -> tuple[int, int]:
        """Return the numbers of the last probe of a backend and of the last one that was answered."""
        row = models.Backend
        with self.database.reading(patient=False) as session:
            last, answered = session.execute(sa.select(row.last_probe, row.report_seq).where(row.name == backend)).one()
        return int(last), int(answered)

    def undecided(self, row: VolumeRow, verb: str, request: Undecided) -> None:
        """Record for ``tonnage why`` a request without a decision, once for all schedulers."""
        recorded = refusals.RefusedRequest(
            request_id="", volume_id=row.id, project_id=row.project_id, verb=verb, refusal=request
        )
        self.database.run(refusals.insert_once, recorded)

    def open_volumes(self) -> set[str]:
        """Return the volumes with a claim whose end was not seen."""
        with self.database.reading(patient=False) as session:
            return {claim.volume_id for claim in observed_claims.open_claims(session)}

    def claimed_volumes(self) -> set[str]:
        """Return the volumes with a live claim."""
        with self.database.reading(patient=False) as session:
            return observed_claims.volumes(session)

    def claims(self, volume_ids: Collection[str]) -> list[observed_claims.OpenClaim]:
        """Return the claims of volumes. Their rows have to be read afterwards."""
        with self.database.reading(patient=False) as session:
            return observed_claims.open_claims(session, volume_ids)

    def settle(
        self,
        claims: Sequence[observed_claims.OpenClaim],
        rows: Iterable[VolumeRow],
        snapshots_in_hand: Collection[str] = (),
    ) -> int:
        """Record the ends and volumes that rows show; return the number of changed volumes.

        ``claims`` were read before the rows. The volumes of a group change in one transaction: when the claim of the
        group ends, the claims of its volumes count.
        """
        rows = list(rows)
        together = {row.id: row.group_id or row.id for row in rows}
        settlement = claim_ends.judge(claims, rows, self._lease, snapshots_in_hand)
        pool_names = {volume.pool for volume in settlement.unclaimed if "#" in volume.pool}
        backend_ids = {name: self.observe(backend_of(name)) for name in pool_names}
        if backend_ids:
            self.database.run_past_duplicates(observed_claims.insert_pools, backend_ids)
        changed: dict[str, tuple[list[observed_claims.SeenEnd], list[observed_claims.SeenVolume]]] = {}
        of_claim = {claim.id: claim.volume_id for claim in claims}
        for end in settlement.ends:
            volume_id = of_claim[end.claim_id]
            changed.setdefault(together.get(volume_id, volume_id), ([], []))[0].append(end)
        for unclaimed in settlement.unclaimed:
            changed.setdefault(together[unclaimed.volume_id], ([], []))[1].append(unclaimed)
        volumes = list(changed.values())
        for start in range(0, len(volumes), _CHUNK):
            chunk = volumes[start : start + _CHUNK]
            chunk_ends = [end for volume_ends, _ in chunk for end in volume_ends]
            chunk_volumes = [volume for _, unclaimed_volumes in chunk for volume in unclaimed_volumes]
            self.database.run(observed_claims.settle, chunk_ends, chunk_volumes)
        return len(
            {of_claim[end.claim_id] for end in settlement.ends}.union(
                volume.volume_id for volume in settlement.unclaimed
            )
        )

    def purge(self) -> None:
        """Delete old refusals, the keys of old requests, and pools that are no longer reported."""
        for remove in (refusals.purge, request_keys.purge, backends.purge_pools):
            self.database.run(remove)
