# SPDX-License-Identifier: Apache-2.0
"""Requests for volumes are the messages on the bus: their plain form has the names of the fields."""

import datetime

from tonnage.capacity.volume_request import CreateVolume, ManageVolume
from tonnage.rpc import serialization

ASKED_AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def test_a_new_volume_is_the_same_after_the_bus() -> None:
    volume = CreateVolume(
        request_id="req-1",
        asked_at=ASKED_AT,
        volume_id="v1",
        project_id="demo",
        user_id="alice",
        name="data",
        description="of the shop",
        volume_type="gold",
        metadata={"key": "value"},
        size_gb=7,
        availability_zone="nova",
        hints={"same_host": ["v0"]},
        source_volume_id="v0",
        group_id="g1",
    )
    plain = serialization.pack(volume)
    assert plain["size_gb"] == 7
    assert serialization.unpack(plain, CreateVolume) == volume


def test_a_volume_on_the_storage_needs_a_pool_and_a_reference() -> None:
    volume = ManageVolume(request_id="req-1", volume_id="v1", project_id="demo", pool="h@b#p", reference="image")
    assert serialization.pack(volume) == {
        "request_id": "req-1",
        "asked_at": None,
        "volume_id": "v1",
        "project_id": "demo",
        "user_id": "",
        "name": None,
        "description": None,
        "volume_type": None,
        "metadata": {},
        "pool": "h@b#p",
        "reference": "image",
    }
