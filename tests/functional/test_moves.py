# SPDX-License-Identifier: Apache-2.0
"""The commands of ``docs/moves.rst`` print the output on the page."""

import configparser
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.deployment import COMMANDS, Addresses, Deployment
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "moves.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "moves" / "tonnage.conf"

NOT_REPORTED = "SELECT COUNT(*) FROM claims WHERE NOT contained"

#: The GiB of the volumes that the page begins with. The first one goes to ``old``, the others to ``new``.
VOLUMES = (9, 7, 4)


@pytest.fixture
def tonnage() -> Iterator[Deployment]:
    """Tonnage with the configuration of the page and its volumes."""
    if shutil.which("bash") is None:
        suites.cannot_run("moves", "no bash on this machine; install the package bash")
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.read(CONF, encoding="utf-8")
    sections = {name: dict(parser[name]) for name in parser.sections()}
    defaults = sections.pop("DEFAULT")
    with Deployment(Addresses(), sections, **defaults) as deployment:
        yield deployment.start()


@pytest.mark.heavy
def test_the_commands_of_the_page_print_what_it_shows(tonnage: Deployment) -> None:
    with console.Shell() as shell:
        shell.run(f'tonnage() {{ {COMMANDS / "tonnage"} --config-file {tonnage.conf} "$@"; }}')
        for size in VOLUMES:
            assert "available" in shell.run(f"tonnage create {size} --wait")
            wait_for(lambda: not tonnage.sql_value(NOT_REPORTED), "reports include the volume")
        for command in console.commands(PAGE):
            printed = shell.run(command.text)
            assert command.matches(printed), f"{command.text}\n{printed}\ninstead of\n{command.shown}"
