# SPDX-License-Identifier: Apache-2.0
"""Requests as Cinder's filters judge them."""

import operator
from typing import Any

import pytest

from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.pools import filter_requests


@pytest.mark.parametrize(
    ("properties", "size_gb"),
    [({"size": 5}, 5), ({"size": "5"}, 5), ({"size": 5, "new_size": 8}, 3), ({"size": None}, 0), ({}, 0)],
)
def test_an_extended_volume_needs_its_growth(properties: dict[str, Any], size_gb: int) -> None:
    assert filter_requests.read_request(properties).size_gb == size_gb


@pytest.mark.parametrize(
    ("spec", "zones"),
    [
        ({"availability_zones": ["a", "b"], "resource_properties": {"availability_zone": "c"}}, ("a", "b")),
        ({"availability_zones": None, "resource_properties": {"availability_zone": "c"}}, ("c",)),
        ({"resource_properties": {"availability_zone": None}}, ()),
        ({"resource_properties": None}, ()),
        (None, ()),
    ],
)
def test_several_zones_take_precedence_over_one(spec: dict[str, Any] | None, zones: tuple[str, ...]) -> None:
    assert filter_requests.read_request({"request_spec": spec}).zones == zones


@pytest.mark.parametrize(
    ("volume_type", "provisioning"),
    [
        ({"extra_specs": {"provisioning:type": "thick"}}, Provisioning.THICK),
        ({"extra_specs": {"provisioning:type": "thin"}}, None),
        ({"extra_specs": None}, None),
        (None, None),
    ],
)
def test_only_a_thick_type_is_thick_for_certain(volume_type: Any, provisioning: Provisioning | None) -> None:
    assert filter_requests.read_request({"volume_type": volume_type}).provisioning is provisioning


@pytest.mark.parametrize(
    ("operation", "status", "grows"),
    [("extend_volume", "attached", True), ("extend_volume", "detached", False), ("create_volume", "attached", False)],
)
def test_a_volume_in_use_grows_attached(operation: str, status: str, grows: bool) -> None:
    spec = {"operation": operation, "volume_properties": {"attach_status": status}}
    assert filter_requests.read_request({"request_spec": spec}).grows_attached is grows


def test_capabilities_are_required_with_their_scope_or_without_any() -> None:
    specs = {"capabilities:disk:type": "ssd", "compression": "<is> True", "volume:qos": "x"}
    assert list(filter_requests.required(specs)) == [(["disk", "type"], "ssd"), (["compression"], "<is> True")]


@pytest.mark.parametrize(
    ("value", "expected"), [("ssd", True), (["hdd", "ssd"], True), (["hdd"], False), ([], False), (MISSING, False)]
)
def test_one_of_several_values_has_to_match(value: Any, expected: bool) -> None:
    assert filter_requests.matches(operator.eq, value, "ssd") is expected


def test_values_that_cannot_be_compared_do_not_match() -> None:
    assert not filter_requests.matches(operator.lt, None, 3)
