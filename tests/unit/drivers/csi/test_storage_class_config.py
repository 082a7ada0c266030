# SPDX-License-Identifier: Apache-2.0
"""Storage classes from their sections."""

from pathlib import Path

import pytest

from tests.unit.drivers.csi.backends import section
from tonnage.capacity import errors
from tonnage.drivers.csi.storage_class_config import CLASS_OPTIONS, EPHEMERAL, VolumeSettings, storage_class


def test_a_class_has_the_settings_of_its_section(tmp_path: Path) -> None:
    text = 'csi_parameters = {"copies": "2"}\ncsi_access = block\nreserved_percentage = 5'
    gold = storage_class("gold", section(tmp_path, text), "host@csi")
    assert gold.settings == VolumeSettings(parameters={"copies": "2"}, access="block")
    assert gold.storage_id is None
    assert (gold.capabilities["reserved_percentage"], gold.capabilities["volume_backend_name"]) == (5, "csi")


def test_an_empty_storage_id_is_none(tmp_path: Path) -> None:
    assert storage_class("gold", section(tmp_path, "csi_storage_id ="), "host@csi").storage_id is None


def test_inline_volumes_have_no_settings(tmp_path: Path) -> None:
    """Parameters of the backend's section are those of its other classes."""
    conf = section(tmp_path, 'csi_parameters = {"a": "b"}\ncsi_storage_id = disks')
    inline = storage_class(EPHEMERAL, conf.pool(EPHEMERAL, CLASS_OPTIONS), "host@csi")
    assert (inline.settings, inline.storage_id) == (None, "disks")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('csi_parameters = {"copies": 2}', r"^\[csi\] csi_parameters: copies is 2; all values are text, so quote it"),
        ('csi_parameters = {"csi.storage.k8s.io/fstype": "xfs"}', "never reaches a plugin"),
        ("storage_classes = fast", "storage_classes: volume_driver = csi has them from csi_storage_classes"),
        ("provisioner = disk.example.com", r"^\[csi\] provisioner = disk.example.com: .* it is the plugin"),
        ("csi_topology = node\nnode_list = n1, n2", "node_list: with csi_topology = node the driver finds out"),
        ("csi_topology = labels\nnode_name = n1", "node_name: with csi_topology = labels the driver finds out"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        storage_class("gold", section(tmp_path, text), "host@csi")


def test_an_inline_class_has_no_parameters(tmp_path: Path) -> None:
    conf = section(tmp_path, '[csi:<ephemeral>]\ncsi_parameters = {"a": "b"}').pool(EPHEMERAL, CLASS_OPTIONS)
    message = r"^\[csi:<ephemeral>\] csi_parameters: inline ephemeral volumes have no class and no parameters"
    with pytest.raises(errors.ConfigurationError, match=message):
        storage_class(EPHEMERAL, conf, "host@csi")


def test_nodes_are_named_by_hand_where_the_driver_does_not_find_them(tmp_path: Path) -> None:
    gold = storage_class("gold", section(tmp_path, "node_list = n1, n2"), "host@csi")
    assert gold.capabilities["node_list"] == ["n1", "n2"]
