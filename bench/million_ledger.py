# SPDX-License-Identifier: Apache-2.0
"""The ledger of ``million.py``, filled with COPY: backends that have reported, pools, and a volume in each pool."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import command
import million_driver
import msgspec
import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.reports import validation
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database
from tonnage.ledger.locks import pool_counters
from tonnage.scheduler.cache import pool_figures

#: Epoch and tick of the reports that the ledger has.
_EPOCH = _TICK = 1

_FIGURES = (
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "ratio",
    "thin_limit_gb",
    "physical_limit_gb",
    "storage_id",
    "storage_free_gb",
)
_BACKEND = ("id", "name", "driver", "availability_zone", "allocated_capacity_gb", "enabled", "draining")
_BACKEND += ("rules_generation", "epoch", "nonce", "report_seq", "report_covers", "listing_epoch", "listing_tick")
_BACKEND += ("last_report_at", "report_age", "last_listing_at", "observed", "last_probe", "created_at")
_POOL = ("id", "backend_id", "name", "present", "allocated_capacity_gb", "in_flight_gb", "in_flight_physical_gb")
_POOL += (*_FIGURES, "generation", "covers_epoch", "covers_tick", "covers_stamp", "shared_allocated_gb")
_POOL += ("shared_in_flight_gb", "shared_in_flight_physical_gb", "external_gb", "deleted_gb", "moved_gb")
_POOL += ("reported_at", "stats")
_VOLUME = ("id", "name", "project_id", "user_id", "size_gb", "status", "pool_id", "provisioning", "metadata", "hints")
_VOLUME += ("attempted_pools", "request_id", "created_at")
_CLAIM = ("id", "volume_id", "backend_id", "pool_id", "verb", "state", "size_gb", "physical_gb", "target_size_gb")
_CLAIM += ("provisioning", "contained", "end_epoch", "end_tick", "contained_by_all", "sent", "request_id", "created_at")


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of the ledger: so many backends of ``host``, with so many pools each.

    ``large`` is the number of large volumes for which the first pool of the first backend has room.
    """

    host: str
    backends: int
    pools: int
    large: int

    def name(self, backend: int) -> str:
        """Return the name of a backend."""
        return f"{self.host}@{million_driver.section(backend)}"


def fill(url: str, contents: Contents) -> None:
    """Fill an empty ledger in PostgreSQL."""
    engine = database.create_engine(url)
    ledger = database.Database(engine)
    for name, specs in million_driver.TYPES.items():
        ledger.run(_add_type, name, specs)
    with engine.connect() as connection:
        now = connection.execute(sa.select(models.utcnow())).scalar_one()
        cursor = connection.connection.cursor()
        for table, columns, rows in (
            ("backends", _BACKEND, _backends(contents, now)),
            ("pools", _POOL, _pools(contents, now)),
            ("volumes", _VOLUME, _volumes(contents, now)),
            ("claims", _CLAIM, _claims(contents, now)),
        ):
            command.progress(f"filling the table {table}")
            with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        for table in ("backends", "pools"):
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT MAX(id) FROM {table}))")
        connection.connection.commit()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        command.progress("VACUUM ANALYZE")
        connection.exec_driver_sql("VACUUM ANALYZE")
    engine.dispose()


def _add_type(session: orm.Session, name: str, specs: Any) -> None:
    volume_types.create(session, name, specs=dict(specs))


def _backends(contents: Contents, now: datetime.datetime) -> Iterator[Sequence[Any]]:
    allocated = contents.pools * million_driver.VOLUME_GB
    for number in range(contents.backends):
        name = contents.name(number)
        state = (number + 1, name, "million", "nova", allocated, True, False)
        report = (0, _EPOCH, "filled", _TICK, _TICK, _EPOCH, _TICK)
        yield (*state, *report, now, 0.0, now, False, 0, now)


def _pools(contents: Contents, now: datetime.datetime) -> Iterator[Sequence[Any]]:
    size = million_driver.VOLUME_GB
    for backend, raw in _reports(contents):
        stats = validation.validate(raw).pools
        names = [f"{contents.name(backend)}#{report['pool_name']}" for report in raw]
        counters = pool_counters.Counters(allocated=size)
        ratios = [pool_figures.ratio(pool_stats, counters, "20.0") for pool_stats in stats]
        changes = pool_figures.Changes(names=names, stats=stats, raw=raw, entries=[None] * len(raw), ratios=ratios)
        figures = pool_figures.for_ledger(changes, Calculation.CINDER)
        for number, pool in enumerate(figures):
            reported = (pool.total_gb, pool.free_gb, pool.provisioned_gb, pool.ratio, pool.thin_limit_gb)
            reported += (pool.physical_limit_gb, pool.storage_id, pool.storage_free_gb)
            pool_id = backend * contents.pools + number + 1
            text = msgspec.json.encode(pool.stats).decode()
            yield (
                *(pool_id, backend + 1, pool.name, True, size, 0, 0, *reported),
                *(1, _EPOCH, _TICK, 0, 0, 0, 0, 0.0, 0, 0, now, text),
            )


def _reports(contents: Contents) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    for backend in range(contents.backends):
        yield (
            backend,
            [million_driver.figures(backend, number, large=contents.large) for number in range(contents.pools)],
        )


def _volumes(contents: Contents, now: datetime.datetime) -> Iterator[Sequence[Any]]:
    for pool_id, _, volume_id in _ids(contents):
        volume = (volume_id, "filled", "bench", "bench", million_driver.VOLUME_GB, "available", pool_id, "thin")
        yield (*volume, "{}", "{}", "[]", f"req-{volume_id}", now)


def _claims(contents: Contents, now: datetime.datetime) -> Iterator[Sequence[Any]]:
    size = million_driver.VOLUME_GB
    for pool_id, backend_id, volume_id in _ids(contents):
        claim = (volume_id, volume_id, backend_id, pool_id, "create", "confirmed", size, 0, size, "thin", True)
        yield (*claim, _EPOCH, _TICK - 1, True, True, f"req-{volume_id}", now)


def _ids(contents: Contents) -> Iterator[tuple[int, int, str]]:
    """Yield the ids of each pool, of its backend, and of its volume."""
    for backend in range(contents.backends):
        for number in range(contents.pools):
            yield backend * contents.pools + number + 1, backend + 1, million_driver.volume_id(backend, number)
