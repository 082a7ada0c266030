# SPDX-License-Identifier: Apache-2.0
"""The stories of the page on daily work: its commands, on a scheduler, an API and two agents."""

import pathlib
import re
import shlex
import signal
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.conftest import Deploy
from tests.functional.deployment import COMMANDS, Deployment, Process
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "daily-work.rst").read_text(encoding="utf-8")
STORE2 = (DOCS / "examples" / "daily-work" / "store2.conf").read_text(encoding="utf-8")

_SYSTEMCTL = re.compile(r"(?:ssh (\w+) )?systemctl (enable --now|start|stop|reload) (.*)")

#: All stories are played in the order of the page, and each builds on those before.
#: The stories follow each other: each begins with the machines of the one before.
pytestmark = [pytest.mark.heavy, pytest.mark.parametrize("deploy", ["postgresql"], indirect=True, scope="module")]


def story(label: str) -> list[console.Command]:
    """Return the commands of the part of the page that begins with a label."""
    part = PAGE.partition(f".. _{label}:")[2] if label else PAGE
    return list(console.commands(part.partition("\n.. _")[0]))


class Machines:
    """The machines of the page: folders for their files, and processes instead of units of systemd."""

    def __init__(self, tonnage: Deployment, shell: console.Shell) -> None:
        self._tonnage, self._shell = tonnage, shell
        folder = tonnage.folder / "store2"
        folder.mkdir()
        bus = re.search(r"^transport_url = (.*)$", tonnage.conf.read_text(), re.MULTILINE)
        assert bus
        text = re.sub(
            r"(?m)^transport_url = .*$", f"transport_url = {bus[1]}\nbackend_stats_polling_interval = 1", STORE2
        )
        (folder / "tonnage.conf").write_text(self._placed(text.replace("/var/lib/tonnage", str(folder)), "store2"))
        tonnage.processes["store2"] = Process("agent", folder / "tonnage.conf")
        for program in ("tonnage", "tonnage-manage"):
            shell.run(f'{program}() {{ {COMMANDS / program} --config-file {tonnage.conf} "$@"; }}')

    def play(self, label: str) -> None:
        """Run the commands of a story; each has to print the output that the page shows."""
        for command in story(label):
            if unit := _SYSTEMCTL.fullmatch(command.text):
                self._systemctl(unit[1] or "control1", unit[2], unit[3].split())
                continue
            if removed := re.search(r"backend remove (\S+)", command.text):
                self._let_time_pass(removed[1])
            if command.text.startswith("tonnage-manage db check") and "||" in command.text:
                # The tests have no earlier release. Its database lacks an extension.
                self._tonnage.write("DELETE FROM alembic_version WHERE version_num = 'history_0001'")
            printed = self._shell.run(self._here(command.text))
            assert command.matches(printed), f"{command.text}\n{printed}\ninstead of\n{command.shown}"

    def _here(self, text: str) -> str:
        """Return a command for the folder and the port of the deployment."""
        if text.startswith("ssh "):
            _, machine, *words = shlex.split(text)
            return self._placed(" ".join(words).replace("/etc/tonnage", str(self._tonnage.folder / machine)), machine)
        text = text.replace("127.0.0.1:8776", f"127.0.0.1:{self._tonnage.port}")
        return text.replace("/etc/tonnage", str(self._tonnage.folder))

    def _placed(self, text: str, machine: str) -> str:
        return text.replace("/srv/tonnage", str(self._tonnage.folder / machine / "srv"))

    def _systemctl(self, machine: str, action: str, units: list[str]) -> None:
        for unit in units:
            name = "store2" if machine == "store2" else unit.removeprefix("tonnage-")
            if action in ("start", "enable --now"):
                self._tonnage.launch(name)
            elif action == "stop":
                self._tonnage.end(name)
            else:
                self._reload(self._tonnage.processes[name])

    def _reload(self, process: Process) -> None:
        before = process.log.stat().st_size
        process.send(signal.SIGHUP)
        read = "The configuration has been read again"
        wait_for(lambda: read in process.log.read_bytes()[before:].decode(), f"{process.log} has {read!r}")

    def _let_time_pass(self, backend: str) -> None:
        """Wait until a backend reports no more, and let ``service_down_time`` pass for it."""
        log = self._tonnage.processes["store2"].log
        wait_for(lambda: f"Backend {backend} has stopped" in log.read_text(), f"{backend} has stopped")
        self._tonnage.write(f"UPDATE backends SET last_report_at = '2000-01-01' WHERE name = '{backend}'")


@pytest.fixture(scope="module")
def machines(deploy: Deploy) -> Iterator[Machines]:
    suites.require_programs("daily work", "bash", "curl", "jq")
    backends = {"ssd": {"filesystem_size_limit_gb": 2, "max_over_subscription_ratio": 2}}
    with deploy(backends, host="store1", max_over_subscription_ratio=20) as tonnage, console.Shell() as shell:
        tonnage.start()
        machines = Machines(tonnage, shell)
        machines.play("")
        yield machines


def test_a_machine_with_two_pools_is_added(machines: Machines) -> None:
    machines.play("add-machine")


def test_a_ratio_is_changed_under_way(machines: Machines) -> None:
    machines.play("change-ratio")


def test_a_backend_is_drained_and_removed(machines: Machines) -> None:
    machines.play("remove-backend")


def test_a_broken_disk_is_replaced(machines: Machines) -> None:
    machines.play("replace-disk")


def test_an_upgrade_by_one_version(machines: Machines) -> None:
    machines.play("upgrade-by-one")
