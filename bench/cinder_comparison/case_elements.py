# SPDX-License-Identifier: Apache-2.0
"""The elements of random cases: pools as drivers report them, most of them consistent, and requests with types."""

import random
from collections.abc import Callable
from typing import Any

from cinder_comparison.cases import PLACES, ZONES, CaseRequest, PoolCase

#: Names of protocols. Some protocols have several names.
PROTOCOL_NAMES = [
    "iSCSI",
    "iscsi",
    "FC",
    "fc",
    "fibre_channel",
    "NFS",
    "nfs",
    "NVMe-oF",
    "NVMeOF",
    "nvmeof",
    "NVMe-TCP",
]
PROTOCOLS: list[Any] = [*PROTOCOL_NAMES, "ceph", ["iSCSI", "FC"]]


def pool_names(dice: random.Random, most: int) -> list[str]:
    """Return the names of 1 to ``most`` pools."""
    return dice.sample(PLACES, dice.randint(1, most))


def _figure(dice: random.Random, low: float, high: float) -> float:
    """Return a figure as drivers report it: whole, with two decimals, or with all digits of a division."""
    number = dice.uniform(low, high)
    kind = dice.random()
    return round(number) if kind < 0.5 else round(number, 2) if kind < 0.9 else number


def consistent_report(dice: random.Random, *, extreme: float) -> dict[str, Any]:
    """Return a report with mostly consistent figures. ``extreme`` is the share of reports with an extreme value."""
    # Round totals show the rounding of percentages best.
    total = dice.choice([100, 200, 1000]) if dice.random() < 0.15 else _figure(dice, 0, dice.choice(_LARGEST))
    free = min(_figure(dice, 0, total), total)
    report: dict[str, Any] = {"total_capacity_gb": total, "free_capacity_gb": free}
    if dice.random() < 0.85:
        report["provisioned_capacity_gb"] = _figure(dice, 0, total * dice.choice([0.5, 1, 3, 20]))
    if dice.random() < 0.8:
        report["reserved_percentage"] = dice.choice([0, 0, 5, 7, 10, 29, 29, 57, 58, dice.randint(0, 100)])
    if dice.random() < 0.7:
        some = round(dice.uniform(1, 5), dice.choice([0, 1, 2]))
        report["max_over_subscription_ratio"] = dice.choice(["auto", 1.0, 1.5, 2, 20.0, some])
    thin, thick = dice.choice([(True, False), (True, False), (True, True), (False, True), (False, False)])
    for key, value in (("thin_provisioning_support", thin), ("thick_provisioning_support", thick)):
        if value or dice.random() < 0.5:
            report[key] = value
    if dice.random() < extreme:
        report.update(dice.choice(_EXTREMES)(dice, total))
    return report


def two_decimals(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report's fractions, rounded to two decimals as drivers report them."""
    return {key: round(value, 2) for key, value in report.items() if type(value) is float}


_LARGEST = [20, 200, 2000, 100_000]

_EXTREMES: list[Callable[[random.Random, float], dict[str, Any]]] = [
    lambda dice, total: {"free_capacity_gb": dice.choice(["unknown", "infinite"])},
    lambda dice, total: {"total_capacity_gb": dice.choice(["unknown", "infinite"])},
    lambda dice, total: {"total_capacity_gb": "unknown", "free_capacity_gb": "unknown"},
    lambda dice, total: {"free_capacity_gb": total + dice.choice([1, 2, dice.randint(1, 100)])},
    lambda dice, total: {"free_capacity_gb": total + 1, "max_over_subscription_ratio": "auto"},
    lambda dice, total: {"free_capacity_gb": 0},
    lambda dice, total: {"total_capacity_gb": 0},
    lambda dice, total: {"reserved_percentage": 100},
    lambda dice, total: {"provisioned_capacity_gb": 0},
    lambda dice, total: {"max_over_subscription_ratio": dice.choice([0, 0.5, 0.99, -1])},
]


def simple_pools(dice: random.Random, most: int = 6) -> list[PoolCase]:
    """Return pools that differ only in backend and zone."""
    report = {"total_capacity_gb": 100, "free_capacity_gb": 100, "thick_provisioning_support": True}
    return [PoolCase(name, dice.choice([*ZONES, ""]), 0, dict(report)) for name in pool_names(dice, most)]


def detailed_pools(dice: random.Random) -> list[PoolCase]:
    """Return pools with figures and capabilities for queries and functions."""
    pools = []
    for name in pool_names(dice, 5):
        total = dice.randint(1, 1000)
        report = {
            "total_capacity_gb": total,
            "free_capacity_gb": dice.choice([dice.randint(0, total), round(dice.uniform(0, total), 2)]),
            "provisioned_capacity_gb": dice.randint(0, 2000),
            "reserved_percentage": dice.choice([0, 5, 10]),
            "max_over_subscription_ratio": dice.choice([1.0, 2.0, 2.5]),
            "thin_provisioning_support": dice.random() < 0.7,
            "thick_provisioning_support": dice.random() < 0.5,
            "vendor_name": dice.choice(["acme", "Acme", "7"]),
            "driver_version": dice.choice(["1.0", "2.3.4", "3"]),
            "storage_protocol": dice.choice(PROTOCOLS),
            "QoS_support": dice.choice([True, False]),
            "media": dice.choice(["ssd", "hdd"]),
            "latency": dice.choice([1, 0.5, "2", "1.5", "slow", True, None, [1], {"max": 3}]),
            "dedup": dice.choice([True, False]),
            "nested": {"level": dice.randint(1, 3)},
        }
        for key in dice.sample([*report], dice.choice([0, 0, 1, 2])):
            if key not in ("total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb"):
                del report[key]
        pools.append(PoolCase(name, dice.choice(ZONES), dice.randint(0, 500), report))
    return pools


def provisioning_specs(dice: random.Random) -> dict[str, str]:
    """Return extra specs with the provisioning type, or none."""
    if dice.random() < 0.6:
        return {}
    return {"provisioning:type": dice.choices(["thin", "thick", " Thick", "THIN", "fat"], [45, 45, 4, 3, 3])[0]}


def typed_request(dice: random.Random) -> CaseRequest:
    """Return a request whose volume type has extra specs and QoS specs for functions."""
    specs = {"tier": dice.choice(["gold", "2"])} if dice.random() < 0.5 else {}
    qos = {"maxIOPS": dice.choice(["500", "1000"])} if dice.random() < 0.5 else {}
    return CaseRequest(dice.randint(1, 200), extra_specs=specs, qos_specs=qos)
