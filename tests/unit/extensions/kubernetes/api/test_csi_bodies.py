# SPDX-License-Identifier: Apache-2.0
"""Bodies about the storage of clusters."""

import datetime
from typing import Any

import msgspec
import pytest

from tests.unit.extensions.kubernetes.fit.decisions import GI, decide, driver, pool, volume
from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.api import csi_bodies
from tonnage.extensions.kubernetes.api.csi_bodies import FitRequest
from tonnage.extensions.kubernetes.capacity.driver_storage import Storage
from tonnage.extensions.kubernetes.fit.capacity_claims import Claim


def fit_request(**raw: Any) -> FitRequest:
    return type_conversion.convert(
        {"volumes": [], "nodes": [], **raw}, FitRequest, lambda target_type, value: target_type.parse(value)
    )


def test_volumes_and_nodes_are_read_with_their_sizes_and_labels() -> None:
    request = fit_request(
        volumes=[{"name": "a", "driver": "d", "storageClassName": "fast", "size": "1Gi"}, {"name": "b", "driver": "d"}],
        nodes=[{"name": "n1", "labels": {"zone": "a"}}, {"name": "n2", "labels": None}],
    )
    assert [(row.storage_class, row.size) for row in request.to_volumes()] == [("fast", GI), (None, None)]
    assert [node.labels for node in request.to_nodes().nodes] == [{"zone": "a"}, {}]


def test_names_are_unique() -> None:
    with pytest.raises(errors.InvalidInput, match="volume 'a' is named twice"):
        fit_request(volumes=[{"name": "a", "driver": "d"}] * 2).to_volumes()
    with pytest.raises(errors.InvalidInput, match="node 'n' is named twice"):
        fit_request(nodes=[{"name": "n"}] * 2).to_nodes()


@pytest.mark.parametrize("holder", ["", "a/b", "a ", "x" * 256])
def test_a_holder_fits_into_a_path(holder: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        fit_request(claim={"holder": holder})


def test_a_response_has_fitting_nodes_and_refused_ones_with_reasons() -> None:
    of_driver = driver(Storage("fast", (pool("p", 8, node_list=("n1",)), pool("q", 1, node_list=("n2",)))))
    response = csi_bodies.fit_response(decide([of_driver], volume(2), volume(None, name="any")), None, None)
    assert [(node.name, node.remaining_fraction) for node in response.nodes] == [("n1", 0.75)]
    assert [(node.name, node.code, len(node.pools)) for node in response.refused] == [
        ("n2", "TooLarge", 1),
        ("n3", "Unreachable", 0),
    ]
    assert (response.refused[0].pools[0].headroom, response.refused[0].volumes) == ("1Gi", ["data"])
    assert ([row.name for row in response.unchecked], response.claim) == (["any"], None)


def test_the_claims_of_a_holder_have_their_node_and_expiry() -> None:
    expires_at = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC).replace(tzinfo=None)
    claim = Claim(
        holder="h", volume="v", node="n1", driver="d", storage_class="fast", pool="p", size=GI, expires_at=expires_at
    )
    body = csi_bodies.holder_claims("h", [claim])
    assert (body.node, body.expires_at, body.volumes[0].size) == ("n1", "2026-11-21T12:00:00Z", "1Gi")
    assert csi_bodies.holder_claims("h", []) == csi_bodies.HolderClaims("h", None, None, [])
