# SPDX-License-Identifier: Apache-2.0
"""Changes of backends, found in configuration files that are read again."""

import pathlib

import pytest
from oslo_config import cfg

from tonnage.agent import options as agent_options
from tonnage.capacity import errors
from tonnage.cli.daemons.backend_changes import BackendConfiguration
from tonnage.ledger.inventory import service_options
from tonnage.rpc import options as rpc_options


class ConfigFile:
    """A configuration file with backends of the driver ``memory``."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file

    def write(self, enabled: str, default: str = "", **pools: str) -> None:
        """Write the file. ``pools`` maps each section of a backend to its lines."""
        sections = "".join(f"[{name}]\nvolume_driver = memory\n{lines}\n" for name, lines in pools.items())
        state = f"state_path = {self._file.parent}"
        text = f"[DEFAULT]\nhost = h\nenabled_backends = {enabled}\n{state}\n{default}\n{sections}"
        self._file.write_text(text, encoding="utf-8")

    def read(self) -> cfg.ConfigOpts:
        conf = cfg.ConfigOpts()
        for register in (rpc_options.register, agent_options.register, service_options.register):
            register(conf)
        conf(["--config-file", str(self._file)], project="tonnage", default_config_dirs=[])
        return conf


@pytest.fixture
def file(tmp_path: pathlib.Path) -> ConfigFile:
    file = ConfigFile(tmp_path / "tonnage.conf")
    file.write("a, b", a="", b="")
    return file


def test_an_unchanged_file_changes_no_backend(file: ConfigFile) -> None:
    changes = BackendConfiguration(file.read).changes()
    assert (list(changes.added), list(changes.removed), list(changes.changed)) == ([], [], [])


def test_backends_begin_end_and_restart(file: ConfigFile) -> None:
    configuration = BackendConfiguration(file.read)
    file.write("b, c", b="reserved_percentage = 5", c="")
    changes = configuration.changes()
    assert (changes.added, changes.removed, changes.changed) == (["c"], ["a"], ["b"])
    assert list(configuration.enabled) == ["a", "b"]
    configuration.adopt(changes)
    assert list(configuration.enabled) == ["b", "c"]
    again = configuration.changes()
    assert (again.added, again.removed, again.changed) == ([], [], [])


def test_a_section_of_a_pool_belongs_to_its_backend(file: ConfigFile) -> None:
    configuration = BackendConfiguration(file.read)
    file.write("a, b", **{"a": "", "b": "", "b:p": "reserved_percentage = 5"})
    assert configuration.changes().changed == ["b"]


def test_the_names_of_sections_are_compared_without_regard_to_case(file: ConfigFile) -> None:
    configuration = BackendConfiguration(file.read)
    file.write("a, b", a="", B="reserved_percentage = 5")
    assert configuration.changes().changed == ["b"]


def test_a_change_of_a_common_option_restarts_every_backend(file: ConfigFile) -> None:
    every, some = BackendConfiguration(file.read), BackendConfiguration(file.read, common=["host"])
    file.write("a, b", "storage_availability_zone = west", a="", b="")
    assert every.changes().changed == ["a", "b"]
    assert some.changes().changed == []


def test_changes_are_usable_only_if_the_backends_can_be_built(file: ConfigFile) -> None:
    configuration = BackendConfiguration(file.read)
    file.write("a, b", a="", b="reserved_percentage = 101")
    with pytest.raises(errors.ConfigurationError, match=r"\[b\] reserved_percentage"):
        configuration.usable_changes()
    assert list(configuration.enabled) == ["a", "b"]
