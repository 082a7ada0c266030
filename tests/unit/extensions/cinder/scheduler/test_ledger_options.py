# SPDX-License-Identifier: Apache-2.0
"""Options of Tonnage in Cinder's configuration: an installation changes nothing that nobody asked for."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.extensions.cinder.scheduler import ledger_options


@pytest.fixture
def read(tmp_path: pathlib.Path) -> Callable[..., Any]:
    """A function that returns the section ``[tonnage]`` of a configuration with these values."""

    def section(**values: object) -> Any:
        file = tmp_path / "cinder.conf"
        file.write_text("\n".join(["[tonnage]", *(f"{name} = {value}" for name, value in values.items())]))
        conf = cfg.ConfigOpts()
        ledger_options.register(conf)
        conf([], default_config_files=[str(file)], default_config_dirs=[])
        return conf.tonnage

    return section


def test_by_default_requests_are_refused_without_the_ledger_and_cinder_judges_all_pools(
    read: Callable[..., Any],
) -> None:
    assert (read().connection, read().without_ledger) == (None, "refuse")
    assert read().native_filters == read().native_weighers == []


def test_a_refusal_waits_for_longer_than_a_probe_takes_by_default(read: Callable[..., Any]) -> None:
    assert read().refusal_patience > read().probe_interval > read().poll_interval


def test_all_native_plugins_can_be_named(read: Callable[..., Any]) -> None:
    section = read(
        native_filters=",".join(ledger_options.NATIVE_FILTERS), native_weighers=",".join(ledger_options.NATIVE_WEIGHERS)
    )
    assert tuple(section.native_filters) == ledger_options.NATIVE_FILTERS
    assert tuple(section.native_weighers) == ledger_options.NATIVE_WEIGHERS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("native_filters", "CapacityFilter,DriverFilter", "Valid values are"),
        ("native_weighers", "GoodnessWeigher", "Valid values are"),
        ("without_ledger", "guess", "Valid values are"),
        ("probe_interval", "0.4", "Should be greater than or equal to 0.5"),
        ("poll_interval", "0", "Should be greater than or equal to 0.1"),
        ("full_poll_interval", "0.5", "Should be greater than or equal to 1"),
        ("claim_lease", "4", "Should be greater than or equal to 5"),
        ("claim_lease", "604801", "Should be less than or equal to 604800"),
        ("refusal_patience", "-1", "Should be greater than or equal to 0"),
        ("figures_lag", "11", "Should be less than or equal to 10"),
    ],
)
def test_other_values_are_refused(read: Callable[..., Any], name: str, value: str, message: str) -> None:
    with pytest.raises(cfg.Error, match=f"option {name} .*{message}"):
        getattr(read(**{name: value}), name)


def test_the_address_of_the_ledger_is_a_secret() -> None:
    """It has a password, and Cinder writes its options into its log."""
    [(group, options)] = ledger_options.list_opts()
    assert group.name == "tonnage"
    assert [option.name for option in options if option.secret] == ["connection"]
