# SPDX-License-Identifier: Apache-2.0
"""A workspace of Tempest, OpenStack's integration tests, which run unmodified in an environment of their own."""

import collections
import csv
import datetime
import io
import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence

from tests.functional.deployment.configuration import Options, render
from tests.servers.keystone import PASSWORD, REGION, Keystone

#: The folder into which ``tools/install-tempest.sh`` installs Tempest.
_BIN = pathlib.Path(__file__).parents[2] / ".tempest" / "bin"

#: The tests of features that Tonnage does not have, as regular expressions, each with the reason.
LEFT_OUT = pathlib.Path(__file__).with_name("left_out.txt")


def installed() -> bool:
    """Return whether Tempest is installed."""
    return (_BIN / "tempest").exists()


def sections_of_users(keystone: Keystone, **options: bool) -> Mapping[str, Options]:
    """Return the sections for the users that Tempest makes in Keystone. ``options`` are more of ``auth``."""
    return {
        "auth": {
            "admin_username": "admin",
            "admin_password": PASSWORD,
            "admin_project_name": "admin",
            "admin_domain_name": "Default",
            "tempest_roles": "member",
            **options,
        },
        "identity": {"uri_v3": keystone.url, "auth_version": "v3", "region": REGION},
        "identity-feature-enabled": {"api_v3": True},
    }


class Workspace:
    """A workspace in a folder. ``sections`` are those of ``tempest.conf``."""

    def __init__(self, folder: pathlib.Path, sections: Mapping[str, Options]) -> None:
        self._folder, self._home = folder / "workspace", folder
        self._call("init", self._folder, cwd=folder)
        (self._folder / "etc" / "tempest.conf").write_text(render(sections))

    def run(self, selected: str, *, processes: int, left_out: pathlib.Path = LEFT_OUT) -> Mapping[str, list[str]]:
        """Run the tests whose names match ``selected``. Return names of tests by their result.

        The file ``left_out`` names those that do not run.
        """
        # Failed tests are in the results too.
        options = ("--regex", selected, "--exclude-list", left_out, "--concurrency", str(processes))
        self._call("run", *options, cwd=self._folder, check=False)
        found: dict[str, list[str]] = collections.defaultdict(list)
        for row in self._rows():
            found[row["status"]].append(row["test"])
        return found

    def seconds(self) -> Mapping[str, float]:
        """Return the duration of each test of the last run in seconds, the longest first."""
        found = {}
        for row in self._rows():
            if not row["stop_time"]:  # a test whose process has ended
                continue
            start, stop = (datetime.datetime.fromisoformat(row[name]) for name in ("start_time", "stop_time"))
            found[row["test"]] = (stop - start).total_seconds()
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _rows(self) -> list[dict[str, str]]:
        results = self._output("stestr", "last", "--subunit")
        # Its exit code tells of failed tests.
        table = self._output("subunit2csv", "--no-passthrough", given=results, check=False).decode()
        return list(csv.DictReader(io.StringIO(table)))

    def failures(self) -> str:
        """Return the details of the failed tests of the last run."""
        return self._output("stestr", "last", check=False).decode(errors="replace")

    def _call(self, *words: str | pathlib.Path, cwd: pathlib.Path, check: bool = True) -> None:
        log = self._home / "tempest.log"
        with log.open("ab") as file:
            done = subprocess.run([_BIN / "tempest", *words], cwd=cwd, env=self._environment, stdout=file, stderr=file)
        assert not check or done.returncode == 0, log.read_text(errors="replace")

    def _output(self, program: str, *words: str, given: bytes = b"", check: bool = True) -> bytes:
        command: Sequence[str | pathlib.Path] = [_BIN / program, *words]
        return subprocess.run(
            command, cwd=self._folder, env=self._environment, check=check, input=given, stdout=subprocess.PIPE
        ).stdout

    @property
    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": f"{_BIN}{os.pathsep}{path}", "HOME": str(self._home), "PYTHONWARNINGS": "ignore"}
