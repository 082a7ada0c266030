# SPDX-License-Identifier: Apache-2.0
"""The list of all options."""

import collections

from tonnage.cli import opts


def test_each_section_and_each_of_its_options_is_listed_once() -> None:
    sections = [(str(getattr(group, "name", group)), options) for group, options in opts.list_opts()]
    names = collections.Counter((section, option.dest) for section, options in sections for option in options)
    assert {name: number for name, number in names.items() if number > 1} == {}
    assert len({section for section, _ in sections}) == len(sections)


def test_options_of_the_core_of_drivers_and_of_extensions_are_listed() -> None:
    names = {
        (str(getattr(group, "name", group)), option.dest) for group, options in opts.list_opts() for option in options
    }
    assert names >= {
        ("DEFAULT", "host"),
        ("DEFAULT", "enabled_backends"),
        ("DEFAULT", "service_down_time"),
        ("DEFAULT", "enabled_extensions"),
        ("database", "connection"),
        ("backend", "csi_endpoint"),
    }
