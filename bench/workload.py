# SPDX-License-Identifier: Apache-2.0
"""The pools and requests of the benchmarks of decisions and reports, the same for Tonnage and for Cinder.

It imports neither of them and runs with both Pythons.
"""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

BACKENDS = 10

#: Extra specs of the volume type; every second pool matches them.
EXTRA_SPECS = {
    "volume_backend_name": "ssd",
    "storage_protocol": "<in> iSCSI",
    "capabilities:compression_support": "<is> True",
}


def reports(pools: int, day: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Return the reports of ``pools`` pools, by backend. Each ``day`` every pool has less free capacity."""
    found: dict[str, list[dict[str, Any]]] = {f"volumes@b{number}": [] for number in range(BACKENDS)}
    for number in range(pools):
        total = 10_000 + 10 * (number % 997)
        used = 1_000 + number % 3_001 + 0.25 * day
        found[f"volumes@b{number % BACKENDS}"].append(
            {
                "pool_name": f"pool{number}",
                "total_capacity_gb": total,
                "free_capacity_gb": total - used,
                "provisioned_capacity_gb": 2 * used,
                "reserved_percentage": 5,
                "max_over_subscription_ratio": 10.0,
                "thin_provisioning_support": True,
                "thick_provisioning_support": False,
                "volume_backend_name": "ssd" if number // BACKENDS % 2 == 0 else "hdd",
                "vendor_name": "Vendor",
                "driver_version": "1.2.3",
                "storage_protocol": "iSCSI",
                "compression_support": True,
                "QoS_support": False,
                "multiattach": True,
                "location_info": f"Driver:array{number % BACKENDS}:volumes",
            }
        )
    return {backend: listed for backend, listed in found.items() if listed}


def sizes() -> Iterator[int]:
    """Yield the sizes of the requested volumes, in GiB."""
    while True:
        yield from range(1, 21)


def allocated_bytes(once: Callable[[], object]) -> int:
    """Return the bytes of memory that ``once`` has allocated and not freed."""
    gc.collect()
    tracemalloc.start()
    once()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def timed(
    once: Callable[[], object],
    seconds: float,
    *,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.thread_time,
    least: int = 5,
    most: int = 5000,
) -> dict[str, Any]:
    """Run ``once`` repeatedly; return the median and 99th percentile of wall-clock ms, and the median of processor ms.

    ``seconds`` is the duration, with at least ``least`` and at most ``most`` runs. ``before`` runs before each run and
    is not measured; ``clock`` returns the processor time in seconds.
    """
    wall, processor = [], []
    end = time.perf_counter() + seconds
    while len(wall) < least or (time.perf_counter() < end and len(wall) < most):
        before()
        began, used = time.perf_counter(), clock()
        once()
        processor.append(clock() - used)
        wall.append(time.perf_counter() - began)
    wall.sort()
    return {
        "median": round(statistics.median(wall) * 1000, 4),
        "cpu_median": round(statistics.median(processor) * 1000, 4),
        "p99": round(wall[len(wall) * 99 // 100] * 1000, 4),
        "count": len(wall),
    }
