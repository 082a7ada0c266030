# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of an installation of many volumes: what one ledger would take, and the number of cells that share it.

The unit costs of volumes in the database and of listings are measured here, with SQLite and without a server. The
others are those of the other benchmarks, see ``docs/benchmarks.rst``.
"""

import contextlib
import math
import pathlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.claims import request_keys
from tonnage.ledger.db import database, schema
from tonnage.ledger.inventory import listings
from tonnage.ledger.models import claim_verbs
from tonnage.rpc import messages, serialization

DAY = 86_400
GIB = 2**30
_BATCH = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    """The measured costs. ``usual_load`` is the share of a measured maximum at which an installation may run.

    ``rows`` and ``row_bytes`` are those of a volume in the database, with its claim, the key of its request and all
    indexes; ``key_bytes`` are those of the key of a request. The keys of the create and of the delete stay for
    ``key_days`` after the end of the volume. ``listing`` and ``report`` are processor seconds of a scheduler for a
    listed volume and for a changed pool, ``pool_bytes`` its memory for a pool.
    ``statements`` and ``life`` are the statements, and the processor seconds of all processes, for the life of a volume
    that is created and deleted alone. ``placements`` is the largest number a second of one ledger.
    """

    rows: float
    row_bytes: float
    key_bytes: float
    listing: float
    statements: float = 37
    life: float = 78e-3
    placements: float = 365
    report: float = 641e-3 / 10_000
    pool_bytes: float = 2.2 * 1024
    key_days: float = request_keys.KEPT.days
    usual_load: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The size of an installation. ``life`` is the mean life of a volume in days, ``per_pool`` the volumes of a pool.

    The figures of each pool change in each report, once in ``report_interval`` seconds, and an agent lists its volumes
    once in ``listing_interval`` seconds. ``database_bytes`` is what one server is to hold.
    """

    volumes: float = 1e8
    life: float = 30.0
    per_pool: float = 1000.0
    report_interval: float = 60.0
    listing_interval: float = 300.0
    database_bytes: float = 100 * GIB


@dataclass(frozen=True, slots=True)
class Line:
    """A load of one ledger: its formula, value and unit, and the load that one ledger takes."""

    name: str
    formula: str
    value: float
    unit: str
    limit: float = math.inf

    @property
    def cells(self) -> int:
        """The number of cells that share the load."""
        return max(1, math.ceil(self.value / self.limit))


def lines(size: Installation, costs: UnitCosts) -> list[Line]:
    """Return the loads of an installation, the one that needs the most cells first."""
    volumes = f"{size.volumes:.3g} volumes"
    creates = size.volumes / size.life / DAY
    pools = size.volumes / size.per_pool
    keys = 2 * costs.key_days / size.life
    row_bytes = costs.row_bytes + keys * costs.key_bytes
    loads = [
        Line(
            "listings",
            f"{volumes} / {size.listing_interval:g} s x {costs.listing * 1e6:.1f} us",
            size.volumes / size.listing_interval * costs.listing,
            "processors",
            costs.usual_load,
        ),
        Line(
            "database",
            f"{volumes} x ({costs.row_bytes:,.0f} + {keys:.2g} x {costs.key_bytes:,.0f} bytes)",
            size.volumes * row_bytes / GIB,
            "GiB",
            size.database_bytes / GIB,
        ),
        Line(
            "placements",
            f"{volumes} / {size.life:g} days",
            creates,
            "a second",
            costs.placements * costs.usual_load,
        ),
        Line(
            "reports",
            f"{pools:.3g} pools / {size.report_interval:g} s x {costs.report * 1e6:.0f} us",
            pools / size.report_interval * costs.report,
            "processors",
            costs.usual_load,
        ),
        Line(
            "rows",
            f"{volumes} x ({costs.rows:g} + 2 x {costs.key_days:g} / {size.life:g})",
            size.volumes * (costs.rows + keys),
            "rows",
        ),
        Line("statements", f"{creates:.3g} a second x {costs.statements:g}", creates * costs.statements, "a second"),
        Line("lives", f"{creates:.3g} a second x {costs.life * 1e3:g} ms", creates * costs.life, "processors"),
        Line("pools", f"{volumes} / {size.per_pool:g}", pools, "pools"),
        Line("memory of a scheduler", f"{pools:.3g} pools x 2.2 KiB", pools * costs.pool_bytes / GIB, "GiB"),
    ]
    return sorted(loads, key=lambda line: -line.value / line.limit)


@dataclass(frozen=True, slots=True)
class _Listed:
    volume_id: str
    pool: str
    size_gb: float


