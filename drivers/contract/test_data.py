# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Test data: volumes, content, and jobs for several threads."""

import dataclasses
import random
import threading
import uuid
from collections.abc import Callable
from concurrent import futures

import pytest

from tonnage.capacity import arithmetic
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, Source, Terms, Volume
from tonnage.drivers.contract import observations

#: A mark of the storage: the id of a ledger and a random text.
LEDGER_MARK = "1c0de2f4-8a57-4b92-9e36-07d5b8f3a6c1-5a0c3e9b"

#: Content is compared in chunks of this many bytes, one in each interval.
CHUNK_BYTES = 1 << 20
CHUNK_INTERVAL = 4 << 20

#: Terms of admission, as a scheduler sends them.
TERMS = [
    pytest.param(Terms(ratio=ratio, calculation=calculation), id=f"{calculation}-{ratio:g}")
    for calculation in arithmetic.Calculation
    for ratio in (1.0, 1.5, 3.0)
]


def new_volume(driver: Driver, provisioning: Provisioning, size_gb: int = 1, terms: Terms | None = None) -> Volume:
    """Return a volume that does not exist yet, in the first pool that supports its provisioning."""
    thin = provisioning is Provisioning.THIN
    pool = next((stats.name for stats in observations.all_stats(driver) if (stats.thin if thin else stats.thick)), None)
    assert pool is not None, f"no pool reports that it makes {provisioning} volumes"
    return Volume(id=str(uuid.uuid4()), pool=pool, size_gb=size_gb, provisioning=provisioning, terms=terms)


def resized(volume: Volume, size_gb: int) -> Volume:
    """Return the same volume in another size."""
    return dataclasses.replace(volume, size_gb=size_gb)


def source_of(driver: Driver, volume: Volume) -> Source:
    """Return a volume of this driver as the source of a copy."""
    location = observations.stats_of(driver, volume.pool).capabilities.get("location_info", "")
    return Source(
        id=volume.id, backend=driver.backend, pool=volume.pool, size_gb=volume.size_gb, location=str(location)
    )


def skip_unless_declared(driver: Driver, flag: str) -> Driver:
    """Skip the test unless the driver declares the feature; return the driver."""
    if not getattr(driver, flag):
        pytest.skip(f"{type(driver).__name__} does not declare {flag}")
    return driver


def content_chunks(seed: int) -> dict[int, bytes]:
    """Return chunks to write to a volume of 1 GiB, by offset: at both ends, and at a few offsets between."""
    draw = random.Random(seed)  # noqa: S311 -- random content
    places = [0, *draw.sample(range(CHUNK_INTERVAL, GIB - CHUNK_INTERVAL, CHUNK_INTERVAL), 5), GIB - CHUNK_INTERVAL]
    return {offset: draw.randbytes(CHUNK_BYTES) for offset in places}


def run_concurrently(jobs: list[Callable[[], None]]) -> list[BaseException | None]:
    """Run all jobs at the same time; return the exception of each, or None."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        start.wait(timeout=60)
        job()

    with futures.ThreadPoolExecutor(len(jobs)) as pool:
        return [future.exception() for future in [pool.submit(run, job) for job in jobs]]
