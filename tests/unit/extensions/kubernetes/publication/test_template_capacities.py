# SPDX-License-Identifier: Apache-2.0
"""Entries for the simulated nodes of cluster-autoscaler."""

import pytest

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.publication import template_capacities
from tonnage.extensions.kubernetes.publication.template_capacities import TEMPLATE_LABEL, TemplateCapacity

GI = 2**30


def test_a_line_has_a_class_a_size_and_labels() -> None:
    assert template_capacities.parse(["fast 100Gi", "fast  1.5Gi pool=a zone=z1 "]) == [
        TemplateCapacity("fast", 100 * GI),
        TemplateCapacity("fast", GI + GI // 2, (("pool", "a"), ("zone", "z1"))),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "is no quantity"),
        ("fast", "is no quantity"),
        ("fast much", "is no quantity"),
        ("fast 1Gi pool", "a label has the form key=value"),
    ],
)
def test_a_malformed_line_is_an_error_of_the_configuration(line: str, problem: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"template_node_capacity = {line}: .*{problem}.*; expected"):
        template_capacities.parse([line])


def test_entries_are_for_simulated_nodes_and_for_classes_that_are_there() -> None:
    capacities = template_capacities.parse(["fast 100Gi pool=a", "fast 200Gi pool=b", "gone 1Gi"])
    entries = template_capacities.build_entries(capacities, {"fast": "disk.example.com", "slow": "disk.example.com"})
    assert [(entry.driver, entry.capacity) for entry in entries.values()] == [
        ("disk.example.com", 100 * GI),
        ("disk.example.com", 200 * GI),
    ]
    for entry in entries.values():
        assert (entry.selector[0].key, entry.selector[0].values) == (TEMPLATE_LABEL, ("true",))
    # The name depends on the fields of an object that cannot change.
    larger = template_capacities.build_entries(
        template_capacities.parse(["fast 300Gi pool=a"]), {"fast": "disk.example.com"}
    )
    assert larger.keys() < entries.keys()
