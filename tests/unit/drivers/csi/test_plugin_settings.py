# SPDX-License-Identifier: Apache-2.0
"""The plugin's socket, its state file and its storage classes, as a section names them."""

from pathlib import Path

import pytest

from tests.unit.drivers.csi.backends import section
from tonnage.capacity import errors
from tonnage.drivers.csi import plugin_settings

#: A path of 107 bytes, which is as long as a path of a socket can be.
LONGEST_PATH = "/" + "x" * 106


@pytest.mark.parametrize("address", ["unix:///csi.sock", f"unix://{LONGEST_PATH}"])
def test_a_socket_of_this_machine_is_taken(tmp_path: Path, address: str) -> None:
    assert plugin_settings.endpoint(section(tmp_path, f"csi_endpoint = {address}")) == address


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:9",
        "unix:csi.sock",
        "unix://csi.sock",
        "/csi.sock",
        "unix:///csi.sock?a=b",
        f"unix://{LONGEST_PATH}x",
        "unix:///" + "é" * 54,
    ],
)
def test_other_endpoints_are_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"csi_endpoint = .*: name a socket .* at most 107 bytes"):
        plugin_settings.endpoint(section(tmp_path, f"csi_endpoint = {address}"))


def test_the_endpoint_and_the_state_file_have_no_default(tmp_path: Path) -> None:
    conf = section(tmp_path, "")
    with pytest.raises(errors.ConfigurationError, match=r"^\[csi\] csi_endpoint is not set; it names the plugin's"):
        plugin_settings.endpoint(conf)
    with pytest.raises(errors.ConfigurationError, match=r"^\[csi\] csi_state_file is not set; it names the file"):
        plugin_settings.state_file(conf)


def test_the_state_file_does_not_move_with_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert plugin_settings.state_file(section(tmp_path, "csi_state_file = state")) == tmp_path / "state"


def test_a_class_has_its_own_values_or_those_of_the_backend(tmp_path: Path) -> None:
    text = """csi_storage_classes = gold, tin
csi_access = block
csi_storage_id = array
[csi:gold]
csi_access = mount
csi_fs_type = xfs
csi_parameters = {"copies": "2"}
"""
    classes = plugin_settings.storage_classes(section(tmp_path, text), "host@csi")
    assert list(classes) == ["gold", "tin"]
    gold, tin = classes["gold"], classes["tin"]
    assert gold.settings is not None
    assert tin.settings is not None
    assert (gold.settings.access, gold.settings.fs_type, gold.settings.parameters) == ("mount", "xfs", {"copies": "2"})
    assert (tin.settings.access, tin.settings.fs_type, tin.settings.parameters) == ("block", "", {})
    assert (gold.storage_id, tin.storage_id) == ("array", "array")


@pytest.mark.parametrize("names", ["", "a, a", "a/b", "a#b", "a, b, a"])
def test_names_of_classes_are_distinct_and_fit_into_names_of_pools(tmp_path: Path, names: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="at least one is needed, each once, and none with '/' or '#'"):
        plugin_settings.storage_classes(section(tmp_path, f"csi_storage_classes = {names}"), "host@csi")
