# SPDX-License-Identifier: Apache-2.0
"""The commands of ``docs/moves.rst`` print the output on the page."""

import datetime
import pathlib
import re
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.deployment import COMMANDS, Addresses, Deployment, read_configuration
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "moves.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "moves" / "tonnage.conf"

NOT_REPORTED = "SELECT COUNT(*) FROM claims WHERE NOT contained"

BACKEND_CHANGE = re.compile(r"tonnage-manage backend (?P<state>enable|disable) (?P<backend>\S+)")

#: The GiB of the volumes that the page begins with. The first one goes to ``old``, the others to ``new``.
VOLUMES = (9, 7, 4)


@pytest.fixture
def tonnage() -> Iterator[Deployment]:
    """Tonnage with the configuration of the page and its volumes."""
    suites.require_programs("moves", "bash")
    sections = read_configuration(CONF)
    defaults = sections.pop("DEFAULT")
    # Noon, by the local time: the page moves volumes at night.
    difference = datetime.datetime.now(datetime.UTC).hour - 12
    with Deployment(Addresses(), sections, environment={"TZ": f"<noon>{difference:+d}"}, **defaults) as deployment:
        yield deployment.start()


@pytest.mark.heavy
def test_the_commands_of_the_page_print_what_it_shows(tonnage: Deployment) -> None:
    with console.Shell() as shell:
        for program in ("tonnage", "tonnage-manage"):
            shell.run(f'{program}() {{ {COMMANDS / program} --config-file {tonnage.conf} "$@"; }}')
        for size in VOLUMES:
            assert "available" in shell.run(f"tonnage create {size} --wait")
            wait_for(lambda: not tonnage.sql_value(NOT_REPORTED), "reports include the volume")
        for command in console.commands(PAGE):
            printed = shell.run(command.text)
            assert command.matches(printed), f"{command.text}\n{printed}\ninstead of\n{command.shown}"
            if (change := BACKEND_CHANGE.match(command.text)) is not None:
                wait_for(lambda: _is_seen(tonnage, change["backend"], change["state"]), "the scheduler sees it")


def _is_seen(tonnage: Deployment, backend: str, state: str) -> bool:
    """Return whether the scheduler has seen that a backend was enabled or disabled."""
    return all(
        bool(pool.get("disabled")) is (state == "disable")
        for name, pool in tonnage.rest.pools().items()
        if name.startswith(f"{backend}#")
    )
