# SPDX-License-Identifier: Apache-2.0
"""The enabled extensions, and what their declarations name."""

import pytest
from oslo_config import cfg

from tonnage import enabled_extensions, extension
from tonnage.capacity import errors


def _configuration(*names: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    enabled_extensions.register(conf)
    conf([])
    conf.set_override("enabled_extensions", list(names))
    return conf


def test_all_extensions_of_this_package_are_enabled_by_default() -> None:
    assert set(enabled_extensions.OPTION.default) == set(extension.installed())


def test_enabled_extensions_have_the_order_of_the_option() -> None:
    assert list(enabled_extensions.enabled(_configuration("replay", "history", "replay"))) == ["replay", "history"]


def test_an_unknown_extension_is_an_error_that_lists_the_installed_ones() -> None:
    with pytest.raises(errors.MissingPlugin, match="'reply', which is not installed; known are announcements, cinder,"):
        enabled_extensions.enabled(_configuration("reply"))


@pytest.mark.parametrize("name", sorted(extension.installed()))
def test_each_part_that_a_declaration_names_can_be_imported(name: str) -> None:
    for field, reference in enabled_extensions.references(extension.installed()[name]).items():
        assert extension.load(reference) is not None, field


def test_options_are_those_of_the_enabled_extensions_alone() -> None:
    conf = _configuration()
    enabled_extensions.register_options(conf)
    assert "notify_capacity" not in conf
