# SPDX-License-Identifier: Apache-2.0
"""Hints and extra specs without effect."""

from types import SimpleNamespace

import pytest

from tonnage.capacity.request import Request
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.base import Filter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.storage_class import StorageClassFilter
from tonnage.filters.topology import TopologyFilter
from tonnage.scheduler.requests.ignored_keys import IgnoredKeys

HINTS = {
    "node_name": "n1",
    "accessibility_requirements": {"requisite": [{"segments": {"zone": "z1"}}]},
    "storage_class": "fast",
    "nobody-knows": "this",
    "query": "",
}
SPECS = {
    "media": "ssd",
    "capabilities:qos:iops": "5",
    "RESKEY:availability_zones": "north",
    "provisioning:type": "thin",
    "provisioning:min_vol_size": "1",
    "hpe3par:cpg": "gold",
}
UNREAD = "has no effect on Tonnage's own filters: none of them reads it"


class OwnTopology(TopologyFilter):
    """Somebody's own."""


def ignored_keys(*enabled: type[Filter]) -> IgnoredKeys:
    return IgnoredKeys(plugin(SimpleNamespace()) for plugin in enabled)


@pytest.mark.parametrize(
    ("enabled", "missing"),
    [
        ([], ["TopologyFilter", "TopologyFilter", "StorageClassFilter"]),
        ([TopologyFilter], ["StorageClassFilter"]),
        ([OwnTopology, StorageClassFilter], []),
    ],
)
def test_hints_without_an_enabled_filter(enabled: list[type[Filter]], missing: list[str]) -> None:
    *sentences, unknown = ignored_keys(*enabled).hints(HINTS)
    assert [sentence.rpartition(" ")[2] for sentence in sentences] == missing
    assert unknown == f"the hint nobody-knows {UNREAD}"


@pytest.mark.parametrize(
    ("enabled", "missing"),
    [
        ([], ["CapabilitiesFilter", "CapabilitiesFilter", "AvailabilityZoneFilter"]),
        ([CapabilitiesFilter], ["AvailabilityZoneFilter"]),
        ([CapabilitiesFilter, AvailabilityZoneFilter], []),
    ],
)
def test_extra_specs_without_an_enabled_filter(enabled: list[type[Filter]], missing: list[str]) -> None:
    *sentences, foreign = ignored_keys(*enabled).specs(SPECS)
    assert [sentence.rpartition(" ")[2] for sentence in sentences] == missing
    assert foreign == f"the extra spec hpe3par:cpg {UNREAD}"


def test_the_log_names_each_key_once_and_no_hint_that_only_its_sender_knows(caplog: pytest.LogCaptureFixture) -> None:
    ignored = ignored_keys(TopologyFilter, CapabilitiesFilter)
    for _ in range(2):
        ignored.tell(Request("r", 1, hints=HINTS, extra_specs=SPECS))
    named = ["the hint storage_class", "the extra spec RESKEY:availability_zones", "the extra spec hpe3par:cpg"]
    assert [record.getMessage().split(" has ")[0] for record in caplog.records] == [
        f"A volume was asked for, and {key}" for key in named
    ]
