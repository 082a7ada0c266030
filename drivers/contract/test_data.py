# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""What the tests are made of: volumes, content, and jobs for several threads."""

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

#: Content is compared in pieces of this many bytes, one at each place.
PIECE = 1 << 20
PLACE = 4 << 20

#: What volumes are judged by where a scheduler was asked.
TERMS = [
    pytest.param(Terms(ratio=ratio, calculation=calculation), id=f"{calculation}-{ratio:g}")
    for calculation in arithmetic.Calculation
    for ratio in (1.0, 1.5, 3.0)
]


def new_volume(driver: Driver, provisioning: Provisioning, size_gb: int = 1, terms: Terms | None = None) -> Volume:
    """Return a volume that has not been made, in the first pool that makes such volumes."""
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


def declares(driver: Driver, ability: str) -> Driver:
    """Return the driver if it declares the ability; else skip the test."""
    if not getattr(driver, ability):
        pytest.skip(f"{type(driver).__name__} does not declare {ability}")
    return driver


def pieces(seed: int) -> dict[int, bytes]:
    """Return what to write where in a volume of 1 GiB: at both ends, and in a few of the places between."""
    draw = random.Random(seed)  # noqa: S311 -- something to write
    places = [0, *draw.sample(range(PLACE, GIB - PLACE, PLACE), 5), GIB - PLACE]
    return {place: draw.randbytes(PIECE) for place in places}


def run_together(jobs: list[Callable[[], None]]) -> list[BaseException | None]:
    """Run all jobs at the same time; return what each has raised."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        start.wait(timeout=60)
        job()

    with futures.ThreadPoolExecutor(len(jobs)) as pool:
        return [future.exception() for future in [pool.submit(run, job) for job in jobs]]
