# SPDX-License-Identifier: Apache-2.0
"""The options of inline ephemeral volumes, and what a plugin is told when one is published."""

from pathlib import Path

import pytest

from tests.unit.drivers.csi.backends import section
from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers.csi.ephemeral_volumes import InlineFolder, Publication, inline_folder

TEXT = """csi_storage_classes = fast, <ephemeral>
csi_topology = node
csi_ephemeral_folder = {folder}
csi_pod_info = true
"""


def test_a_section_without_a_folder_publishes_nothing(tmp_path: Path) -> None:
    assert inline_folder(section(tmp_path, "")) is None


def test_the_folder_and_the_attributes_are_read(tmp_path: Path) -> None:
    attributes = 'csi_ephemeral_attributes = {"media": "scratch"}'
    folder = inline_folder(section(tmp_path, TEXT.format(folder=tmp_path) + attributes))
    assert folder == InlineFolder(tmp_path, {"media": "scratch"})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fast, <ephemeral>", "fast", "name <ephemeral> among csi_storage_classes"),
        ("csi_topology = node", "csi_topology = none", "set csi_topology = node"),
        ("csi_pod_info = true", "", "without pod information"),
        ("{folder}", "/nowhere", "there is no such folder"),
        ("csi_pod_info", 'csi_ephemeral_attributes = {{"a": 1}}\ncsi_pod_info', "a is 1; all values are text"),
    ],
)
def test_incomplete_options_for_inline_volumes_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(errors.ConfigurationError, match=rf"^\[csi\] csi_ephemeral_.*{words}"):
        inline_folder(section(tmp_path, TEXT.replace(old, new).format(folder=tmp_path)))


@pytest.mark.parametrize(
    ("size", "quantity"), [(GIB, "1Gi"), (3 * GIB, "3Gi"), (GIB + 1, "1073741825"), (2**20, "1048576")]
)
def test_a_size_is_a_quantity_of_kubernetes(tmp_path: Path, size: int, quantity: str) -> None:
    publication = InlineFolder(tmp_path, {}).publication("csi-1", size)
    assert publication.publish_context == {"csi.storage.k8s.io/size": quantity}
    assert publication.target == str(tmp_path / "csi-1")


def test_attributes_do_not_replace_the_pod_information() -> None:
    attributes = {"media": "scratch", "csi.storage.k8s.io/ephemeral": "false", "csi.storage.k8s.io/pod.name": "other"}
    publication = Publication(handle="csi-1", size=None, target="/pods/csi-1", attributes=attributes)
    assert publication.volume_context == {
        "media": "scratch",
        "csi.storage.k8s.io/ephemeral": "true",
        "csi.storage.k8s.io/pod.name": "csi-1",
        "csi.storage.k8s.io/pod.namespace": "tonnage",
        "csi.storage.k8s.io/pod.uid": "csi-1",
    }
