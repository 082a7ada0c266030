# SPDX-License-Identifier: Apache-2.0
"""Options of the metrics: their defaults are safe, and values that no process can use are refused."""

import pytest
from oslo_config import cfg

from tonnage.metrics import options

PORTS = ("scheduler_listen_port", "api_listen_port", "cinder_shadow_listen_port")


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], default_config_files=[])
    return conf


def test_nothing_is_served_by_default_and_then_to_this_machine_alone(conf: cfg.ConfigOpts) -> None:
    assert (conf.metrics.enabled, conf.metrics.openstack) == (False, False)
    assert (conf.metrics.listen, conf.metrics.web_config_file) == ("127.0.0.1", None)


def test_processes_on_one_machine_listen_on_different_ports_by_default(conf: cfg.ConfigOpts) -> None:
    assert len({conf.metrics[port] for port in PORTS}) == len(PORTS)


@pytest.mark.parametrize(
    ("name", "least"),
    [("max_pools", 1), ("cache_time", 0), ("openstack_max_projects", 0), *((port, 0) for port in PORTS)],
)
def test_an_amount_below_the_least_is_refused(conf: cfg.ConfigOpts, name: str, least: int) -> None:
    conf.set_override(name, least, "metrics")
    assert conf.metrics[name] == least
    with pytest.raises(ValueError, match=f"Should be greater than or equal to {least}"):
        conf.set_override(name, least - 1, "metrics")


@pytest.mark.parametrize("port", PORTS)
def test_a_port_has_sixteen_bits(conf: cfg.ConfigOpts, port: str) -> None:
    conf.set_override(port, 65535, "metrics")
    with pytest.raises(ValueError, match="Should be less than or equal to 65535"):
        conf.set_override(port, 65536, "metrics")


@pytest.mark.parametrize(
    ("address", "usable"), [("::", True), ("metrics.example", True), ("a b", False), ("a@b", False)]
)
def test_metrics_are_served_on_an_address_or_a_name_of_a_host(conf: cfg.ConfigOpts, address: str, usable: bool) -> None:
    if usable:
        conf.set_override("listen", address, "metrics")
        assert conf.metrics.listen == address
    else:
        with pytest.raises(ValueError, match="not a valid host address"):
            conf.set_override("listen", address, "metrics")


def test_the_sample_configuration_has_a_copy_of_the_options(conf: cfg.ConfigOpts) -> None:
    """The generator of the sample sorts the list that it gets."""
    [(group, listed)] = options.list_opts()
    assert group.name == "metrics"
    listed.clear()
    [(_, later)] = options.list_opts()
    assert len(later) == len(options.OPTIONS) > 0
