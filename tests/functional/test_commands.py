# SPDX-License-Identifier: Apache-2.0
"""The commands of ``docs/commands.rst`` print the output on the page, configured as in ``docs/refusals.rst``."""

import pathlib
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.deployment import COMMANDS, Addresses, Deployment, read_configuration
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "commands.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "refusals" / "tonnage.conf"

NOT_REPORTED = "SELECT COUNT(*) FROM claims WHERE NOT contained"


@pytest.fixture
def tonnage() -> Iterator[Deployment]:
    """Tonnage with the configuration of the page."""
    suites.require_programs("commands", "bash", "curl", "jq")
    sections = read_configuration(CONF)
    defaults = sections.pop("DEFAULT")
    with Deployment(Addresses(), sections, **defaults) as deployment:
        yield deployment.start()


@pytest.mark.heavy
def test_the_commands_of_the_page_print_what_it_shows(tonnage: Deployment) -> None:
    with console.Shell() as shell:
        # The first word of a command line may be an assignment, so it is no alias.
        shell.run(f'tonnage() {{ {COMMANDS / "tonnage"} --config-file {tonnage.conf} "$@"; }}')
        shell.run(f'unset "${{!OS_@}}"; openstack() {{ {COMMANDS / "openstack"} "$@"; }}')
        for command in console.commands(PAGE):
            printed = shell.run(command.text.replace("127.0.0.1:8776", f"127.0.0.1:{tonnage.port}"))
            assert command.matches(printed), f"{command.text}\n{printed}\ninstead of\n{command.shown}"
            if "available" in command.text:
                wait_for(lambda: not tonnage.sql_value(NOT_REPORTED), "reports include the volumes")
