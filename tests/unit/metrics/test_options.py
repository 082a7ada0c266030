# SPDX-License-Identifier: Apache-2.0
"""Options of the metrics: their defaults are safe, and values that no process can use are refused."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.metrics import options

PORTS = ("scheduler_listen_port", "api_listen_port", "cinder_shadow_listen_port")


@pytest.fixture
def read(tmp_path: pathlib.Path) -> Callable[..., Any]:
    """A function that returns the section ``[metrics]`` of a file with these values."""

    def section(**values: object) -> Any:
        file = tmp_path / "tonnage.conf"
        file.write_text("\n".join(["[metrics]", *(f"{name} = {value}" for name, value in values.items())]))
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf([], default_config_files=[str(file)], default_config_dirs=[])
        return conf.metrics

    return section


def test_nothing_is_served_by_default_and_then_to_this_machine_alone(read: Callable[..., Any]) -> None:
    assert (read().enabled, read().openstack) == (False, False)
    assert (read().listen, read().web_config_file) == ("127.0.0.1", None)


def test_processes_on_one_machine_listen_on_different_ports_by_default(read: Callable[..., Any]) -> None:
    assert len({read()[port] for port in PORTS}) == len(PORTS)


@pytest.mark.parametrize(
    ("name", "least"),
    [("max_pools", 1), ("cache_time", 0), ("openstack_max_projects", 0), *((port, 0) for port in PORTS)],
)
def test_an_amount_below_the_least_is_refused(read: Callable[..., Any], name: str, least: int) -> None:
    assert read(**{name: least})[name] == least
    with pytest.raises(cfg.Error, match=f"option {name} .*Should be greater than or equal to {least}"):
        read(**{name: least - 1})[name]


@pytest.mark.parametrize("port", PORTS)
def test_a_port_has_sixteen_bits(read: Callable[..., Any], port: str) -> None:
    assert read(**{port: 65535})[port] == 65535
    with pytest.raises(cfg.Error, match="Should be less than or equal to 65535"):
        read(**{port: 65536})[port]


@pytest.mark.parametrize("address", ["::", "192.0.2.1", "metrics.example"])
def test_metrics_are_served_on_an_address_or_the_name_of_a_host(read: Callable[..., Any], address: str) -> None:
    assert read(listen=address).listen == address


@pytest.mark.parametrize("address", ["a b", "a@b", "::1::"])
def test_other_texts_are_no_addresses(read: Callable[..., Any], address: str) -> None:
    with pytest.raises(cfg.Error, match="not a valid host address"):
        _ = read(listen=address).listen


def test_the_sample_configuration_has_a_copy_of_the_options() -> None:
    """The generator of the sample sorts the list that it gets."""
    [(group, listed)] = options.list_opts()
    assert group.name == "metrics"
    listed.clear()
    [(_, later)] = options.list_opts()
    assert len(later) == len(options.OPTIONS) > 0
