# SPDX-License-Identifier: Apache-2.0
"""A fake OpenStack cloud: Keystone v3 and Nova, which answer over HTTP like their API references."""

import http.server
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

#: The account of Keystone.
USER, PASSWORD, PROJECT = "tonnage", "s3cret", "service"

#: The regions, and the interfaces of each region.
REGIONS = ("north", "south")
INTERFACES = ("public", "internal", "admin")

#: The status and the body of Nova's answer to a request for an instance.
Answer = tuple[int, object]


#: The default project of instances.
TENANT = "6f70656e737461636b20342065766572"


def shown(instance: str, host: str | None, tenant: str = TENANT) -> Answer:
    """Return Nova's answer to an administrator for an instance of a project."""
    server = {
        "id": instance,
        "name": "web",
        "status": "ACTIVE",
        "tenant_id": tenant,
        "hostId": "2091634baaccdc4c5a1d57069c833e402921df696b7f970791b12ec6",
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-SRV-ATTR:host": host,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": host,
        "OS-EXT-SRV-ATTR:instance_name": "instance-00000001",
    }
    return 200, {"server": server}


def hidden(instance: str) -> Answer:
    """Return Nova's answer to an account that may not see the host of the instance."""
    _, body = shown(instance, None)
    assert isinstance(body, dict)
    server = {key: value for key, value in body["server"].items() if "OS-EXT-SRV-ATTR" not in key}
    return 200, {"server": server}


def forbidden() -> Answer:
    """Return Nova's answer to an account without the permission."""
    message = "Policy doesn't allow os_compute_api:servers:show to be performed."
    return 403, {"forbidden": {"code": 403, "message": message}}


def broken() -> Answer:
    """Return Nova's answer after an internal error."""
    message = "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/"
    return 500, {"computeFault": {"code": 500, "message": message}}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to Nova, with the region and the interface of the endpoint."""

    region: str
    interface: str
    path: str


class Cloud:
    """Keystone and Nova on one port of the loopback interface; a context manager.

    ``answers`` maps the id of each instance to Nova's answer, which takes ``delay`` seconds. ``placement`` is the URL
    of another server for Placement, which accepts the tokens of this Keystone as an administrator's.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.delay = 0.0
        self.placement: str | None = None
        self.asked: list[Asked] = []
        self.logins = 0
        self.tokens: set[str] = set()
        cloud = self

        class Handler(_Handler):
            def answer(self) -> None:
                cloud.serve(self)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._ended = threading.Event()

    @property
    def address(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def options(self) -> dict[str, str]:
        """The options of a section for this Keystone."""
        return {
            "auth_type": "password",
            "auth_url": f"{self.address}/identity/v3",
            "username": USER,
            "password": PASSWORD,
            "project_name": PROJECT,
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "region_name": REGIONS[0],
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self, request: "_Handler") -> None:
        """Answer a request."""
        parts = request.path.strip("/").split("/")
        if parts == ["identity", "v3"] and request.command == "GET":
            link = {"rel": "self", "href": f"{self.address}/identity/v3/"}
            version = {"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": [link]}
            request.say(200, {"version": version})
        elif parts == ["identity", "v3", "auth", "tokens"] and request.command == "POST":
            self._log_in(request)
        elif parts[0] == "compute" and parts[3:5] == ["v2.1", "servers"]:
            self._show(request, parts[1], parts[2], parts[5])
        else:
            request.say(404, {"error": {"code": 404, "title": "Not Found", "message": "There is nothing."}})

    def _log_in(self, request: "_Handler") -> None:
        self.logins += 1
        password = request.body()["auth"]["identity"]["password"]["user"]
        if (password["name"], password["password"]) != (USER, PASSWORD):
            message = "The request you have made requires authentication."
            request.say(401, {"error": {"code": 401, "title": "Unauthorized", "message": message}})
            return
        token = f"admin:{uuid.uuid4().hex}"
        self.tokens.add(token)
        endpoints = [
            {
                "id": uuid.uuid4().hex,
                "interface": interface,
                "region": region,
                "region_id": region,
                "url": f"{self.address}/compute/{region}/{interface}/v2.1",
            }
            for region in REGIONS
            for interface in INTERFACES
        ]
        catalog = [{"type": "compute", "name": "nova", "id": uuid.uuid4().hex, "endpoints": endpoints}]
        if self.placement is not None:
            elsewhere = [{**each, "url": self.placement} for each in endpoints]
            catalog.append({"type": "placement", "name": "placement", "id": uuid.uuid4().hex, "endpoints": elsewhere})
        domain = {"id": "default", "name": "Default"}
        body = {
            "methods": ["password"],
            "user": {"id": uuid.uuid4().hex, "name": USER, "domain": domain, "password_expires_at": None},
            "project": {"id": uuid.uuid4().hex, "name": PROJECT, "domain": domain},
            "roles": [{"id": uuid.uuid4().hex, "name": "admin"}],
            "catalog": catalog,
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
        }
        request.say(201, {"token": body}, {"X-Subject-Token": token})

    def _show(self, request: "_Handler", region: str, interface: str, instance: str) -> None:
        self.asked.append(Asked(region, interface, request.path))
        if request.headers.get("X-Auth-Token") not in self.tokens:
            request.say(401, {"error": {"code": 401, "title": "Unauthorized", "message": "Authentication required"}})
            return
        self._ended.wait(self.delay)
        missing = 404, {"itemNotFound": {"code": 404, "message": f"Instance {instance} could not be found."}}
        request.say(*self.answers.get(instance, missing))


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[[], None]

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def body(self) -> Any:
        """Return the JSON body of the request."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def say(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        """Send an answer. A body that is not text is sent as JSON."""
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
