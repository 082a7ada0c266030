# SPDX-License-Identifier: Apache-2.0
"""A private OpenStack Glance, from its package in the environment of Cinder."""

import contextlib
import http.client
import json
import os
import subprocess
from typing import Any

from tests.servers import base
from tests.servers.cinder import HOME
from tests.servers.keystone import Keystone

_CONFIGURATION = """\
[DEFAULT]
enabled_backends = images:file
enabled_import_methods = []
[images]
filesystem_store_datadir = {folder}/images
filesystem_thin_provisioning = True
[os_glance_staging_store]
filesystem_store_datadir = {folder}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {folder}/tasks
[glance_store]
default_backend = images
[database]
connection = sqlite:///{folder}/glance.sqlite
[paste_deploy]
config_file = {etc}/glance-api-paste.ini
"""

_FOR_EVERYBODY = """\
[oslo_policy]
policy_file = {folder}/policy.json
"""

_WITH_KEYSTONE = """\
flavor = keystone
[keystone_authtoken]
{options}
"""

#: The largest image in bytes.
_LARGEST = 2**33

#: The operations that are allowed to everybody: this Glance knows no users.
_ALLOWED = ("add_image", "get_image", "get_images", "upload_image", "download_image", "publicize_image")


class Glance(base.Server):
    """Glance with its images in files, on SQLite, for all or the users of a Keystone. :attr:`url` is its endpoint."""

    name = "Glance"
    packages = "python3-venv, and run tools/install-openstack.sh cinder"

    @classmethod
    def installed(cls) -> bool:
        return (HOME / "bin" / "glance-manage").exists()

    def __init__(self, keystone: Keystone | None = None) -> None:
        super().__init__()
        self._keystone = keystone

    def prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        for name in ("images", "staging", "tasks"):
            (self.folder / name).mkdir()
        file = self.folder / "glance-api.conf"
        text = _CONFIGURATION.format(folder=self.folder, etc=HOME / "etc" / "glance")
        if self._keystone is None:
            file.write_text(text + _FOR_EVERYBODY.format(folder=self.folder))
            (self.folder / "policy.json").write_text(json.dumps(dict.fromkeys(_ALLOWED, "")))
        else:
            options = "\n".join(f"{name} = {value}" for name, value in self._keystone.options.items())
            file.write_text(text + _WITH_KEYSTONE.format(options=options))
            self._keystone.make_endpoint(self.url, "image", "glance")
        self._run([HOME / "bin" / "glance-manage", "--config-file", file, "db_sync"], env=self._environment())

    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": str(self.folder), "OS_GLANCE_CONFIG_DIR": str(self.folder)}

    def launch(self) -> "subprocess.Popen[bytes]":
        # It takes bodies in chunks, of which the client of Tempest does not tell the size.
        server = (f"--listen=127.0.0.1:{self._port}", f"--max-request-body-size={_LARGEST}")
        return self.popen(
            [HOME / "bin" / "python", "-I", "-W", "ignore", "-m", "waitress", *server, "glance.wsgi.api:application"],
            env=self._environment(),
        )

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            return "versions" in json.loads(self._request("GET", "/versions"))
        return False

    def add(self, size: int, token: str = "") -> str:
        """Add a raw image of so many bytes for all projects, with the token of an administrator. Return its id."""
        image = {"name": "image", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        image_id = str(json.loads(self._request("POST", "/v2/images", json.dumps(image).encode(), token=token))["id"])
        self._request("PUT", f"/v2/images/{image_id}/file", bytes(size), "application/octet-stream", token)
        return image_id

    def _request(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", token: str = ""
    ) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": kind, "X-Auth-Token": token})
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status < http.client.BAD_REQUEST, content.decode()
        return content
