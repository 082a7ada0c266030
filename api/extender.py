# SPDX-License-Identifier: Apache-2.0
"""The extender of kube-scheduler over HTTP: an application of its own, on an address of its own.

There are no users here: who reaches the listener is kube-scheduler, by loopback or by a certificate.
"""

import logging
import os
import ssl
from collections.abc import Callable
from typing import Any, Protocol

import falcon
import msgspec
from oslo_config import cfg

from tonnage.api.auth import authentication, mutual_tls
from tonnage.api.http import request_limits
from tonnage.api.http.body import NUL
from tonnage.api.http.request import WsgiApp
from tonnage.api.http.server import Server
from tonnage.capacity import errors
from tonnage.k8s.cluster.cluster_reader import Cluster
from tonnage.k8s.fit.extender_protocol import Extender, FilterResult
from tonnage.k8s.fit.node_queries import Capacity
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

_FILES = ("extender_cert_file", "extender_key_file", "extender_ca_file")
_THREADS = 16


class _Verb:
    """A path that takes POST. kube-scheduler reads bodies of status 200 alone."""

    def __init__(self, answer: Callable[[bytes], Any], limit: request_limits.Limit) -> None:
        self._answer, self._limit = answer, limit

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        resp.data = msgspec.json.encode(self._answer(self._read(req)))
        resp.content_type = falcon.MEDIA_JSON

    def _read(self, req: falcon.Request) -> bytes:
        chunked = "chunked" in (req.get_header("Transfer-Encoding") or "").lower()
        stream = req.stream if req.content_length is None and chunked else req.bounded_stream
        raw = self._limit.read(stream)
        if NUL.search(raw):
            raise errors.InvalidInput("text cannot contain the character NUL")
        return raw


def application(extender: Extender, limit: request_limits.Limit) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the application."""
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(middleware=[request_limits.Guard(limit)])
    app.add_route("/k8s/filter", _Verb(extender.filter, limit))
    app.add_route("/k8s/prioritize", _Verb(extender.prioritize, limit))
    app.add_error_handler(Exception, _on_surprise)
    app.add_error_handler(falcon.HTTPError, _on_http_error)
    app.add_error_handler(errors.InvalidInput, _on_wrong_body)
    return app


class PodClaims(Protocol):
    """What looks after what was claimed for pods."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End; it may not have begun."""


class ExtenderServer(Server):
    """Serves the extender, and has what it claims looked after if it claims anything."""

    def __init__(
        self,
        options: Any,
        application: WsgiApp,
        claims: PodClaims | None,
        tls: mutual_tls.Adapter | None,
        client_timeout: int,
        patience: int,
        longest_read: int,
    ) -> None:
        super().__init__(
            "extender",
            options.extender_listen,
            options.extender_listen_port,
            ("[kubernetes] extender_listen", "extender_listen_port"),
            application,
            threads=_THREADS,
            client_timeout=client_timeout,
            stop_timeout=patience,
            tls=tls,
            longest_read=longest_read,
        )
        self._claims = claims

    def start(self) -> None:
        """Serve on threads of its own; raises as :meth:`listen`, which comes first unless it was called before."""
        super().start()
        if self._claims is not None:
            self._claims.start()

    def stop(self) -> None:
        """Accept nothing more, finish what was accepted, end."""
        super().stop()
        if self._claims is not None:
            self._claims.stop()


def build(conf: cfg.ConfigOpts, database: Database) -> Server | None:
    """Return a server of the extender, None if it is not wanted.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
    """
    options = conf.kubernetes
    if not options.extender:
        return None
    files = [getattr(options, name) for name in _FILES]
    if any(files) and not all(files):
        missing = [name for name, value in zip(_FILES, files, strict=True) if not value]
        raise errors.ConfigurationError(f"option [kubernetes] {missing[0]} is not set: TLS takes {', '.join(_FILES)}")
    if not any(files) and not authentication.is_loopback(options.extender_listen):
        raise errors.ConfigurationError(
            f"[kubernetes] extender_listen = {options.extender_listen} may be reached from other machines: "
            f"listen on 127.0.0.1, or set {', '.join(_FILES)} so that only kube-scheduler is let in"
        )
    lease = options.extender_lease if options.extender_reserves else None
    cluster = Cluster(options.kubeconfig)
    extender = Extender(Capacity(database), cluster, lease)
    limit = request_limits.Limit(options.extender_max_request_body_size, "extender_max_request_body_size")
    return ExtenderServer(
        options,
        application(extender, limit),
        None if lease is None else _pod_claims(database, cluster, lease),
        _mutual(*files) if all(files) else None,
        conf.client_socket_timeout,
        conf.osapi_volume_stop_timeout,
        limit.longest_read,
    )


def _pod_claims(database: Database, cluster: Cluster, lease: float) -> PodClaims:
    # It needs the client of Kubernetes, which not everybody has.
    from tonnage.k8s.fit import pod_claim_tasks

    return pod_claim_tasks.PodClaims(database, cluster, lease)


def _mutual(cert: str, key: str, authority: str) -> mutual_tls.Adapter:
    """Return TLS that asks clients for a certificate."""
    for name, path in zip(_FILES, (cert, key, authority), strict=True):
        if not os.access(path, os.R_OK):
            raise errors.ConfigurationError(f"option [kubernetes] {name} = {path}: this file cannot be read")
    try:
        return mutual_tls.Adapter(cert, key, authority)
    except ssl.SSLError as error:
        raise errors.ConfigurationError(f"options [kubernetes] {', '.join(_FILES)} cannot be used: {error}") from error


def _on_wrong_body(req: falcon.Request, resp: falcon.Response, error: errors.InvalidInput, params: Any) -> None:
    resp.status = falcon.HTTP_400
    _write(resp, error.message)


def _on_http_error(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, params: Any) -> None:
    resp.status = error.status
    resp.set_headers(error.headers or {})
    _write(resp, error.description or error.title or "")


def _on_surprise(req: falcon.Request, resp: falcon.Response, error: Exception, params: Any) -> None:
    LOG.error("%s %s failed", req.method, req.path, exc_info=error)
    resp.status = falcon.HTTP_500
    _write(resp, "the extender has erred: the log of tonnage-api has more")


def _write(resp: falcon.Response, message: str) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.data = msgspec.json.encode(FilterResult(error=message))
