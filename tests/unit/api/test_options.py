# SPDX-License-Identifier: Apache-2.0
"""Options of the REST API: safe defaults, and values that no server can use."""

import pathlib

import pytest
from oslo_config import cfg

from tonnage.api import options
from tonnage.capacity import number_bounds


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], default_config_files=[])
    return conf


def test_by_default_everybody_is_an_administrator_on_this_machine_alone(conf: cfg.ConfigOpts) -> None:
    assert (conf.auth_strategy, conf.osapi_volume_listen) == ("noauth", "127.0.0.1")
    assert conf.noauth_on_any_address is False


def test_clients_find_the_port_and_the_names_of_cinder_by_default(conf: cfg.ConfigOpts) -> None:
    assert (conf.osapi_volume_listen_port, conf.cinder_service_names) == (8776, True)
    assert conf.default_volume_type == "__DEFAULT__"


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("osapi_volume_threads", 1),
        ("osapi_volume_stop_timeout", 1),
        ("client_socket_timeout", 1),
        ("osapi_max_limit", 1),
        ("osapi_max_request_body_size", 1024),
        ("osapi_volume_listen_port", 0),
    ],
)
def test_an_amount_below_the_least_is_refused(conf: cfg.ConfigOpts, name: str, least: int) -> None:
    conf.set_override(name, least)
    with pytest.raises(ValueError, match=f"Should be greater than or equal to {least}"):
        conf.set_override(name, least - 1)


@pytest.mark.parametrize("name", ["osapi_volume_stop_timeout", "client_socket_timeout"])
def test_a_server_waits_for_a_week_at_most(conf: cfg.ConfigOpts, name: str) -> None:
    """Libraries take no longer times."""
    conf.set_override(name, number_bounds.LONGEST_WAIT)
    with pytest.raises(ValueError, match="Should be less than or equal to 604800"):
        conf.set_override(name, number_bounds.LONGEST_WAIT + 1)


def test_a_strategy_of_authentication_is_one_of_the_listed(conf: cfg.ConfigOpts) -> None:
    for strategy in ("noauth", "keystone", "http_basic"):
        conf.set_override("auth_strategy", strategy)
    with pytest.raises(ValueError, match="Valid values are"):
        conf.set_override("auth_strategy", "none")


def test_the_size_of_bodies_has_its_name_in_cinder_too(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text("[oslo_middleware]\nmax_request_body_size = 2048\n")
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    assert conf.osapi_max_request_body_size == 2048


def test_options_of_the_metrics_are_in_the_sample_of_the_api() -> None:
    assert [str(getattr(group, "name", group)) for group, _ in options.list_opts()] == ["DEFAULT", "metrics"]
