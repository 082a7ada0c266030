# SPDX-License-Identifier: Apache-2.0
"""Tests of CapabilitiesFilter."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.capabilities import CapabilitiesFilter

PLUGIN = CapabilitiesFilter(SimpleNamespace())


def pool(**changes: Any) -> Pool:
    defaults: dict[str, Any] = {
        "name": "h@b#gold",
        "total": 100.0,
        "free": 50.0,
        "provisioned": 20.0,
        "allocated": 10.0,
        "reserved_percentage": 5.0,
        "ratio": 2.0,
        "thin": True,
        "capabilities": {
            "volume_backend_name": "ssd",
            "storage_protocol": ["iSCSI", "FC"],
            "qos": {"max": {"iops": 5000}},
            "empty": None,
        },
    }
    return Pool(**defaults | changes)


def accepts(one: Pool, **specs: str) -> bool:
    request = Request("r", 1, extra_specs=specs)
    table = PoolTable([pool(name="h@b#other", capabilities={}), one])
    mask = PLUGIN.narrow(table, request, np.array([False, True]))
    assert PLUGIN.accepts(table, request)[1] == mask[1]
    return bool(mask[1])


@pytest.mark.parametrize(
    ("key", "spec", "accepted"),
    [
        ("volume_backend_name", "ssd", True),
        ("volume_backend_name", "hdd", False),
        ("capabilities:volume_backend_name", "ssd", True),
        ("capabilities:volume_backend_name", "hdd", False),
        ("vendor:volume_backend_name", "hdd", True),
        ("provisioning:type", "thick", True),
        ("vendor_name", "anyone", False),
        ("vendor_name", "s!= anyone", False),
        ("storage_protocol", "FC", True),
        ("storage_protocol", "<in> iSC", True),
        ("storage_protocol", "<all-in> FC iSCSI", True),
        ("storage_protocol", "NFS", False),
        ("capabilities:qos:max:iops", ">= 5000", True),
        ("capabilities:qos:max:iops", ">= 5001", False),
        ("capabilities:qos:min:iops", ">= 0", False),
        ("capabilities:volume_backend_name:x", "ssd", False),
        ("capabilities:storage_protocol:0", "iSCSI", False),
        ("empty", "<is> False", False),
        ("total_capacity_gb", "== 100", True),
        ("free_capacity_gb", ">= 50", True),
        ("capabilities:free_capacity_gb", ">= 50.01", False),
        ("provisioned_capacity_gb", "<= 20", True),
        ("allocated_capacity_gb", "== 10", True),
        ("reserved_percentage", "== 5", True),
        ("max_over_subscription_ratio", "== 2.0", True),
        ("storage_free_capacity_gb", ">= 0", False),
        ("pool_name", "gold", True),
        ("pool_name", "silver", False),
        ("total_capacity_gb:deeper", "== 100", True),  # a foreign scope
        ("capabilities:total_capacity_gb:deeper", "== 100", False),
        ("capabilities", "<is> True", False),
        ("capabilities:", "x", False),
    ],
)
def test_one_spec(key: str, spec: str, accepted: bool) -> None:
    assert accepts(pool(), **{key: spec}) is accepted


@pytest.mark.parametrize("scope", ["", "capabilities:"])
@pytest.mark.parametrize("flag", ["thin", "thick"])
@pytest.mark.parametrize("supported", [True, False])
def test_provisioning_support(scope: str, flag: str, supported: bool) -> None:
    one = pool(**{"thin": False, "thick": False, flag: supported})
    key = f"{scope}{flag}_provisioning_support"
    assert accepts(one, **{key: "<is> True"}) is supported
    assert accepts(one, **{key: "<is> False"}) is not supported


def test_unknown_capacities_match_as_texts() -> None:
    one = pool(total=math.inf, free=math.nan, provisioned=math.nan)
    assert accepts(one, total_capacity_gb="infinite", free_capacity_gb="unknown")
    assert not accepts(one, total_capacity_gb=">= 10")
    assert not accepts(one, provisioned_capacity_gb="s!= x")


def test_every_spec_has_to_match() -> None:
    assert accepts(pool(), volume_backend_name="ssd", storage_protocol="FC", thin_provisioning_support="<is> True")
    assert not accepts(pool(), volume_backend_name="ssd", storage_protocol="NFS")


@pytest.mark.parametrize(
    ("reported", "spec", "fits"),
    [
        ("iSCSI", "iscsi", True),
        ("iscsi", "iSCSI", True),
        ("fc", "fibre_channel", True),
        ("fibre_channel", "<or> NFS <or> FC", True),
        ("NFS", "<in> nfs", True),
        ("nvmeof", "NVMe-oF", True),
        ("NVMe-oF", "NVMe-TCP", False),
        ("NVMe-TCP", "NVMe-oF", False),
        ("FC", "s!= FC", True),
        ("ceph", "Ceph", False),
        # A reported list contains all names of the protocol itself.
        (["iSCSI"], "iscsi", False),
    ],
)
def test_a_protocol_matches_under_each_of_its_names(reported: Any, spec: str, fits: bool) -> None:
    one = pool(capabilities={"storage_protocol": reported})
    for key in ("storage_protocol", "capabilities:storage_protocol"):
        assert accepts(one, **{key: spec}) is fits


def test_a_reason_has_the_reported_name_of_the_protocol() -> None:
    one = pool(capabilities={"storage_protocol": "iSCSI"})
    rejection = PLUGIN.reason(one, Request("r", 1, extra_specs={"storage_protocol": "FC"}))
    assert rejection.message == "reports storage_protocol 'iSCSI', which has to be 'FC'"


def test_columns_are_matched_row_by_row() -> None:
    kinds = ["even", "odd"] * 3
    table = PoolTable(pool(name=f"h@b#{i}", free=float(i), capabilities={"kind": kind}) for i, kind in enumerate(kinds))
    request = Request("r", 1, extra_specs={"kind": "odd", "free_capacity_gb": ">= 2"})
    assert PLUGIN.accepts(table, request).tolist() == [False, False, False, True, False, True]


def test_without_specs_every_pool_is_accepted() -> None:
    assert PLUGIN.accepts(PoolTable([pool()]), Request("r", 1)).tolist() == [True]
    assert PLUGIN.accepts(PoolTable(), Request("r", 1, extra_specs={"a": "b"})).tolist() == []


@pytest.mark.parametrize(
    ("specs", "code", "message"),
    [
        (
            {"volume_backend_name": "ssd", "capabilities:qos:max:iops": ">= 9000"},
            "capability_mismatch",
            "reports qos:max:iops 5000, which has to be '>= 9000'",
        ),
        (
            {"storage_protocol": "NFS"},
            "capability_mismatch",
            "reports storage_protocol ['iSCSI', 'FC'], which has to be 'NFS'",
        ),
        ({"vendor_name": "<in> x"}, "capability_missing", "does not report vendor_name, which has to be '<in> x'"),
        (
            {"thick_provisioning_support": "<is> True"},
            "capability_mismatch",
            "reports thick_provisioning_support False, which has to be '<is> True'",
        ),
        ({"pool_name": "x"}, "capability_mismatch", "reports pool_name 'gold', which has to be 'x'"),
        ({"free_capacity_gb": "> 1"}, "capability_mismatch", "reports free_capacity_gb 50.0, which has to be '> 1'"),
    ],
)
def test_reason(specs: dict[str, str], code: str, message: str) -> None:
    assert not accepts(pool(), **specs)
    rejection = PLUGIN.reason(pool(), Request("r", 1, extra_specs=specs))
    assert (rejection.code, rejection.message) == (code, message)
