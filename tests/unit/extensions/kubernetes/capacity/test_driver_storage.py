# SPDX-License-Identifier: Apache-2.0
"""The storage of a driver."""

import pytest

from tests.unit.extensions.kubernetes.fit.decisions import zone
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity import driver_storage
from tonnage.extensions.kubernetes.capacity.driver_storage import EPHEMERAL, FALLBACK, Driver, Pool


@pytest.mark.parametrize(
    ("storages", "storage_class", "storage_name"),
    [
        ({"fast", FALLBACK}, "fast", "fast"),
        ({FALLBACK}, "fast", FALLBACK),
        ({"slow"}, "fast", None),
        ({EPHEMERAL, FALLBACK}, None, EPHEMERAL),
        ({FALLBACK}, None, FALLBACK),
        (set(), None, None),
    ],
)
def test_a_storage_of_the_class_takes_precedence_over_the_fallback(
    storages: set[str], storage_class: str | None, storage_name: str | None
) -> None:
    assert driver_storage.storage_for_class(storages, storage_class) == storage_name


def test_the_first_name_that_repeats_is_the_duplicate() -> None:
    assert driver_storage.first_duplicate(["a", "b", "c", "b", "a"]) == "b"
    assert driver_storage.first_duplicate(["a", "b"]) is None
    assert driver_storage.first_duplicate([]) is None


def test_a_driver_that_was_created_again_has_another_version_for_clients() -> None:
    first, second = (Driver(name="d", uid=uid, version=3, tracking=True) for uid in ("12ab-9", "34cd-9"))
    assert (first.resource_version, second.resource_version) == ("12ab-3", "34cd-3")


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        (Pool(name="p", node_topology=zone("a"), node_list=("n1",)), "has nodeTopology and nodeList"),
        (Pool(name="p", node_list=()), "has an empty nodeList"),
        (Pool(name="p", node_list=("n1", "n2", "n1")), "names a node twice in nodeList: n1"),
    ],
)
def test_contradictory_nodes_are_refused_with_pool_and_class(pool: Pool, problem: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"pool 'p' of storage 'fast' {problem}"):
        pool.validate("fast")


@pytest.mark.parametrize(
    "pool", [Pool(name="p"), Pool(name="p", node_list=("n1", "n2")), Pool(name="p", node_topology=zone("a"))]
)
def test_nodes_are_all_those_in_a_list_or_those_with_labels(pool: Pool) -> None:
    pool.validate("fast")
