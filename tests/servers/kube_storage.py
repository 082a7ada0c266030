# SPDX-License-Identifier: Apache-2.0
"""As much of a cluster's API server as publishing needs, behind a real socket.

Storage classes and nodes are as tests set them. ``CSIStorageCapacity`` objects are made, replaced and deleted by the
rules of the API: names once, a resource version that has to be the present one, class and topology for good, sizes
written another way than they came.
"""

import itertools
import json
import pathlib
import re
import threading
from http import server
from types import TracebackType
from typing import Any
from typing import Self
from urllib import parse

_CAPACITIES = re.compile(
    r"/apis/storage\.k8s\.io/v1/namespaces/(?P<namespace>[^/]+)/csistoragecapacities(?:/(?P<name>.+))?"
)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class KubeStorage:
    """Serves on ``url`` while it is entered. ``objects`` are those that there are, by name."""

    def __init__(self) -> None:
        self.classes: dict[str, str] = {}
        self.nodes: dict[str, dict[str, str]] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.written: list[tuple[str, str]] = []
        self.failing: dict[str, int] = {}
        self._versions = itertools.count(1)
        self._lock = threading.Lock()
        self._server = server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def kubeconfig(self, folder: pathlib.Path) -> pathlib.Path:
        """Write a file that leads here."""
        path = folder / "kubeconfig"
        settings = {
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        path.write_text(json.dumps(settings), encoding="utf-8")
        return path

    def add(self, body: dict[str, Any]) -> None:
        """Put an object there as it is."""
        self.objects[body["metadata"]["name"]] = {**body, "metadata": {**body["metadata"], **self._version()}}

    def _version(self) -> dict[str, str]:
        return {"resourceVersion": str(next(self._versions))}

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        with self._lock:
            if method in self.failing:
                raise _Refused(self.failing[method], "as the test wants it")
            if path == "/apis/storage.k8s.io/v1/storageclasses":
                found = [{"metadata": {"name": name}, "provisioner": each} for name, each in self.classes.items()]
                return _page(found, query)
            if path == "/api/v1/nodes":
                found = [{"metadata": {"name": name, "labels": labels}} for name, labels in self.nodes.items()]
                return _page(found, query)
            asked = _CAPACITIES.fullmatch(path)
            if asked is None:
                raise _Refused(404, "NotFound")
            if method == "GET":
                key, _, value = query.get("labelSelector", "").partition("=")
                chosen = [
                    each for each in self.objects.values() if each["metadata"].get("labels", {}).get(key) == value
                ]
                return _page(chosen, query)
            return self._write(method, asked["name"] or body["metadata"]["name"], body)

    def _write(self, method: str, name: str, body: Any) -> Any:
        there = self.objects.get(name)
        if method == "POST":
            if there is not None:
                raise _Refused(409, "AlreadyExists")
            if not _SUBDOMAIN.fullmatch(body["storageClassName"]):
                raise _Refused(422, "Invalid")
        elif there is None:
            raise _Refused(404, "NotFound")
        self.written.append((method, name))
        if method == "DELETE":
            del self.objects[name]
            return {"status": "Success"}
        if method == "PUT" and there is not None:
            version = body["metadata"].get("resourceVersion")
            if version not in (None, there["metadata"]["resourceVersion"]):
                raise _Refused(409, "Conflict")
            if any(body.get(key) != there.get(key) for key in ("storageClassName", "nodeTopology")):
                raise _Refused(422, "Invalid")
        body["metadata"].update(self._version())
        self.objects[name] = body
        return body

    def _handler(self) -> type[server.BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                where = parse.urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                try:
                    status, said = 200, answer(self.command, where.path, dict(parse.parse_qsl(where.query)), body)
                except _Refused as error:
                    status = error.status
                    said = {"kind": "Status", "status": "Failure", "reason": str(error), "code": status}
                raw = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _page(found: list[Any], query: dict[str, str]) -> dict[str, Any]:
    start, limit = int(query.get("continue", 0)), int(query.get("limit", len(found) or 1))
    more = str(start + limit) if start + limit < len(found) else ""
    return {"metadata": {"continue": more}, "items": found[start : start + limit]}
