# SPDX-License-Identifier: Apache-2.0
"""The storage classes of a cluster, and how often they are listed."""

from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.servers.kube_api import CLASSES, KubeApi
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.provisioner.class_cache import StorageClasses


class Lists:
    """A cluster with a class, and a reader of its classes with a clock."""

    def __init__(self, kube: KubeApi, api: client.ApiClient) -> None:
        self.kube, self.seconds = kube, 0.0
        kube.add_class("fast", "a.example.com", parameters={"vg": "one"})
        kube.add_class("other", "b.example.com")
        self._classes = StorageClasses(api, ["a.example.com"], lambda: self.seconds)

    def read(self, *names: str) -> tuple[list[str], int]:
        """Return the names of the classes, and how often they have been listed."""
        return sorted(self._classes.read(names)), self.kube.asked.count(CLASSES)


@pytest.fixture
def lists() -> Iterator[Lists]:
    with KubeApi() as kube:
        settings = client.Configuration(host=kube.url)
        settings.retries = False
        with client.ApiClient(settings) as api:
            yield Lists(kube, api)


def test_classes_are_listed_once_a_minute(lists: Lists) -> None:
    assert lists.read("fast", "other") == (["fast"], 1)
    lists.seconds = 59.0
    assert lists.read("fast", "other") == (["fast"], 1)
    lists.kube.remove_object(f"{CLASSES}/fast")
    lists.seconds = 60.0
    assert lists.read() == ([], 2)


def test_a_new_class_is_seen_when_an_object_of_it_comes(lists: Lists) -> None:
    lists.read("fast")
    lists.kube.add_class("safe", "a.example.com")
    lists.seconds = 6.0
    assert lists.read("fast", "safe") == (["fast", "safe"], 2)


def test_objects_of_a_deleted_class_do_not_lead_to_a_list_at_each_round(lists: Lists) -> None:
    lists.read("fast")
    counts = []
    for second in range(12):
        lists.seconds = float(second)
        counts.append(lists.read("fast", "gone")[1])
    assert counts == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]


def test_a_failure_is_tried_again(lists: Lists) -> None:
    lists.kube.failing["GET"] = 403
    with pytest.raises(errors.Unavailable, match="refused a look at storage classes: 403"):
        lists.read("fast")
    del lists.kube.failing["GET"]
    assert lists.read("fast")[0] == ["fast"]
