# SPDX-License-Identifier: Apache-2.0
"""Pages about the ledger, and their samples, for tests of the core's series and of those of extensions."""

import gzip
from collections.abc import Sequence

from prometheus_client import parser

from tests.unit.scheduler.world import StoragePool, World
from tonnage.api.monitoring.ledger_page import LedgerPage, LedgerSeries


def world_with_volumes() -> World:
    """Return a thin pool with a volume of 3 GiB at rest and one of 4 GiB in flight, and an empty thick pool."""
    world = World(
        {"thin": StoragePool(20, 2.0, thin=True, thick=False), "thick": StoragePool(2, 1.0, thin=False, thick=True)}
    ).started()
    world.made(3)
    world.create(4)
    return world


def page_of(
    world: World,
    max_pools: int = 100,
    cache_time: float = 0.0,
    down_time: float = 60.0,
    series: Sequence[LedgerSeries] = (),
) -> LedgerPage:
    return LedgerPage(world.database, down_time, max_pools, cache_time, series)


def samples(page: LedgerPage, backend: str | None = None) -> dict[tuple[str, str], float]:
    """Return the value of each series by its name and the values of its labels."""
    text = gzip.decompress(page.compressed(backend)).decode()
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
