# SPDX-License-Identifier: Apache-2.0
"""Random cases about the locations of pools: zones, affinity to volumes, instance locality, and retries."""

import random
from typing import Any

from cinder_comparison import case_elements
from cinder_comparison.cases import FOREIGN, INSTANCES, NO_INSTANCE, NO_VOLUME, VOLUMES, ZONES, Case, CaseRequest


def availability_zone(dice: random.Random) -> Case:
    """Return a case about availability zones."""
    return Case(
        "AvailabilityZoneFilter",
        CaseRequest(1, zone=dice.choice([*ZONES, "north", "", None])),
        case_elements.simple_pools(dice),
    )


def affinity(dice: random.Random) -> Case:
    """Return a case about affinity or anti-affinity to volumes."""
    plugin, hint = dice.choice([("SameBackendFilter", "same_host"), ("DifferentBackendFilter", "different_host")])
    some: list[Any] = dice.sample([*VOLUMES, *FOREIGN], dice.choice([1, 1, 2, 3]))
    value = dice.choices(
        [
            some[0],
            some,
            [*some, NO_VOLUME],
            [NO_VOLUME],
            [],
            "none",
            ["none"],
            [*some, "none"],
            "",
            None,
            some[0].replace("-", ""),
        ],
        [20, 40, 10, 10, 5, 3, 3, 3, 3, 3, 1],
    )[0]
    return Case(
        plugin,
        CaseRequest(1, hints=dice.choice([{hint: value}, {hint: value}, {hint: value}, {}])),
        case_elements.simple_pools(dice),
    )


def retry(dice: random.Random) -> Case:
    """Return a case about pools in which the volume has already failed."""
    pools = case_elements.simple_pools(dice)
    attempted = [pool.name for pool in pools if dice.random() < 0.4]
    return Case("RetryFilter", CaseRequest(1, attempted=attempted), pools)


def instance_locality(dice: random.Random) -> Case:
    """Return a case about the host of an instance."""
    instance = dice.choices([*INSTANCES, NO_INSTANCE, "none", "", None], [5, 5, 3, 1, 1, 1, 1])[0]
    hints = {"local_to_instance": instance} if dice.random() < 0.9 else {}
    return Case("InstanceLocalityFilter", CaseRequest(1, hints=hints), case_elements.simple_pools(dice))
