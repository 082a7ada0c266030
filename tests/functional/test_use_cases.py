# SPDX-License-Identifier: Apache-2.0
"""The three use cases of over-subscription, on real LVM and real files: the commands of the documentation's page."""

import configparser
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.deployment import Addresses, Deployment, render, until
from tests.servers import lvm_guest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "use-cases.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "use-cases" / "tonnage.conf"

# The processor of the machine that has the storage is emulated.
pytestmark = pytest.mark.timeout(1200)

#: What asks for figures, which follow as soon as the next report has come.
ASKING = ("pools", "sizes")


@pytest.fixture(scope="module")
def commands(lvm: lvm_guest.LvmGuest) -> Iterator[list[console.Command]]:
    """The commands of the page, those that make its storage left out: they have been run."""
    for program in ("bash", "curl", "jq"):
        if shutil.which(program) is None:
            suites.cannot_run("use cases", f"no {program} on this machine; install the package {program}")
    found = list(console.commands(PAGE))
    making = found[: next(place for place, command in enumerate(found) if not command.root)]
    assert making
    # Other tests leave their mark on a disk, and of a disk with one pvcreate asks whether the size may be another.
    _unmark(lvm)
    try:
        for command in making:
            assert command.printed(lvm.script(command.text).out), command
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
    """Tonnage, set up as the page says, but for the way to the storage."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.read(CONF, encoding="utf-8")
    sections = {name: dict(parser[name]) for name in parser.sections()}
    defaults = sections.pop("DEFAULT")
    pools = {name: sections.pop(name) for name in list(sections) if ":" in name}
    for options in sections.values():
        if options["volume_driver"] == "lvm":
            options |= {"lvm_root_helper": lvm.helper(), "volume_clear": "none"}
    deployment = Deployment(Addresses(), sections, backend_stats_polling_interval=2, **defaults)
    deployment.host = defaults["host"]
    with deployment:
        text = deployment.conf.read_text() + render(pools)
        deployment.conf.write_text(text.replace("/srv/tonnage", str(deployment.folder)))
        yield deployment.start()


def _one_by_one(tonnage: Deployment, shell: console.Shell, text: str) -> Iterator[str]:
    """Yield what a command prints; each round of a loop waits until reports have all that was made before.

    A report of while a volume is made counts it twice, and what is next may go elsewhere.
    """
    rounds, _, repeated = text.removesuffix("; done").partition("; do ")
    if not rounds.startswith("for each in "):
        yield shell.run(text)
        return
    for _ in rounds.removeprefix("for each in ").split():
        until(lambda: not any(one["in_flight_capacity_gb"] for one in tonnage.rest.pools().values()), "all is reported")
        yield shell.run(repeated)


def test_the_page_shows_what_happens(
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
                assert command.printed(printed), f"$ {text}\n{printed}"
            else:
                # What is shown, also of a pool that refuses, may be of before its last report.
                seen: list[str] = []
                try:
                    until(lambda: seen.append(shell.run(text)) or command.printed(seen[-1]), text)  # noqa: B023
                except AssertionError:
                    pytest.fail(f"$ {text}\n{seen[-1]}\ninstead of\n{command.shown}")
                if command.shown.startswith("No pool"):
                    assert all(each.startswith("No pool") for each in seen), f"$ {text}\n" + "\n".join(seen)
    for volume in tonnage.rest.volumes():
        tonnage.rest.made(volume["id"])
    tonnage.rest.delete(*(volume["id"] for volume in tonnage.rest.volumes()))
