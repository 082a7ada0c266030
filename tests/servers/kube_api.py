# SPDX-License-Identifier: Apache-2.0
"""As much of an API server of Kubernetes as is asked for objects: it serves the JSON of those that a test put there."""

import http.server
import json
import pathlib
import threading
from types import TracebackType
from typing import Any
from typing import Self

CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims/{}"
NODES = "/api/v1/nodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses/{}"


class KubeApi:
    """Serves on loopback while its context lasts. ``asked`` are the paths that were asked for.

    ``accepted`` is what was said to be accepted of each.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {NODES: {"kind": "NodeList", "apiVersion": "v1", "items": []}}
        self.asked: list[str] = []
        self.accepted: dict[str, str] = {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def kubeconfig(self, folder: pathlib.Path) -> str:
        """Write a file that leads here, and return its path."""
        path = folder / "kubeconfig"
        host, port = self._server.server_address[:2]
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": f"http://{host!s}:{port}"}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        path.write_text(json.dumps(settings))
        return str(path)

    def add_node(self, name: str, **labels: str) -> None:
        """Add a node. In names of labels ``_`` stands for ``/``."""
        shown = {key.replace("_", "/"): value for key, value in labels.items()}
        self.objects[NODES]["items"].append({"metadata": {"name": name, "labels": shown}, "status": {}})

    def add_class(self, name: str, driver: str, mode: str = "WaitForFirstConsumer") -> None:
        """Add a storage class."""
        self.objects[CLASSES.format(name)] = {
            "metadata": {"name": name},
            "provisioner": driver,
            "volumeBindingMode": mode,
        }

    def add_claim(self, name: str, size: str, storage_class: str | None, *, bound: bool = False) -> None:
        """Add a claim in the default namespace."""
        self.objects[CLAIMS.format("default", name)] = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                **({} if storage_class is None else {"storageClassName": storage_class}),
                **({"volumeName": f"pv-{name}"} if bound else {}),
            },
            "status": {"phase": "Bound" if bound else "Pending"},
        }

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        objects, asked, accepted = self.objects, self.asked, self.accepted

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                asked.append(path)
                accepted[path] = self.headers["Accept"]
                found = objects.get(path)
                status = 200 if found is not None else 404
                missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
                raw = json.dumps(missing if found is None else found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing."""

        return Handler
