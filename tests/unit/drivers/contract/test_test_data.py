# SPDX-License-Identifier: Apache-2.0
"""The volumes, contents and jobs of the contract suite."""

import pathlib
import threading

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver
from tonnage.drivers.contract import test_data as data
from tonnage.drivers.memory.driver import MemoryDriver


class ThinOnly(MemoryDriver):
    """Has pools for thin volumes alone."""

    supports_thick = False

    def report(self) -> list[dict[str, object]]:
        return [{**pool, "thick_provisioning_support": False} for pool in super().report()]


@pytest.fixture
def driver(tmp_path: pathlib.Path) -> Driver:
    return contract_runs.make_memory_driver(tmp_path, ThinOnly)()


def test_a_volume_is_new_and_in_a_pool_of_its_kind(driver: Driver) -> None:
    first, second = (data.new_volume(driver, Provisioning.THIN, 2) for _ in range(2))
    assert first.id != second.id
    assert (first.pool, first.size_gb, first.provisioning) == ("pool1", 2, Provisioning.THIN)
    with pytest.raises(AssertionError, match="no pool reports that it makes thick volumes"):
        data.new_volume(driver, Provisioning.THICK)


def test_a_resized_volume_is_the_same_one(driver: Driver) -> None:
    volume = data.new_volume(driver, Provisioning.THIN)
    larger = data.resized(volume, 3)
    assert (larger.id, larger.pool, larger.size_gb, volume.size_gb) == (volume.id, volume.pool, 3, 1)


def test_a_source_has_the_place_that_its_pool_reports(driver: Driver) -> None:
    volume = data.new_volume(driver, Provisioning.THIN)
    source = data.source_of(driver, volume)
    assert (source.id, source.backend, source.pool) == (volume.id, "host@mem", volume.pool)
    assert source.location == driver.report()[0]["location_info"] != ""


def test_tests_of_features_that_a_driver_does_not_declare_are_skipped_with_the_reason(driver: Driver) -> None:
    assert data.skip_unless_declared(driver, "supports_thin") is driver
    with pytest.raises(pytest.skip.Exception, match="ThinOnly does not declare supports_thick"):
        data.skip_unless_declared(driver, "supports_thick")


def test_content_is_the_same_for_a_seed_and_lies_within_the_first_gib() -> None:
    chunks = data.content_chunks(1)
    assert chunks == data.content_chunks(1)
    assert chunks != data.content_chunks(2)
    assert 0 in chunks
    assert max(chunks) == GIB - data.CHUNK_INTERVAL
    assert all(offset % data.CHUNK_INTERVAL == 0 for offset in chunks)
    assert {len(chunk) for chunk in chunks.values()} == {data.CHUNK_BYTES}


def test_jobs_run_at_the_same_time_and_their_errors_are_returned_in_order() -> None:
    together = threading.Barrier(3)

    def meet() -> None:
        together.wait(20)

    def fail() -> None:
        meet()
        raise LookupError("nothing")

    first, second, third = data.run_concurrently([meet, fail, meet])
    assert (first, third) == (None, None)
    assert isinstance(second, LookupError)
