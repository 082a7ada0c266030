# SPDX-License-Identifier: Apache-2.0
"""A program for Cinder's Python: random decisions by Cinder's classes, and by native ones in place of some of them.

It prints the number of decisions, and of those that Cinder's classes fail for, and the first difference.
"""

import contextlib
import os
import random
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"

from cinder import objects  # noqa: E402

objects.register_all()

from cinder.common import config  # noqa: E402, F401
from cinder.scheduler import filters, weights  # noqa: E402
from cinder.scheduler.filters import availability_zone_filter, capabilities_filter, capacity_filter  # noqa: E402
from cinder.scheduler.weights import capacity  # noqa: E402
from oslo_config import cfg  # noqa: E402

from tonnage.extensions.cinder.pools.filter_requests import read_request  # noqa: E402
from tonnage.extensions.cinder.pools.known_pools import Pools  # noqa: E402
from tonnage.extensions.cinder.pools.look_alike_columns import LookAlikeColumns  # noqa: E402
from tonnage.extensions.cinder.pools.look_alikes import PoolLookAlike  # noqa: E402
from tonnage.extensions.cinder.pools.native_plugins import NativePlugins  # noqa: E402
from tonnage.extensions.cinder.scheduler import ledger_options  # noqa: E402

CONF = cfg.CONF  # noqa: TID251  (Cinder knows no other)

ZONES = ("nova", "az1", "az2")


class Even(filters.BaseHostFilter):  # type: ignore[misc]
    """A filter of another project, in the oldest form."""

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return int(host_state.pool_name) % 2 == 0


