# SPDX-License-Identifier: Apache-2.0
"""A private OpenStack Placement: the real one, from its package, in an environment of its own."""

import contextlib
import http.client
import json
import os
import pathlib
import subprocess
from typing import Any

from tests.servers import base

#: Where ``tools/install-openstack.sh`` installs it.
_PYTHON = pathlib.Path(__file__).parents[2] / ".openstack" / "bin" / "python"

_SERVE = pathlib.Path(__file__).with_name("serve_wsgi.py")

_CONFIGURATION = """\
[DEFAULT]
state_path = {folder}
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{folder}/placement.sqlite
sync_on_startup = True
sqlite_synchronous = False
"""


class Placement(base.Server):
    """Placement on SQLite, which takes the account ``admin`` for its administrator. :attr:`url` is its endpoint."""

    name = "Placement"
    packages = "python3-venv, and run tools/install-openstack.sh"

    @classmethod
    def installed(cls) -> bool:
        return _PYTHON.exists()

    def _prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        (self.folder / "placement.conf").write_text(_CONFIGURATION.format(folder=self.folder))

    def _launch(self) -> "subprocess.Popen[bytes]":
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "OS_PLACEMENT_CONFIG_DIR": str(self.folder),
        }
        # Isolated, as else the folder of the script comes first of where modules are looked for.
        return self._popen(
            [_PYTHON, "-I", "-W", "ignore", _SERVE, str(self._port), "placement.wsgi.api:application"], env=env
        )

    def _ready(self) -> bool:
        try:
            return bool(self.get("/")["versions"])
        except (OSError, http.client.HTTPException):
            return False

    @property
    def options(self) -> dict[str, str]:
        """What has to be in a section ``[placement]`` to ask it."""
        return {"auth_type": "admin_token", "endpoint": self.url, "token": "admin", "timeout": "60"}

    def get(self, path: str) -> Any:
        """Return what it answers, past all code of Tonnage."""
        return self._ask("GET", path)

    def put(self, path: str, body: object) -> Any:
        """Change something, past all code of Tonnage."""
        return self._ask("PUT", path, body)

    def provider(self, name: str) -> str | None:
        """Return the id of the resource provider with that name, None if there is none."""
        found = {each["name"]: each["uuid"] for each in self.get("/resource_providers")["resource_providers"]}
        return found.get(name)

    def inventory(self, name: str) -> tuple[int, int, float]:
        """Return total, reserved and allocation ratio of what a provider has of DISK_GB."""
        found = self.get(f"/resource_providers/{self.provider(name)}/inventories/DISK_GB")
        return found["total"], found["reserved"], found["allocation_ratio"]

    def holders(self, name: str) -> dict[str, int]:
        """Return which consumers hold how much of a provider, which may not be there yet."""
        provider = self.provider(name)
        found = self.get(f"/resource_providers/{provider}/allocations")["allocations"] if provider else {}
        return {consumer: each["resources"]["DISK_GB"] for consumer, each in found.items()}

    def usage(self, project_id: str) -> dict[str, tuple[int, int]]:
        """Return for each type of consumers of a project how many they are and how much they hold."""
        found = self.get(f"/usages?project_id={project_id}")["usages"]
        return {kind: (each["consumer_count"], each["DISK_GB"]) for kind, each in found.items()}

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        headers = {
            "X-Auth-Token": "admin",
            "OpenStack-API-Version": "placement 1.38",
            "Content-Type": "application/json",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status < 300, content.decode()
        return json.loads(content) if content else None
