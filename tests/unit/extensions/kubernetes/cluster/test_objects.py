# SPDX-License-Identifier: Apache-2.0
"""Objects of Kubernetes, reduced to what determines the volumes of a pod."""

import json
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.objects import NodeList, PersistentVolume, PersistentVolumeClaim, Pod


def claim(spec: dict[str, Any], **annotations: str) -> PersistentVolumeClaim:
    raw = {"metadata": {"name": "data", "annotations": annotations or None}, "spec": spec}
    return objects.decode(json.dumps(raw).encode(), PersistentVolumeClaim)


def pod(name: str = "redis", phase: str | None = None, **metadata: Any) -> Pod:
    raw: dict[str, Any] = {"metadata": {"name": name, **metadata}}
    if phase is not None:
        raw["status"] = {"phase": phase}
    return objects.decode(json.dumps(raw).encode(), Pod)


@pytest.mark.parametrize(
    ("resources", "size"),
    [
        ({"requests": {"storage": "1.5Gi"}}, 3 * 2**29),
        ({"requests": {"cpu": "1"}}, None),
        ({"requests": None}, None),
        (None, None),
    ],
)
def test_a_claim_requests_a_size_or_none(resources: Any, size: int | None) -> None:
    assert claim({"resources": resources}).spec.size == size


def test_the_annotation_of_the_storage_class_takes_precedence() -> None:
    assert claim({"storageClassName": "fast"}).storage_class == "fast"
    annotated = claim({"storageClassName": "fast"}, **{"volume.beta.kubernetes.io/storage-class": "slow"})
    assert annotated.storage_class == "slow"
    assert claim({}).storage_class is None


def test_a_claim_names_the_node_that_was_selected_for_it() -> None:
    assert claim({}, **{"volume.kubernetes.io/selected-node": "n1"}).selected_node == "n1"
    assert claim({}).selected_node is None


@pytest.mark.parametrize(
    ("phase", "started", "ended"),
    [
        (None, False, False),
        ("Pending", False, False),
        ("Running", True, False),
        ("Succeeded", True, True),
        ("Failed", True, True),
        ("Unknown", True, False),
    ],
)
def test_the_phase_tells_whether_a_pod_has_started_or_ended(phase: str | None, started: bool, ended: bool) -> None:
    assert (pod(phase=phase).has_started, pod(phase=phase).has_ended) == (started, ended)


def test_claims_are_held_by_the_uid_or_by_a_name_that_fits_into_a_path() -> None:
    assert pod(uid="u1").holder == "u1"
    assert (pod().holder, pod().full_name) == ("default:redis", "default/redis")
    long = [pod("x" * 253, namespace=f"{letter * 63}").holder for letter in "ab"]
    assert [len(holder) for holder in long] == [64, 64]
    assert long[0] != long[1]


def test_an_empty_list_may_be_null() -> None:
    assert objects.decode(b'{"items": null, "metadata": {"continue": "token"}}', NodeList).items is None


def test_a_volume_without_affinity_is_reached_from_all_nodes() -> None:
    for spec in (b"{}", b'{"nodeAffinity": null}', b'{"nodeAffinity": {}}'):
        assert objects.decode(b'{"spec": ' + spec + b"}", PersistentVolume).accessibility is None


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"metadata": 1}', b'{"metadata": {"name": "\xff"}}', b"[" * 100_000])
def test_a_malformed_object_is_refused_with_its_type(raw: bytes) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^Pod: "):
        objects.decode(raw, Pod)
