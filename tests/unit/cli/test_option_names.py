# SPDX-License-Identifier: Apache-2.0
"""The names of all options, and the file that lists them."""

from tonnage.cli import option_names, opts


def test_the_file_of_names_has_no_obsolete_names() -> None:
    """Names may be missing in the file: collect() finds them."""
    listed = opts.list_opts()
    ours = {str(getattr(group, "name", group) or "DEFAULT") for group, _ in listed} - {"backend", "DEFAULT"}
    known, file = option_names.collect(), option_names.from_file()
    # Options of libraries depend on their releases, so they are not compared.
    assert {section: file[section] - known[section] for section in ours & file.keys()} == {
        section: set() for section in ours & file.keys()
    }, "run `make sample-config`"
    assert {"claim_lease", "osapi_volume_listen", "quota_volumes"} <= file["DEFAULT"]


def test_the_file_is_read_as_it_was_written() -> None:
    names = option_names.from_file()
    assert option_names.to_text(names).splitlines() == sorted_lines(names)


def sorted_lines(names: option_names.Names) -> list[str]:
    """Return the lines of a file with sorted sections, and sorted names in each."""
    return [line for section in sorted(names) for line in (f"[{section}]", *sorted(names[section]))]


def test_names_are_compared_as_oslo_config_does() -> None:
    assert option_names.section_name("DEFAULT") == "DEFAULT"
    assert option_names.section_name("SSD") == "ssd"
    assert option_names.normalized("log-file") == "log_file"


def test_names_of_libraries_and_deprecated_names_are_collected() -> None:
    names = option_names.collect()
    assert "transport_url" in names["DEFAULT"]
    assert "heartbeat_timeout_threshold" in names["oslo_messaging_rabbit"]
    assert "backend" not in names
