# SPDX-License-Identifier: Apache-2.0
"""Random cases about the capacity filter and the weighers."""

import random
from typing import Any

from cinder_comparison import case_elements, expressions
from cinder_comparison.cases import CINDER, STANDARD, WEIGHERS, Case, CaseRequest, PoolCase


def capacity(dice: random.Random) -> Case:
    """Return a case about the capacity filter. The size of the request is often close to a limit."""
    calculation, ratio = dice.choice([STANDARD, CINDER]), dice.choice([20.0, 1.0, 1.7, "auto"])
    specs = case_elements.provisioning_specs(dice)
    pools = []
    for name in case_elements.pool_names(dice, 4):
        report = case_elements.consistent_report(dice, extreme=0.15)
        allocated = dice.choice([0, round(dice.uniform(0, 200))])
        placed = [dice.randint(1, 50) for _ in range(dice.choice([0, 0, 0, 1, 3]))]
        if dice.random() < 0.04:
            _spoiled(dice, report)
        pools.append(PoolCase(name, "east", allocated, report, placed))
    size = dice.randint(1, 200) if dice.random() < 0.5 else max(1, _near_a_limit(dice, pools[0], calculation))
    # Both treat the growth of a volume like a new volume of that size.
    before = dice.choice([0, 0, 0, dice.randint(1, 100)])
    wish = CaseRequest(before or size, before + size if before else 0, extra_specs=specs)
    return Case("CapacityFilter", wish, pools, calculation, ratio)


def _near_a_limit(dice: random.Random, pool: PoolCase, calculation: str) -> int:
    """Change a pool so that one of its limits equals a size, exactly or nearly; return the size in GiB."""
    report = pool.report
    total, free, ratio = map(report.get, ("total_capacity_gb", "free_capacity_gb", "max_over_subscription_ratio"))
    percentage = report.get("reserved_percentage", 0)
    if not all(type(value) in (int, float) for value in (total, free, ratio, percentage)):
        return dice.randint(1, 200)
    reserve = int(total * percentage / 100)
    if dice.random() < 0.3:
        return int((free - reserve) * dice.choice([1, ratio])) + dice.choice([-1, 0, 0, 1])
    size = dice.randint(1, 100)
    near = dice.choice([0, 0, 0, 0.003, -0.003, 0.01, 0.3, 0.5])
    if not near:
        # The limit has two decimals, which decimal numbers represent exactly and binary fractions do not.
        total, ratio = round(total, 1), round(dice.uniform(1.1, 5), 1)
        report.update(total_capacity_gb=total, max_over_subscription_ratio=ratio)
    limit = (total - reserve) * ratio if calculation == STANDARD else total * ratio
    report["provisioned_capacity_gb"] = max(0, round(limit - size - sum(pool.placed) + near, 3))
    return size


def _spoiled(dice: random.Random, report: dict[str, Any]) -> None:
    """Put an invalid value into a report, or remove a required field."""
    key = dice.choice(
        [
            "total_capacity_gb",
            "free_capacity_gb",
            "provisioned_capacity_gb",
            "reserved_percentage",
            "max_over_subscription_ratio",
            "thin_provisioning_support",
        ]
    )
    value = dice.choice([None, None, "much", str(report.get(key, 10)), -5, True, "True", [], "missing"])
    if value == "missing":
        report.pop(key, None)
    else:
        report[key] = value


def weights(dice: random.Random) -> Case:
    """Return a case about one or several weighers."""
    calculation, specs = dice.choice([STANDARD, CINDER]), case_elements.provisioning_specs(dice)
    names = ["CapacityWeigher", "AllocatedCapacityWeigher", "GoodnessWeigher", "VolumeNumberWeigher"]
    several = dice.random() < 0.4
    chosen = dice.sample(names, dice.randint(2, 4)) if several else [dice.choice([*names[:1] * 3, *names])]
    alike = dice.random() < 0.1
    if alike:
        specs, chosen = {}, names[:2]
    weighers = {name: dice.choice([1.0, -1.0, 2.0, 0.5, -3.0]) for name in chosen}
    if "GoodnessWeigher" in weighers:
        weighers["GoodnessWeigher"] = 1.0  # it has no option for its multiplier
    pools = []
    for pool in case_elements.detailed_pools(dice):
        # Functions read consistent figures.
        figures = case_elements.consistent_report(
            dice, extreme=0 if "GoodnessWeigher" in weighers else 0.03 if several else 0.25
        )
        for key in ("thin_provisioning_support", "thick_provisioning_support"):
            pool.report.pop(key, None)
        pool.report.update(figures)
        if "GoodnessWeigher" in weighers and dice.random() < 0.9:
            pool.report["goodness_function"] = expressions.rating(dice)
            pool.report.update(case_elements.two_decimals(pool.report))
        placed = [dice.randint(1, 50)] if dice.random() < 0.2 and "GoodnessWeigher" not in weighers else []
        pools.append(PoolCase(pool.name, pool.zone, pool.allocated, pool.report, placed))
    if alike:
        pools = _alike(dice, pools)
    wish = case_elements.typed_request(dice)
    wish.extra_specs.update(specs)
    return Case(WEIGHERS, wish, pools, calculation, dice.choice([20.0, 1.7, "auto"]), weighers)


def _alike(dice: random.Random, pools: list[PoolCase]) -> list[PoolCase]:
    """Return two of these pools with equal headroom, from figures that binary fractions represent inexactly."""
    room = dice.randint(1, 50)
    for pool in pools[:2]:
        total = round(dice.uniform(50, 2000), 1)
        pool.report.update(
            total_capacity_gb=total,
            free_capacity_gb=total,
            provisioned_capacity_gb=round(total * 1.7 - room, 2),
            reserved_percentage=0,
            max_over_subscription_ratio=1.7,
            thin_provisioning_support=True,
        )
        pool.placed.clear()
    return pools[:2]
