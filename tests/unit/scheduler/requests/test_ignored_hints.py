# SPDX-License-Identifier: Apache-2.0
"""Hints for filters that are not enabled."""

from types import SimpleNamespace

import pytest

from tonnage.filters.base import Filter
from tonnage.filters.storage_class import StorageClassFilter
from tonnage.filters.topology import TopologyFilter
from tonnage.scheduler.requests.ignored_hints import IgnoredHints


class OwnTopology(TopologyFilter):
    """Somebody's own."""


@pytest.mark.parametrize(
    ("enabled", "missing"),
    [
        ([], ["TopologyFilter", "TopologyFilter", "StorageClassFilter"]),
        ([TopologyFilter], ["StorageClassFilter"]),
        ([OwnTopology, StorageClassFilter], []),
    ],
)
def test_hints_without_an_enabled_filter(enabled: list[type[Filter]], missing: list[str]) -> None:
    hints = {
        "node_name": "n1",
        "accessibility_requirements": {"requisite": [{"segments": {"zone": "z1"}}]},
        "storage_class": "fast",
        "nobody-knows": "this",
        "query": "",
    }
    found = IgnoredHints(kind(SimpleNamespace()) for kind in enabled).among(hints)
    assert [words.rpartition(" ")[2] for words in found] == missing
