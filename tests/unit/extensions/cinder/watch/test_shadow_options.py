# SPDX-License-Identifier: Apache-2.0
"""Options of the shadow, and those that it reads from a configuration of Cinder."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.cinder.watch import shadow_options


@pytest.fixture
def read(tmp_path: pathlib.Path) -> Callable[..., Any]:
    """A function that returns the section of the shadow with these values."""

    def section(**values: object) -> Any:
        file = tmp_path / "tonnage.conf"
        file.write_text("\n".join(["[cinder_shadow]", *(f"{name} = {value}" for name, value in values.items())]))
        conf = cfg.ConfigOpts()
        shadow_options.register(conf)
        conf([], default_config_files=[str(file)], default_config_dirs=[])
        return conf.cinder_shadow

    return section


def test_what_cinder_has_too_has_the_defaults_of_cinder(read: Callable[..., Any]) -> None:
    section = read()
    assert (section.control_exchange, section.service_down_time, section.no_snapshot_gb_quota) == (
        "openstack",
        60,
        False,
    )


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("queue_messages", 99, 100),
        ("queue_mib", 0, 1),
        ("poll_interval", 0.1, 0.2),
        ("full_poll_interval", 0.5, 1.0),
        ("service_down_time", 0, 1),
        ("stale_after", 9, 10),
        ("quota_poll_interval", -1, 0.0),
        ("quota_reservation_lifetime", 9.5, 10.0),
        ("keep_days", 0, 1),
    ],
)
def test_a_value_below_the_least_is_refused(read: Callable[..., Any], name: str, value: float, bound: float) -> None:
    assert read(**{name: bound})[name] == bound
    with pytest.raises(cfg.Error, match=f"option {name} .*Should be greater than or equal to {bound:g}"):
        read(**{name: value})[name]


def test_both_addresses_are_secrets() -> None:
    [(_, options)] = shadow_options.list_opts()
    assert {option.name for option in options if option.secret} == {"transport_url", "cinder_connection"}


def test_the_database_and_the_rules_of_quotas_are_those_of_cinder(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cinder.conf"
    file.write_text("[DEFAULT]\nno_snapshot_gb_quota = true\nother = 1\n[database]\nconnection = mysql://db/cinder\n")
    conf = shadow_options.of_cinder(file)
    assert (conf.no_snapshot_gb_quota, conf.database.connection) == (True, "mysql://db/cinder")


@pytest.mark.parametrize("text", [None, "nonsense"])
def test_an_unreadable_configuration_of_cinder_is_named(tmp_path: pathlib.Path, text: str | None) -> None:
    file = tmp_path / "cinder.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(errors.ConfigurationError, match="expected the configuration of Cinder") as raised:
        shadow_options.of_cinder(file)
    assert raised.value.message.startswith(f"{file}: ")
