# SPDX-License-Identifier: Apache-2.0
"""Response bodies as they are on the wire."""

from typing import Any

import msgspec
import pytest

from tonnage.api.schemas import response_bodies
from tonnage.api.schemas.response_bodies import ManageableDetail, Reference, VolumeDetail
from tonnage.capacity import type_conversion


def sent(value: Any) -> Any:
    """Return the JSON of a body, as a client decodes it."""
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.fixture
def volume() -> VolumeDetail:
    """A volume with the required keys alone."""
    texts = dict.fromkeys(
        ("name", "description", "availability_zone", "created_at", "updated_at", "volume_type", "source_volid")
    )
    return VolumeDetail(id="v", status="available", size=1, metadata={}, user_id="u", links=[], **texts)


def test_a_key_that_the_user_may_not_see_is_missing_and_an_empty_one_is_null(volume: VolumeDetail) -> None:
    assert "os-vol-host-attr:host" not in sent(volume)
    volume.host = None
    assert sent(volume)["os-vol-host-attr:host"] is None


def test_attributes_of_administrators_have_the_names_of_cinder(volume: VolumeDetail) -> None:
    volume.project_id, volume.host, volume.migstat, volume.name_id = "p", "h@b#p", "success", None
    assert {key: value for key, value in sent(volume).items() if key.startswith("os-")} == {
        "os-vol-tenant-attr:tenant_id": "p",
        "os-vol-host-attr:host": "h@b#p",
        "os-vol-mig-status-attr:migstat": "success",
        "os-vol-mig-status-attr:name_id": None,
    }


def test_features_that_tonnage_does_not_have_are_shown_as_unused(volume: VolumeDetail) -> None:
    """Clients read these keys without asking whether they are there. ``bootable`` is text in Cinder."""
    shown = sent(volume)
    assert (shown["attachments"], shown["bootable"]) == ([], "false")
    assert (shown["encrypted"], shown["multiattach"]) == (False, False)
    assert [shown[key] for key in ("snapshot_id", "consistencygroup_id", "replication_status")] == [None] * 3


def test_attachments_of_two_volumes_are_different_lists(volume: VolumeDetail) -> None:
    copied = type_conversion.convert(sent(volume) | {"links": []}, VolumeDetail)
    copied.attachments.append({"id": "a"})
    assert sent(volume)["attachments"] == []


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (response_bodies.VolumesSummary(response_bodies.Totals(0, 0)), "volume-summary"),
        (response_bodies.ManageableVolumes([]), "manageable-volumes"),
        (Reference("lun 7"), "source-name"),
    ],
)
def test_keys_that_are_no_names_of_python(value: Any, key: str) -> None:
    assert list(sent(value)) == [key]


def test_a_manageable_volume_is_safe_to_manage_and_its_details_are_left_out_of_lists() -> None:
    shown = sent(ManageableDetail(reference=Reference("lun 7"), size=2))
    assert shown == {"reference": {"source-name": "lun 7"}, "size": 2, "safe_to_manage": True}


def test_a_fault_without_data_has_a_code_and_a_message_alone() -> None:
    assert sent(response_bodies.Fault(404, "m")) == {"code": 404, "message": "m"}
    assert sent(response_bodies.Fault(413, "m", retryAfter="0"))["retryAfter"] == "0"
