# SPDX-License-Identifier: Apache-2.0
"""A private OpenStack Placement, from its package in a separate environment."""

import contextlib
import http.client
import json
import os
import pathlib
import subprocess
from typing import Any

from tests.servers import base

#: The Python into whose environment ``tools/install-openstack.sh`` installs Placement.
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
    """Placement on SQLite, with the administrator ``admin``. :attr:`url` is its endpoint."""

    name = "Placement"
    packages = "python3-venv, and run tools/install-openstack.sh"

    @classmethod
    def installed(cls) -> bool:
        return _PYTHON.exists()

    def prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        (self.folder / "placement.conf").write_text(_CONFIGURATION.format(folder=self.folder))

    def launch(self) -> "subprocess.Popen[bytes]":
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "OS_PLACEMENT_CONFIG_DIR": str(self.folder),
        }
        # -I keeps the folder of the script out of the module search path.
        return self.popen(
            [_PYTHON, "-I", "-W", "ignore", _SERVE, str(self._port), "placement.wsgi.api:application"], env=env
        )

    def _ready(self) -> bool:
        try:
            return bool(self.get("/")["versions"])
        except (OSError, http.client.HTTPException):
            return False

    @property
    def options(self) -> dict[str, str]:
        """The options of ``[placement]`` for this server."""
        return {"auth_type": "admin_token", "endpoint": self.url, "token": "admin", "timeout": "60"}

    def get(self, path: str) -> Any:
        """Send a GET request without code of Tonnage, and return the answer."""
        return self._request("GET", path)

    def put(self, path: str, body: object) -> Any:
        """Send a PUT request without code of Tonnage, and return the answer."""
        return self._request("PUT", path, body)

    def provider(self, name: str) -> str | None:
        """Return the id of the resource provider with a name, or None."""
        found = {each["name"]: each["uuid"] for each in self.get("/resource_providers")["resource_providers"]}
        return found.get(name)

    def inventory(self, name: str) -> tuple[int, int, float]:
        """Return total, reserved and allocation ratio of a provider's inventory of DISK_GB."""
        found = self.get(f"/resource_providers/{self.provider(name)}/inventories/DISK_GB")
        return found["total"], found["reserved"], found["allocation_ratio"]

    def holders(self, name: str) -> dict[str, int]:
        """Return the allocation in GiB of each consumer of a provider, which may not exist yet."""
        provider = self.provider(name)
        found = self.get(f"/resource_providers/{provider}/allocations")["allocations"] if provider else {}
        return {consumer: each["resources"]["DISK_GB"] for consumer, each in found.items()}

    def usage(self, project_id: str) -> dict[str, tuple[int, int]]:
        """Return the number and the GiB of a project's consumers by consumer type."""
        found = self.get(f"/usages?project_id={project_id}")["usages"]
        return {kind: (each["consumer_count"], each["DISK_GB"]) for kind, each in found.items()}

    def _request(self, method: str, path: str, body: object = None) -> Any:
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
