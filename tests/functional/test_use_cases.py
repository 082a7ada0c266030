# SPDX-License-Identifier: Apache-2.0
"""The commands of the documentation's page on use cases of over-subscription, on real LVM and real files."""

import pathlib
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.deployment import Addresses, Deployment, read_configuration
from tests.servers import lvm_guest
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "use-cases.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "use-cases" / "tonnage.conf"

# The virtual machine with the storage has an emulated processor.
pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1200)]

#: Commands whose output changes with the next report.
ASKING = ("pools", "sizes")


@pytest.fixture(scope="module")
def commands(lvm: lvm_guest.LvmGuest) -> Iterator[list[console.Command]]:
    """The commands of the page after the commands that create its storage, which have been run."""
    suites.require_programs("use cases", "bash", "curl", "jq")
    found = list(console.commands(PAGE))
    making = found[: next(place for place, command in enumerate(found) if not command.root)]
    assert making
    # Other tests leave their label on a disk, and pvcreate asks for confirmation if the disk has a label.
    _unmark(lvm)
    try:
        for command in making:
            assert command.matches(lvm.script(command.text).out), command
        yield found[len(making) :]
    finally:
        for group in ("tonnage-gold", "tonnage-thin"):
            lvm.run("vgremove", "--yes", group, check=False)
        _unmark(lvm)


def _unmark(lvm: lvm_guest.LvmGuest) -> None:
    for disk in ("/dev/vdc", "/dev/vdd"):
        lvm.run("lvm", "pvremove", disk, check=False)


@pytest.fixture(scope="module")
def tonnage(lvm: lvm_guest.LvmGuest, commands: list[console.Command]) -> Iterator[Deployment]:
    """Tonnage with the configuration of the page, except for the access to the storage."""
    sections = read_configuration(CONF)
    defaults = sections.pop("DEFAULT")
    pools = {name: sections.pop(name) for name in list(sections) if ":" in name}
    for options in sections.values():
        if options["volume_driver"] == "lvm":
            options |= {"lvm_root_helper": lvm.helper(), "volume_clear": "none"}
    with Deployment(Addresses(), sections, sections=pools, backend_stats_polling_interval=2, **defaults) as deployment:
        text = deployment.conf.read_text()
        deployment.conf.write_text(text.replace("/srv/tonnage", str(deployment.folder)))
        yield deployment.start()


def _one_by_one(tonnage: Deployment, shell: console.Shell, text: str) -> Iterator[str]:
    """Yield the output of a command; each round of a loop waits until reports include all volumes.

    A report during a creation counts the volume twice, so the next volume might go to another pool.
    """
    rounds, _, repeated = text.removesuffix("; done").partition("; do ")
    if not rounds.startswith("for each in "):
        yield shell.run(text)
        return
    for _ in rounds.removeprefix("for each in ").split():
        wait_for(
            lambda: not any(pool["in_flight_capacity_gb"] for pool in tonnage.rest.pools().values()),
            "reports include all volumes",
        )
        yield shell.run(repeated)


def test_the_commands_print_the_documented_output(
    tonnage: Deployment, lvm: lvm_guest.LvmGuest, commands: list[console.Command]
) -> None:
    with console.Shell() as shell:
        for command in commands:
            text = command.text.replace("127.0.0.1:8776", f"127.0.0.1:{tonnage.port}")
            text = text.replace("/srv/tonnage", str(tonnage.folder))
            if command.root:
                lvm.script(shell.expand(text))
            elif (not text.startswith(ASKING) or "{" in text) and not command.shown.startswith("No pool"):
                printed = "".join(_one_by_one(tonnage, shell, text))
                assert command.matches(printed), f"$ {text}\n{printed}"
            else:
                # The figures, also of a pool that refuses, may be older than its last report.
                seen: list[str] = []
                try:
                    wait_for(lambda: seen.append(shell.run(text)) or command.matches(seen[-1]), text)  # noqa: B023
                except TimeoutError:
                    pytest.fail(f"$ {text}\n{seen[-1]}\ninstead of\n{command.shown}")
                if command.shown.startswith("No pool"):
                    assert all(each.startswith("No pool") for each in seen), f"$ {text}\n" + "\n".join(seen)
    for volume in tonnage.rest.volumes():
        tonnage.rest.wait_until_available(volume["id"])
    tonnage.rest.delete(*(volume["id"] for volume in tonnage.rest.volumes()))
