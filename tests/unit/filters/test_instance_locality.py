# SPDX-License-Identifier: Apache-2.0
"""InstanceLocalityFilter."""

from types import SimpleNamespace

import numpy as np

from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.instance_locality import InstanceLocalityFilter

POOLS = PoolTable(Pool(name=name, total=10.0, free=10.0) for name in ("one@lvm#a", "one@ssd#b", "two@lvm#a"))
PLUGIN = InstanceLocalityFilter(SimpleNamespace())
INSTANCE = "5d1b3d74-5c0f-4c6b-9d2c-3a1b8f0e7c11"


def test_without_the_hint_every_pool_will_do() -> None:
    assert PLUGIN.accepts(POOLS, Request("r", 1)).all()


def test_pools_on_the_host_of_the_instance() -> None:
    request = Request("r", 1, hints={"local_to_instance": INSTANCE}, instance_host="one")
    assert PLUGIN.accepts(POOLS, request).tolist() == [True, True, False]
    assert PLUGIN.narrow(POOLS, request, np.array([False, True, True])).tolist()[1:] == [True, False]
    rejection = PLUGIN.reason(POOLS.row(2), request)
    assert rejection.message == (
        f"is on host two; instance {INSTANCE}, which the hint local_to_instance names, runs on one"
    )
    assert rejection.numbers == {"instance": INSTANCE, "host": "two", "instance_host": "one"}


def test_a_hint_that_nobody_could_look_up_is_refused_with_that_reason() -> None:
    request = Request("r", 1, hints={"local_to_instance": INSTANCE})
    assert not PLUGIN.accepts(POOLS, request).any()
    rejection = PLUGIN.reason(POOLS.row(0), request)
    assert rejection.code == "no_compute_service"
    assert rejection.message == (
        "cannot be chosen by the hint local_to_instance: no compute service (Nova) is configured that knows where "
        f"instance {INSTANCE} runs"
    )
