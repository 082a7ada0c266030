# SPDX-License-Identifier: Apache-2.0
"""A program for Cinder's Python: pools with odd figures, judged by Cinder's scheduler and by Tonnage's.

Each report goes the way of a real one: Cinder reads it, the figures for the ledger are made from it, and look-alikes
carry these to Cinder's own CapacityFilter and to the native one. It prints the number of verdicts, and the first one
where Cinder refuses a volume, or fails, and Tonnage accepts it without a limit in the ledger that refuses it.
"""

import itertools
import json
import os
import warnings
from typing import Any

warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"

from cinder import objects  # noqa: E402

objects.register_all()

from cinder.common import config  # noqa: E402, F401
from cinder.scheduler.filters import capacity_filter  # noqa: E402
from oslo_config import cfg  # noqa: E402

from tonnage.extensions.cinder.pools import native_filters  # noqa: E402
from tonnage.extensions.cinder.pools.filter_requests import read_request  # noqa: E402
from tonnage.extensions.cinder.pools.look_alike_columns import LookAlikeColumns  # noqa: E402
from tonnage.extensions.cinder.pools.look_alikes import look_alike  # noqa: E402
from tonnage.extensions.cinder.scheduler import backend_states, reported_figures  # noqa: E402
from tonnage.filters.chain import FilterChain  # noqa: E402
from tonnage.ledger.inventory.backends import PoolRow  # noqa: E402
from tonnage.ledger.inventory.reports import PoolFigures  # noqa: E402
from tonnage.ledger.locks.pool_counters import Counters  # noqa: E402

#: A figure that a report lacks.
ABSENT = object()

_ODD = (None, ABSENT, "infinite", "unknown", "90", "much", -5, 0, float("nan"), float("inf"), 1e308, True, [])

FIGURES: dict[str, tuple[Any, ...]] = {
    "total_capacity_gb": (100, *_ODD),
    "free_capacity_gb": (60, *_ODD),
    "provisioned_capacity_gb": (40, *_ODD),
    "reserved_percentage": (0, 10, None, ABSENT, "10", "much", -5, 100, float("nan")),
    "max_over_subscription_ratio": (2.0, None, ABSENT, "2.0", "auto", "much", 0.5, -1, float("nan"), float("inf")),
    "thin_provisioning_support": (True, False, None, ABSENT, "False"),
}

#: At most so many figures of a report are odd.
_MOST_ODD = 2


def pools() -> list[dict[str, Any]]:
    """Return reports of one pool each, in which one or two figures are odd."""
    usual = {name: figures[0] for name, figures in FIGURES.items()}
    reports = {}
    for names in itertools.combinations(FIGURES, _MOST_ODD):
        for figures in itertools.product(*(FIGURES[name] for name in names)):
            for thin in (True, False):
                figures_by_name = {**usual, "thin_provisioning_support": thin, **dict(zip(names, figures, strict=True))}
                report = {name: figure for name, figure in figures_by_name.items() if figure is not ABSENT}
                reports[repr(sorted(report.items()))] = {"pool_name": "a", "allocated_capacity_gb": 40, **report}
    return list(reports.values())


def cinder_accepts(state: Any, properties: dict[str, Any]) -> bool:
    """Return whether Cinder's filter accepts a pool; it refuses the request if the filter fails."""
    try:
        return bool(capacity_filter.CapacityFilter().backend_passes(state, properties))
    except Exception:
        return False


def row_of(figures: PoolFigures, in_flight: int) -> PoolRow:
    """Return the row that the ledger has of a pool after its report; the figures go through JSON, as there."""
    return PoolRow(
        id=1,
        backend_id=1,
        name=figures.name,
        generation=0,
        counters=Counters(allocated=40 + in_flight, in_flight=in_flight, in_flight_physical=in_flight),
        ratio=figures.ratio,
        thin_limit_gb=figures.thin_limit_gb,
        stats=json.loads(json.dumps(figures.stats)),
        figures_age=None,
    )


def admits(figures: PoolFigures, size: int, *, thin: bool) -> bool:
    """Return whether the limits of the ledger admit a claim in a pool without others."""
    provisioned = 40.0 if figures.provisioned_gb is None else figures.provisioned_gb
    is_within = figures.thin_limit_gb is None or provisioned + size <= figures.thin_limit_gb
    return is_within and (thin or figures.physical_limit_gb is None or size <= figures.physical_limit_gb)


def main() -> None:
    """Compare and print."""
    cfg.CONF([], project="cinder", default_config_files=[])  # noqa: TID251  (Cinder knows no other)
    native = FilterChain([native_filters.CapacityFilter()])
    verdicts = accepted = 0
    for report in pools():
        try:
            [state] = backend_states.pool_states(
                "host@b", None, {"volume_backend_name": "b", "pools": [report]}
            ).values()
        except Exception:  # noqa: S112  (Cinder fails for the whole report, and nothing is placed by it)
            continue
        usable, _ = reported_figures.of_states({state.backend_id: state}, bounded=True)
        for size, provisioning in itertools.product((1, 50, 150), ({}, {"provisioning:type": "thick"})):
            volume_type = {"extra_specs": provisioning}
            properties = {"size": size, "volume_type": volume_type, "resource_type": volume_type}
            if not usable:
                continue
            pool = look_alike(state, row_of(usable[0], 0))
            by_native = bool(LookAlikeColumns([pool]).accepted_by(native, read_request(properties)).any())
            stock, by_filter = cinder_accepts(state, properties), cinder_accepts(pool, properties)
            thin = bool(state.thin_provisioning_support) and not provisioning
            verdicts += 1
            accepted += by_filter
            if not stock and (by_filter or by_native) and admits(usable[0], size, thin=thin):
                print("DIFFERENCE", report, properties, stock, by_filter, by_native)
                return
    print("JUDGED", verdicts, accepted)


main()