class BestHalf(filters.BaseBackendFilter):  # type: ignore[misc]
    """A filter that judges all pools together, and changes their order."""

    def filter_all(self, filter_obj_list: Any, filter_properties: Any) -> Any:
        ordered = sorted(filter_obj_list, key=lambda state: int(state.pool_name) * 7 % 11)
        return ordered[: (len(ordered) + 1) // 2]


class Skipped(filters.BaseBackendFilter):  # type: ignore[misc]
    """A filter that does not run."""

    def run_filter_for_index(self, index: int) -> bool:
        return False


class Bounded(weights.BaseHostWeigher):  # type: ignore[misc]
    """A weigher with bounds of its own."""

    minval, maxval = 0, 100

    def weight_multiplier(self) -> float:
        return 0.5

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        return int(obj.pool_name) * 37 % 101


class Together(weights.BaseHostWeigher):  # type: ignore[misc]
    """A weigher that sees all pools with their weights so far."""

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> list[float]:
        return [each.weight * len(weighed_obj_list) for each in weighed_obj_list]


FILTERS = (
    availability_zone_filter.AvailabilityZoneFilter,
    capacity_filter.CapacityFilter,
    capabilities_filter.CapabilitiesFilter,
)


def a_capacity(chance: random.Random) -> Any:
    return chance.choice(
        (
            0,
            1,
            7,
            10,
            10.5,
            99.99,
            99.999,
            100,
            100.004,
            chance.uniform(0, 200),
            chance.randint(0, 50),
            "infinite",
            "unknown",
            None,
            "90",
            -5,
        )
    )


def a_pool(chance: random.Random, number: int) -> PoolLookAlike:
    """Return a random pool."""
    name = f"host@b{number % 3}#{number}"
    thin = chance.choice((True, True, False))
    capabilities = {
        "media": chance.choice(("ssd", "hdd", ["ssd", "nvme"], None, 7, {"kind": "ssd"})),
        "compression": chance.choice((True, False, "True", "no", 1)),
        "free_capacity_gb": chance.choice((1, 50, 50.5, "unknown")),
        "online_extend_support": chance.choice((True, False, None)),
    }
    for key in list(capabilities):
        if chance.random() < 0.15:
            del capabilities[key]
    total = a_capacity(chance)
    return PoolLookAlike(
        host=name,
        cluster_name=None,
        backend_id=name,
        pool_name=str(number),
        capabilities=capabilities,
        service={"availability_zone": chance.choice(ZONES)},
        volume_backend_name="b",
        vendor_name=None,
        driver_version=None,
        storage_protocol="iSCSI",
        QoS_support=False,
        multiattach=False,
        filter_function=None,
        goodness_function=None,
        updated=None,
        total_capacity_gb=total,
        free_capacity_gb=total if chance.random() < 0.3 else a_capacity(chance),
        allocated_capacity_gb=chance.randint(0, 50),
        provisioned_capacity_gb=chance.choice((0, 5, 9.99, 10, chance.uniform(0, 300))),
        reserved_percentage=chance.choice((0, 0, 0, 5, 29, 50, 100, 7.5)),
        max_over_subscription_ratio=chance.choice((1.0, 1.0, 1.5, 2.0, 20.0, 0.9)) if thin else 1.0,
        thin_provisioning_support=thin,
        thick_provisioning_support=chance.choice((True, False)),
        row=None,  # type: ignore[arg-type]
    )


def a_request(chance: random.Random) -> dict[str, Any]:
    """Return random filter properties."""
    specs = {
        key: chance.choice(values)
        for key, values in {
            "media": ("ssd", "<in> ss", "<or> hdd <or> nvme", "s!= hdd", "<is> ssd", ">= 5"),
            "compression": ("<is> True", "True", "<is> no"),
            "capabilities:free_capacity_gb": (">= 50", "= 10", "== 1", "50"),
            "capabilities:media:kind": ("ssd", "hdd"),
            "vendor:anything": ("x",),
            "provisioning:type": ("thick", "thin"),
        }.items()
        if chance.random() < 0.2
    }
    kind = {"extra_specs": specs}
    spec: dict[str, Any] = {"volume_properties": {"attach_status": chance.choice(("attached", "detached"))}}
    if chance.random() < 0.3:
        spec["availability_zones"] = chance.sample(ZONES, chance.randint(1, 2))
    elif chance.random() < 0.3:
        spec["resource_properties"] = {"availability_zone": chance.choice((*ZONES, "none", None))}
    properties = {"request_spec": spec, "size": chance.randint(0, 60), "volume_type": kind, "resource_type": kind}
    if chance.random() < 0.2:
        spec["operation"] = "extend_volume"
        properties["new_size"] = properties["size"] + chance.randint(1, 40)
    if chance.random() < 0.2:
        properties["vol_exists_on"] = f"host@b{chance.randrange(3)}#{chance.randrange(12)}"
    return properties


def compare(chance: random.Random, states: list[PoolLookAlike], columns: LookAlikeColumns) -> tuple[Any, Any]:
    """Return the pools with their weights, best first, by Cinder's classes and with native ones.

    The first is None if Cinder's classes fail, and with them the request. Native ones must not.
    """
    properties = a_request(chance)
    chosen = [each for each in FILTERS if chance.random() < 0.8]
    others = [each for each in (Even, BestHalf, Skipped) if chance.random() < 0.3]
    weighers = [capacity.CapacityWeigher, *(each for each in (Bounded, Together) if chance.random() < 0.3)]
    CONF.set_override("capacity_weight_multiplier", chance.choice((1.0, 1.0, 2.5, 0.0, -1.0)))
    handler = filters.BackendFilterHandler("cinder.scheduler.filters")
    weigh = weights.OrderedHostWeightHandler("cinder.scheduler.weights").get_weighed_objects
    theirs = None
    with contextlib.suppress(ArithmeticError, IndexError, TypeError, ValueError):
        left = handler.get_filtered_objects([*chosen, *others], states, properties)
        theirs = [(each.obj.backend_id, each.weight) for each in weigh(weighers, left, properties)]
    names = [name for name in ledger_options.NATIVE_FILTERS if theirs is None or chance.random() < 0.8]
    native = NativePlugins(names, ledger_options.NATIVE_WEIGHERS)
    chain, rest = native.split([*chosen, *others])
    pools = Pools(states, columns)
    pools = pools.within(columns.accepted_by(chain, read_request(properties)))
    kept = pools.kept(handler.get_filtered_objects(rest, list(pools), properties))
    try:
        ranking = native.rank(kept, weighers, properties) if len(kept) else ()
    except (TypeError, ValueError):
        if theirs is None:
            return None, None  # no pool has a rank, for either
        raise
    return theirs, [(each.obj.backend_id, each.weight) for each in ranking or ()]


def main() -> None:
    """Compare and print."""
    CONF([], project="cinder", default_config_files=[])
    chance = random.Random(int(sys.argv[1]))
    decided = failed = 0
    for _ in range(int(sys.argv[2])):
        states = [a_pool(chance, number) for number in range(chance.randint(1, 12))]
        columns = LookAlikeColumns(states)
        for _ in range(5):
            theirs, ours = compare(chance, states, columns)
            if theirs is None:
                failed += 1
            else:
                decided += 1
                if theirs != ours:
                    print("DIFFERENCE", theirs, ours)
                    return
            for number in range(len(states)):
                if chance.random() < 0.2:
                    states[number] = a_pool(chance, number)
                    columns.show([states[number]])
    print("DECIDED", decided, failed)


main()
