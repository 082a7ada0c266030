# SPDX-License-Identifier: Apache-2.0
"""An encrypted volume that moves to grow stays on storage of its own sort."""

from typing import Any

import pytest

from tonnage.extensions.cinder.growth import storage_protocol

_ISCSI = ["iSCSI", "iscsi"]


@pytest.mark.parametrize(("own", "other", "is_unsuitable"), [
    ("iSCSI", "iSCSI", False), ("iSCSI", "ceph", True), (_ISCSI, "iSCSI", False), (_ISCSI, ["FC", "fc"], True),
    (None, None, True), ("iSCSI", None, True),
])  # fmt: skip
def test_an_encrypted_volume_stays_on_storage_of_its_own_sort(own: Any, other: Any, is_unsuitable: bool) -> None:
    assert storage_protocol.unsuitable(own, other, is_encrypted=True) is is_unsuitable
    assert not storage_protocol.unsuitable(own, other, is_encrypted=False)


def test_a_refusal_names_the_protocol() -> None:
    reason = "it is encrypted, and no other pool with room has its storage_protocol ({})"
    assert storage_protocol.obstacle(_ISCSI) == reason.format("iscsi")
    assert storage_protocol.obstacle(None) == reason.format("none")
