# SPDX-License-Identifier: Apache-2.0
"""A private OpenStack Glance, from its package in the environment of Cinder."""

import contextlib
import http.client
import json
import os
import pathlib
import subprocess
from typing import Any

from tests.servers import base
from tests.servers.cinder import HOME

_SERVE = pathlib.Path(__file__).with_name("serve_wsgi.py")

_CONFIGURATION = """\
[DEFAULT]
enabled_backends = images:file
enabled_import_methods = []
[images]
filesystem_store_datadir = {folder}/images
[os_glance_staging_store]
filesystem_store_datadir = {folder}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {folder}/tasks
[glance_store]
default_backend = images
[database]
connection = sqlite:///{folder}/glance.sqlite
[oslo_policy]
policy_file = {folder}/policy.json
[paste_deploy]
config_file = {etc}/glance-api-paste.ini
"""

#: What everybody may do: this Glance knows no users.
_ALLOWED = ("add_image", "get_image", "get_images", "upload_image", "download_image", "publicize_image")


class Glance(base.Server):
    """Glance with its images in files, on SQLite, for everybody. :attr:`url` is its endpoint."""

    name = "Glance"
    packages = "python3-venv, and run tools/install-openstack.sh cinder"

    @classmethod
    def installed(cls) -> bool:
        return (HOME / "bin" / "glance-manage").exists()

    def _prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        for name in ("images", "staging", "tasks"):
            (self.folder / name).mkdir()
        file = self.folder / "glance-api.conf"
        file.write_text(_CONFIGURATION.format(folder=self.folder, etc=HOME / "etc" / "glance"))
        (self.folder / "policy.json").write_text(json.dumps(dict.fromkeys(_ALLOWED, "")))
        self._run([HOME / "bin" / "glance-manage", "--config-file", file, "db_sync"], env=self._environment())

    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": str(self.folder), "OS_GLANCE_CONFIG_DIR": str(self.folder)}

    def _launch(self) -> "subprocess.Popen[bytes]":
        words: list[str | pathlib.Path] = [
            HOME / "bin" / "python",
            "-I",
            "-W",
            "ignore",
            _SERVE,
            str(self._port),
            "glance.wsgi.api:application",
        ]
        return self._popen(words, env=self._environment())

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            return "images" in json.loads(self._request("GET", "/v2/images"))
        return False

    def add(self, size: int) -> str:
        """Add a raw image of so many bytes, and return its id."""
        image = {"name": "image", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        image_id = str(json.loads(self._request("POST", "/v2/images", json.dumps(image).encode()))["id"])
        self._request("PUT", f"/v2/images/{image_id}/file", bytes(size), "application/octet-stream")
        return image_id

    def _request(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status < http.client.BAD_REQUEST, content.decode()
        return content
