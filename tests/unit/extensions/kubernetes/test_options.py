# SPDX-License-Identifier: Apache-2.0
"""Options of the extender and of the publisher: safe defaults, and bounds."""

import pytest
from oslo_config import cfg

from tonnage.capacity import number_bounds
from tonnage.extensions.kubernetes import options


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], default_config_files=[])
    return conf


def test_by_default_nothing_is_served_claimed_or_published(conf: cfg.ConfigOpts) -> None:
    assert (conf.kubernetes.extender, conf.kubernetes.extender_reserves) == (False, False)
    assert (conf.kubernetes.publisher_namespace, conf.kubernetes.publisher_state_file) == (None, None)
    assert conf.kubernetes.extender_listen == "127.0.0.1"


def test_a_body_has_room_for_the_nodes_of_a_large_cluster(conf: cfg.ConfigOpts) -> None:
    assert conf.kubernetes.extender_max_request_body_size >= 5000 * 10 * 1024


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("extender_max_request_body_size", 1024, None),
        ("extender_lease", 5.0, 3600.0),
        ("publisher_interval", 0.1, float(number_bounds.LONGEST_WAIT)),
        ("publisher_lifetime", 1.0, None),
        ("extender_listen_port", 0, 65535),
    ],
)
def test_numbers_have_bounds(conf: cfg.ConfigOpts, name: str, least: float, most: float | None) -> None:
    for bound in (least, most):
        if bound is not None:
            conf.set_override(name, bound, "kubernetes")
    with pytest.raises(ValueError, match="Should be greater than or equal to"):
        conf.set_override(name, type(least)(least - 1), "kubernetes")
    if most is not None:
        with pytest.raises(ValueError, match="Should be less than or equal to"):
            conf.set_override(name, type(most)(most + 1), "kubernetes")


def test_figures_of_agents_outlive_some_rounds_of_the_publisher(conf: cfg.ConfigOpts) -> None:
    assert conf.kubernetes.publisher_lifetime > 3 * conf.kubernetes.publisher_interval
