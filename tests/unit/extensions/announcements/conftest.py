# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from tonnage.extensions.announcements import options
from tonnage.rpc import options as rpc_options

#: Returns a configuration with the given options of ``[DEFAULT]`` and of oslo.messaging's section.
Configure: TypeAlias = Callable[..., cfg.ConfigOpts]


@pytest.fixture(autouse=True)
def _long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait up to 60 seconds for the web server of a test, which runs on a thread of this process."""
    for name in ("socket_read_timeout", "socket_connect_timeout"):
        monkeypatch.setattr(f"apprise.url.URLBase.{name}", 60.0)


@pytest.fixture
def configure() -> Iterator[Configure]:
    conf = cfg.ConfigOpts()
    # Registers the option groups that oslo.messaging otherwise registers on cfg.CONF only.
    with conffixture.ConfFixture(conf, transport_url="fake://"):
        rpc_options.register(conf)
        conf.register_opts(options.OPTIONS)
        options.register_library_options(conf)
        conf(["--config-file", "/dev/null"], project="tonnage")
        conf.set_override("host", "here")

        def configure(oslo: dict[str, Any] | None = None, **mine: Any) -> cfg.ConfigOpts:
            for name, value in mine.items():
                conf.set_override(name, value)
            for name, value in (oslo or {}).items():
                conf.set_override(name, value, group=options.OSLO_GROUP)
            return conf

        yield configure


class WebServer(http.server.HTTPServer):
    """Records the posted bodies and answers with ``status``."""

    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[tuple[str, dict[str, Any]]] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: WebServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *given: object) -> None: ...


@contextlib.contextmanager
def web_server() -> Iterator[WebServer]:
    with WebServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server
