# SPDX-License-Identifier: Apache-2.0
"""The listener for Prometheus: ``/metrics`` of this process, and the pages about the ledger."""

import gzip
import logging
from collections.abc import Mapping

import falcon
import prometheus_client
from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.api.auth import authentication
from tonnage.api.http.http_request import WsgiApp
from tonnage.api.http.server import Listener, Server
from tonnage.api.http.wsgi_server import ServerLimits
from tonnage.api.monitoring import exposition
from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.api.monitoring.openstack_page import OpenStackPage
from tonnage.api.monitoring.web_config import WebConfig
from tonnage.capacity import errors
from tonnage.ledger.db.database import Database
from tonnage.quotas import options as quota_options

LOG = logging.getLogger(__name__)

_THREADS = 4
_CLIENT_TIMEOUT, _STOP_TIMEOUT = 75, 5


class ProcessPage:
    """``/metrics``: the counters and histograms of this process."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with all metrics of the process, in the format that the client asks for."""
        encode, resp.content_type = prometheus_client.exposition.choose_encoder(req.get_header("Accept") or "")
        resp.data = encode(prometheus_client.REGISTRY)


class PageResource:
    """``/metrics/ledger`` or ``/metrics/openstack``; with ``?backend=host@backend`` the part about one backend."""

    def __init__(self, page: CachedPage) -> None:
        self._page = page

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the page. While the database does not answer, the status is 503."""
        try:
            text = self._page.compressed(req.get_param("backend"))
        except errors.Unavailable as error:
            LOG.debug("%s: %s", req.path, error.message)
            raise falcon.HTTPServiceUnavailable(description="the database does not answer") from None
        resp.content_type = exposition.CONTENT_TYPE
        resp.set_header("Vary", "Accept-Encoding")
        if "gzip" in (req.get_header("Accept-Encoding") or ""):
            resp.set_header("Content-Encoding", "gzip")
            resp.data = text
        else:
            resp.data = gzip.decompress(text)


class BasicAuthentication:
    """Middleware that admits the users of ``web_config_file``."""

    def __init__(self, web_config: WebConfig) -> None:
        self._web_config = web_config

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Raise falcon's error for a request without a known user and its password."""
        if not self._web_config.admits(req.get_header("Authorization")):
            raise falcon.HTTPUnauthorized(
                description="Give a name and a password.", challenges=['Basic realm="metrics"']
            )


def application(pages: Mapping[str, CachedPage], web_config: WebConfig | None = None) -> WsgiApp:
    """Return the WSGI application, with pages by their paths."""
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(
        middleware=[] if web_config is None else [BasicAuthentication(web_config)]
    )
    app.add_route("/metrics", ProcessPage())
    for path, page in pages.items():
        app.add_route(path, PageResource(page))
    return app


def build(conf: cfg.ConfigOpts, database: Database, port_option: str) -> Server | None:
    """Return a server of the metrics on the port of an option of ``[metrics]``, None if metrics are disabled.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable configuration.
    """
    options = conf.metrics
    if not options.enabled:
        return None
    web_config = WebConfig(options.web_config_file) if options.web_config_file else None
    if web_config is None and not authentication.is_loopback(options.listen):
        raise errors.ConfigurationError(
            f"[metrics] listen = {options.listen} may be reached from other machines: listen on 127.0.0.1, or set "
            "web_config_file to a file with users and a certificate"
        )
    down_time, cache_time, max_pools = conf.service_down_time, options.cache_time, options.max_pools
    series = [build_series(max_pools) for build_series in enabled_extensions.parts(conf, "metrics").values()]
    pages: dict[str, CachedPage] = {"/metrics/ledger": LedgerPage(database, down_time, max_pools, cache_time, series)}
    if options.openstack:
        defaults, max_projects = quota_options.from_conf(conf).defaults, options.openstack_max_projects
        pages["/metrics/openstack"] = OpenStackPage(database, down_time, cache_time, max_pools, max_projects, defaults)
    return Server(
        Listener(
            name="metrics listener",
            host=options.listen,
            port=getattr(options, port_option),
            options=("[metrics] listen", port_option),
        ),
        application(pages, web_config),
        ServerLimits(threads=_THREADS, client_timeout=_CLIENT_TIMEOUT, stop_timeout=_STOP_TIMEOUT, max_body_size=0),
        None if web_config is None else web_config.tls(),
    )
