# SPDX-License-Identifier: Apache-2.0
"""The commands ``openstack`` and ``cinder`` with their own configuration and accounts."""

import json
import os
import pathlib
import subprocess
from dataclasses import asdict, dataclass
from typing import Any, Self

import pytest
import yaml

from tests import suites
from tests.functional.deployment import COMMANDS

#: Runs ``openstack`` and ``cinder`` commands in one process, one line of input after another. The start of a command
#: takes longer than most of its work.
SHELLS = """
import contextlib, io, json, sys
from cinderclient import shell as cinder
from openstackclient import shell as openstack
answers = sys.stdout
for line in sys.stdin:
    command, *words = sys.argv = json.loads(line)
    said, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        try:
            code = openstack.main(words) if command == "openstack" else cinder.main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code or 0, said.getvalue(), told.getvalue()]), file=answers, flush=True)
"""


CLOUDS = pathlib.Path(__file__).parents[2] / "etc" / "clouds.yaml"


@dataclass(frozen=True, slots=True)
class Account:
    """An account of Keystone and a project, both of the default domain."""

    auth_url: str
    username: str
    password: str
    project_name: str


class Clients:
    """Both command-line clients, with an account of Keystone or without Keystone. A context manager."""

    def __init__(self, url: str, home: pathlib.Path, account: Account | None = None) -> None:
        if not (COMMANDS / "openstack").exists() or not (COMMANDS / "cinder").exists():
            suites.cannot_run(
                "client", "python-openstackclient or python-cinderclient is missing: pip install --group test"
            )
        self._url, self._account = f"{url}/v3", account
        (home / "openstack").mkdir()
        clouds = yaml.safe_load(CLOUDS.read_text())
        clouds["clouds"]["tonnage"]["auth"]["auth_url"] = f"{url}/identity/v3"
        if account is not None:
            clouds["clouds"]["tonnage"]["auth"] |= asdict(account)
        # The only cloud of the file would be the default of commands that name no cloud.
        clouds["clouds"]["another"] = {"auth_type": "none"}
        (home / "openstack" / "clouds.yaml").write_text(yaml.safe_dump(clouds))
        # The clients must not use the clouds.yaml or the OS_ variables of the user who runs the tests.
        environ = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        environ |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "PYTHONWARNINGS": "ignore"}
        self._shells = subprocess.Popen(
            [COMMANDS / "python", "-c", SHELLS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shells.communicate(timeout=60)

    def openstack(self, *words: str) -> Any:
        """Run an openstack command, and return its JSON output."""
        shows = words[-1] != "--quiet-command"
        words = words if shows else words[:-1]
        if self._account is not None:
            return self.cloud(*words, shows=shows)
        options = ["-f", "json"] if shows else []
        text = self._run("openstack", "--os-auth-type", "none", "--os-endpoint", self._url, *words, *options)
        return json.loads(text) if shows else None

    def cloud(self, *words: str, shows: bool = True) -> Any:
        """Run an openstack command with clouds.yaml, and return its JSON output unless it shows nothing."""
        text = self._run("openstack", "--os-cloud", "tonnage", *words, *(["-f", "json"] if shows else []))
        return json.loads(text) if shows else None

    def cinder(self, *words: str) -> dict[str, str]:
        """Run a cinder command, and return the second column of its table by the first."""
        rows = [row.split("|") for row in self.cinder_text(*words).splitlines() if row.startswith("|")]
        return {row[1].strip(): row[2].strip() for row in rows}

    def cinder_text(self, *words: str) -> str:
        """Run a cinder command, and return its output."""
        login = ["--os-auth-type", "noauth", "--os-user-id", "admin", "--os-project-id", "demo"]
        login += ["--os-endpoint", self._url]
        if self._account is not None:
            login = ["--os-user-domain-name", "Default", "--os-project-domain-name", "Default"]
            for name, value in asdict(self._account).items():
                login += [f"--os-{name.replace('_', '-')}", value]
        return self._run("cinder", *login, *words)

    def manageable(self, *words: str) -> list[dict[str, Any]]:
        """Run an openstack command with the microversion that lists manageable volumes."""
        listed: list[dict[str, Any]] = self.openstack("--os-volume-api-version", "3.8", *words)
        return listed

    def failing(self, *words: str) -> str:
        """Run a cinder command, which must fail, and return its error output."""
        with pytest.raises(subprocess.CalledProcessError) as raised:
            self.cinder_text(*words)
        return str(raised.value.stderr)

    def _run(self, *words: str) -> str:
        assert self._shells.stdin is not None
        assert self._shells.stdout is not None
        self._shells.stdin.write(json.dumps(words) + "\n")
        self._shells.stdin.flush()
        code, said, told = json.loads(self._shells.stdout.readline())
        if code:
            error = subprocess.CalledProcessError(code, words, said, told)
            error.add_note(told)
            raise error
        return str(said)
