# SPDX-License-Identifier: Apache-2.0
"""Tests of InstanceLocalityFilter."""

from types import SimpleNamespace

import numpy as np

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Locality, Request
from tonnage.filters.instance_locality import InstanceLocalityFilter

POOLS = PoolTable(Pool(name=name, total=10.0, free=10.0) for name in ("one@lvm#a", "one@ssd#b", "two@lvm#a"))
PLUGIN = InstanceLocalityFilter(SimpleNamespace())
INSTANCE = "5d1b3d74-5c0f-4c6b-9d2c-3a1b8f0e7c11"


def test_without_the_hint_every_pool_is_accepted() -> None:
    assert PLUGIN.accepts(POOLS, Request("r", 1)).all()


def test_pools_on_the_host_of_the_instance_are_accepted() -> None:
    request = Request("r", 1, hints={"local_to_instance": INSTANCE}, locality=Locality("one"))
    assert PLUGIN.accepts(POOLS, request).tolist() == [True, True, False]
    assert PLUGIN.narrow(POOLS, request, np.array([False, True, True])).tolist()[1:] == [True, False]
    rejection = PLUGIN.reason(POOLS.row(2), request)
    assert rejection.message == (
        f"is on host two; instance {INSTANCE}, which the hint local_to_instance names, runs on another"
    )
    assert rejection.numbers == {"instance": INSTANCE, "host": "two"}


def test_without_a_compute_service_every_pool_is_refused() -> None:
    request = Request("r", 1, hints={"local_to_instance": INSTANCE})
    assert not PLUGIN.accepts(POOLS, request).any()
    rejection = PLUGIN.reason(POOLS.row(0), request)
    assert rejection.code == "no_compute_service"
    assert rejection.message == (
        "cannot be chosen by the hint local_to_instance: no compute service (Nova) is configured that knows where "
        f"instance {INSTANCE} runs"
    )


def test_an_unknown_host_is_refused_with_the_reason_of_the_lookup() -> None:
    unknown = Locality(code="instance_not_found", problem="Nova knows no such instance")
    request = Request("r", 1, hints={"local_to_instance": INSTANCE}, locality=unknown)
    assert not PLUGIN.accepts(POOLS, request).any()
    rejection = PLUGIN.reason(POOLS.row(0), request)
    assert rejection.code == "instance_not_found"
    assert rejection.message == "cannot be chosen by the hint local_to_instance: Nova knows no such instance"
    assert rejection.numbers == {"instance": INSTANCE}


def test_an_invalid_id_in_the_hint_refuses_every_pool() -> None:
    for value in ("web", 5, [INSTANCE]):
        request = Request("r", 1, hints={"local_to_instance": value}, locality=Locality("one"))
        assert not PLUGIN.accepts(POOLS, request).any()
        assert PLUGIN.reason(POOLS.row(0), request).code == "bad_hint"
