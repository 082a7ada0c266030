# SPDX-License-Identifier: Apache-2.0
"""Random cases about where pools are: zones, volumes and instances beside them, pools that were tried."""

import random
from typing import Any

from beside_cinder import parts
from beside_cinder.cases import FOREIGN, INSTANCES, NO_INSTANCE, NO_VOLUME, VOLUMES, ZONES, Case, Wish


def zoned(dice: random.Random) -> Case:
    """Return a case about availability zones."""
    return Case("AvailabilityZoneFilter", Wish(1, zone=dice.choice([*ZONES, "north", "", None])), parts.plain(dice))


def beside(dice: random.Random) -> Case:
    """Return a case about volumes that a volume is to be near, or away from."""
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
        plugin, Wish(1, hints=dice.choice([{hint: value}, {hint: value}, {hint: value}, {}])), parts.plain(dice)
    )


def retried(dice: random.Random) -> Case:
    """Return a case about pools that have failed it before."""
    pools = parts.plain(dice)
    attempted = [pool.name for pool in pools if dice.random() < 0.4]
    return Case("RetryFilter", Wish(1, attempted=attempted), pools)


def local(dice: random.Random) -> Case:
    """Return a case about the host of an instance."""
    instance = dice.choices([*INSTANCES, NO_INSTANCE, "none", "", None], [5, 5, 3, 1, 1, 1, 1])[0]
    hints = {"local_to_instance": instance} if dice.random() < 0.9 else {}
    return Case("InstanceLocalityFilter", Wish(1, hints=hints), parts.plain(dice))
