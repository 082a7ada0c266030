# SPDX-License-Identifier: Apache-2.0
"""The names of the enabled backends."""

import pytest
from oslo_config import cfg

from tonnage.agent import options
from tonnage.capacity import errors


def configured(names: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf(args=[], default_config_files=[])
    conf.set_override("enabled_backends", names.split(",") if names else [])
    return conf


def test_each_enabled_backend_has_a_section_of_its_name() -> None:
    assert options.backends(configured("lvm-1,nfs.2,A_3")) == ["lvm-1", "nfs.2", "A_3"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("", "enabled_backends is empty"),
        ("lvm,-lvm", "'-lvm' is no name"),
        ("a#b", "'a#b' is no name"),
        ("a b", "'a b' is no name"),
        ("lvm,nfs,lvm", "names 'lvm' twice"),
        ("lvm,nfs,LVM", "names 'lvm' and 'LVM': their sections are the same one"),
    ],
)
def test_an_agent_does_not_start_without_usable_names(names: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        options.backends(configured(names))


def test_lock_files_are_below_the_folder_of_the_state() -> None:
    conf = configured("lvm")
    conf.register_opt(cfg.StrOpt("state_path", default="/var/lib/tonnage"))
    assert options.lock_folder(conf) == "/var/lib/tonnage/locks"


def test_options_that_a_backend_reads_at_its_start_are_options_of_the_agent() -> None:
    names = {option.name for _, section in options.list_opts() for option in section}
    assert names.issuperset(options.COMMON)