def measure(folder: pathlib.Path, volumes: int = 100_000, pools: int = 100) -> UnitCosts:
    """Measure the size of volumes in the database, and the comparison of a listing of all of them.

    The ledger is an SQLite file in ``folder``, with rows as a create without a name leaves them after its report.
    """
    file = folder / "ledger.sqlite"
    engine = database.create_engine(f"sqlite:///{file}")
    try:
        schema.sync(engine, {})
        with orm.Session(engine) as session, session.begin():
            session.add(models.Backend(id=1, name="host@backend", epoch=1))
            session.flush()
            for number in range(pools):
                session.add(models.Pool(id=number + 1, backend_id=1, name=f"host@backend#pool{number}", present=True))
        empty = _stored_bytes(engine)
        listed = [_Listed(str(uuid.uuid4()), f"pool{number % pools}", 1.0) for number in range(volumes)]
        rows = 0
        with orm.Session(engine) as session, session.begin():
            for start in range(0, volumes, _BATCH):
                rows += _insert_volumes(session, listed[start : start + _BATCH])
        without_keys = _stored_bytes(engine)
        with orm.Session(engine) as session, session.begin():
            for start in range(0, volumes, _BATCH):
                rows += _insert_keys(session, listed[start : start + _BATCH])
        full = _stored_bytes(engine)
        times = [_listing_time(engine, listed, tick) for tick in (2, 3, 4)]
    finally:
        engine.dispose()
    return UnitCosts(
        rows=rows / volumes,
        row_bytes=(full - empty) / volumes,
        key_bytes=(full - without_keys) / volumes,
        listing=sorted(times)[1] / volumes,
    )


def _stored_bytes(engine: sa.Engine) -> int:
    with contextlib.closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        pages, free, size = (
            cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def _insert_volumes(session: orm.Session, listed: Sequence[_Listed]) -> int:
    """Insert volumes with their claims, and return the number of rows."""
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    project = uuid.uuid4().hex
    volumes, claims = [], []
    for volume in listed:
        pool_id = int(volume.pool.removeprefix("pool")) + 1
        volumes.append(
            {
                "id": volume.volume_id,
                "project_id": project,
                "user_id": project,
                "size_gb": 1,
                "status": "available",
                "availability_zone": "nova",
                "pool_id": pool_id,
                "provisioning": "thin",
                "user_metadata": {},
                "hints": {},
                "attempted_pools": [],
                "request_id": _request_id(volume),
                "created_at": now,
                "updated_at": now,
            }
        )
        claims.append(
            {
                "id": str(uuid.uuid4()),
                "volume_id": volume.volume_id,
                "backend_id": 1,
                "pool_id": pool_id,
                "verb": claim_verbs.CREATE,
                "state": "confirmed",
                "size_gb": 1,
                "physical_gb": 0,
                "target_size_gb": 1,
                "provisioning": "thin",
                "contained": True,
                "end_epoch": 1,
                "end_tick": 1,
                "request_id": _request_id(volume),
                "created_at": now,
            }
        )
    session.execute(sa.insert(models.Volume), volumes)
    session.execute(sa.insert(models.Claim), claims)
    return len(volumes) + len(claims)


def _insert_keys(session: orm.Session, listed: Sequence[_Listed]) -> int:
    """Insert the keys of the requests that created volumes, and return the number of rows."""
    keys = []
    for volume in listed:
        pool = f"host@backend#{volume.pool}"
        answer = messages.Answer(volume_id=volume.volume_id, pool=pool, provisioning=Provisioning.THIN)
        packed = serialization.pack(answer)
        keys.append(request_keys.Key(_request_id(volume), volume.volume_id, claim_verbs.CREATE, packed))
    request_keys.insert(session, keys)
    return len(keys)


def _request_id(volume: _Listed) -> str:
    return f"req-{uuid.uuid5(uuid.NAMESPACE_OID, volume.volume_id)}"


def _listing_time(engine: sa.Engine, listed: Sequence[_Listed], tick: int) -> float:
    """Return the processor seconds in which a listing without differences is compared and recorded."""
    began = time.process_time()
    with orm.Session(engine) as session, session.begin():
        listings.record(session, 1, 1, tick, listed)
    return time.process_time() - began


def table(size: Installation, costs: UnitCosts) -> str:
    """Return the loads as a table."""
    heads = f"{'load of one ledger':<23}{'formula':<52}{'value':>12}  {'unit':<12}{'limit':>8}{'cells':>7}"
    rows = [heads]
    for line in lines(size, costs):
        limit = f"{line.limit:>8,.4g}{line.cells:>7}" if math.isfinite(line.limit) else ""
        rows.append(f"{line.name:<23}{line.formula:<52}{line.value:>12,.3g}  {line.unit:<12}{limit}".rstrip())
    return "\n".join(rows)
