# SPDX-License-Identifier: Apache-2.0
"""A private Keystone (OpenStack Identity), from its package in a separate environment."""

import base64
import os
import pathlib
import subprocess
from typing import Any

import requests

from tests.servers import base

#: The folder into which ``tools/install-openstack.sh`` installs Keystone.
_BIN = pathlib.Path(__file__).parents[2] / ".openstack" / "bin"

_SERVE = pathlib.Path(__file__).with_name("serve_wsgi.py")

#: The password of all accounts.
PASSWORD = "s3cret"  # noqa: S105

#: The region of all services.
REGION = "RegionOne"

_CONFIGURATION = """\
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.sqlite
sqlite_synchronous = False
[fernet_tokens]
key_repository = {folder}/fernet-keys
[fernet_receipts]
key_repository = {folder}/fernet-keys
[identity]
password_hash_rounds = 4
"""


class Keystone(base.Server):
    """Keystone on SQLite, with the administrator ``admin``. :attr:`url` is its endpoint."""

    name = "Keystone"
    packages = "python3-venv, and run tools/install-openstack.sh"

    @classmethod
    def installed(cls) -> bool:
        return (_BIN / "keystone-manage").exists()

    def prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"http://127.0.0.1:{self._port}/v3"
        (self.folder / "keystone.conf").write_text(_CONFIGURATION.format(folder=self.folder))
        keys = self.folder / "fernet-keys"
        keys.mkdir(mode=0o700)
        for name in ("0", "1"):
            (keys / name).write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
        self._manage("db_sync")
        addresses = [f"--bootstrap-{interface}-url={self.url}" for interface in ("internal", "public")]
        self._manage("bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION, *addresses)
        self._token: str | None = None

    def launch(self) -> "subprocess.Popen[bytes]":
        # -I keeps the folder of the script out of the module search path.
        return self.popen(
            [_BIN / "python", "-I", "-W", "ignore", _SERVE, str(self._port), "keystone.wsgi.api:application"],
            env=self._environment,
        )

    def _ready(self) -> bool:
        try:
            return bool(requests.get(self.url, timeout=30).json()["version"])
        except requests.RequestException:
            return False

    @property
    def options(self) -> dict[str, str]:
        """The options of ``[keystone_authtoken]`` to validate tokens with this server."""
        return {
            "www_authenticate_uri": self.url,
            "auth_type": "password",
            "auth_url": self.url,
            "username": "admin",
            "password": PASSWORD,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }

    def make_project(self, name: str) -> str:
        """Create a project and return its id."""
        return str(
            self._request("POST", "projects", {"project": {"name": name, "domain_id": "default"}})["project"]["id"]
        )

    def make_user(self, name: str, project_id: str, role: str) -> None:
        """Create an account with a role in a project."""
        user = {"name": name, "password": PASSWORD, "domain_id": "default"}
        user_id = self._request("POST", "users", {"user": user})["user"]["id"]
        (found,) = self._request("GET", f"roles?name={role}")["roles"]
        self._request("PUT", f"projects/{project_id}/users/{user_id}/roles/{found['id']}")

    def make_endpoint(self, url: str, kind: str = "block-storage", name: str = "tonnage") -> None:
        """Register the only endpoint of a type of services in the catalog, and its name."""
        services = self._request("GET", f"services?type={kind}")["services"]
        for each in services:
            self._request("DELETE", f"services/{each['id']}")  # and its endpoints
        service = self._request("POST", "services", {"service": {"type": kind, "name": name}})["service"]
        endpoint = {"service_id": service["id"], "interface": "public", "region_id": REGION, "url": url}
        self._request("POST", "endpoints", {"endpoint": endpoint})

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        self._request("DELETE", "auth/tokens", headers={"X-Subject-Token": token})

    def login(self, user: str, scope: dict[str, Any]) -> str:
        """Return a token of an account for a project or for the system."""
        account = {"name": user, "domain": {"id": "default"}, "password": PASSWORD}
        identity = {"methods": ["password"], "password": {"user": account}}
        answer = self._send("POST", "auth/tokens", {"auth": {"identity": identity, "scope": scope}}, {})
        return answer.headers["X-Subject-Token"]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "OS_KEYSTONE_CONFIG_DIR": str(self.folder),
        }

    def _manage(self, *words: str) -> None:
        self._run(
            [_BIN / "keystone-manage", "--config-file", self.folder / "keystone.conf", *words], env=self._environment
        )

    def _request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        if self._token is None:
            self._token = self.login("admin", {"project": {"name": "admin", "domain": {"id": "default"}}})
        answer = self._send(method, path, body, {"X-Auth-Token": self._token, **(headers or {})})
        return answer.json() if answer.content else None

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> requests.Response:
        answer = requests.request(method, f"{self.url}/{path}", json=body, headers=headers, timeout=30)
        assert answer.ok, answer.text
        return answer
