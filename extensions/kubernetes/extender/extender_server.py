# SPDX-License-Identifier: Apache-2.0
"""The kube-scheduler extender over HTTP: a WSGI application with a listener of its own.

It has no users. kube-scheduler reaches the listener over loopback or with a client certificate.
"""

import abc
import gc
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import falcon
import msgspec
from oslo_config import cfg

from tonnage.api.auth import authentication
from tonnage.api.http import middleware
from tonnage.api.http.body import has_nul
from tonnage.api.http.http_request import WsgiApp
from tonnage.api.http.server import Listener, Server
from tonnage.api.http.wsgi_server import ServerLimits, TlsContexts
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.admission import admission_server
from tonnage.extensions.kubernetes.admission.volume_admission import VolumeAdmission
from tonnage.extensions.kubernetes.cluster import cluster_reader
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.extender.tls_reload import MutualTls
from tonnage.extensions.kubernetes.fit import extender_instruments, scoring_shape
from tonnage.extensions.kubernetes.fit.claim_revival import ClaimRevival
from tonnage.extensions.kubernetes.fit.extender_protocol import Extender, FilterResult
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.fit.preemption import Nominations
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

_TLS_OPTIONS = ("extender_cert_file", "extender_key_file", "extender_ca_file")
_THREADS = 16

#: Seconds for which a server that stops waits for the end of its start.
_WARMING_SECONDS = 10.0

#: Paths for probes. kubelet has no client certificate.
_HEALTHZ, _READYZ = "/healthz", "/readyz"


class _VerbResource(abc.ABC):
    """A path that accepts POST. kube-scheduler reads the body only with status 200."""

    #: The name of the requests in metrics.
    verb: str

    def __init__(self, extender: Extender, limit: middleware.BodyLimit) -> None:
        self._extender, self._limit = extender, limit

    @abc.abstractmethod
    def _answer(self, body: bytes) -> Any:
        """Return the response to a request body, for JSON."""

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        with extender_instruments.DURATION.labels(self.verb).time():
            resp.data = msgspec.json.encode(self._answer(self._read(req)))
        resp.content_type = falcon.MEDIA_JSON

    def _read(self, req: falcon.Request) -> bytes:
        chunked = "chunked" in (req.get_header("Transfer-Encoding") or "").lower()
        stream = req.stream if req.content_length is None and chunked else req.bounded_stream
        raw = self._limit.read(stream)
        if has_nul(raw):
            raise errors.InvalidInput("text cannot contain the character NUL")
        return raw


class _Filter(_VerbResource):
    """``/k8s/filter``."""

    verb = "filter"

    def _answer(self, body: bytes) -> Any:
        return self._extender.filter(body)


class _Prioritize(_VerbResource):
    """``/k8s/prioritize``."""

    verb = "prioritize"

    def _answer(self, body: bytes) -> Any:
        return self._extender.prioritize(body)


class _Preempt(_VerbResource):
    """``/k8s/preempt``. Its result has no place for an error, so that is a status."""

    verb = "preempt"

    def _answer(self, body: bytes) -> Any:
        return self._extender.preempt(body)


class _Healthz:
    """``/healthz``: 200 while the process answers."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer. A failure means that the process has to be started again."""
        resp.set_header("Cache-Control", "no-store")
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = "ok"


class _Readyz:
    """``/readyz``: 200 while pods can be judged, otherwise 503 with the parts that do not answer."""

    def __init__(self, extender: Extender) -> None:
        self._extender = extender

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check that the ledger and the API server of the cluster answer."""
        problems = self._extender.problems()
        resp.status = falcon.HTTP_503 if problems else falcon.HTTP_200
        resp.set_header("Cache-Control", "no-store")
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = "; ".join(problems) or "ok"


def application(extender: Extender, limit: middleware.BodyLimit) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the WSGI application."""
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(middleware=[middleware.RequestLimits(limit)])
    app.add_route(_HEALTHZ, _Healthz())
    app.add_route(_READYZ, _Readyz(extender))
    app.add_route("/k8s/filter", _Filter(extender, limit))
    app.add_route("/k8s/prioritize", _Prioritize(extender, limit))
    app.add_route("/k8s/preempt", _Preempt(extender, limit))
    app.add_error_handler(Exception, _on_unexpected_error)
    app.add_error_handler(falcon.HTTPError, _on_http_error)
    for undecided in (errors.NotFound, errors.Unavailable):
        app.add_error_handler(undecided, _on_undecided)
    app.add_error_handler(errors.InvalidInput, _on_invalid_body)
    return app


class BackgroundTasks(Protocol):
    """Tasks on threads of their own, such as the release of claims for pods and the import of published figures."""

    def start(self) -> None:
        """Start the tasks."""

    def stop(self) -> None:
        """Stop the tasks, if they were started."""


class ExtenderServer(Server):
    """The server of the extender, with its background tasks, and the server of the admission if there is one.

    ``warm_up`` is called on a thread of its own when the server starts.
    """

    def __init__(
        self,
        options: Any,
        application: WsgiApp,
        limits: ServerLimits,
        tls: TlsContexts | None,
        tasks: Sequence[BackgroundTasks],
        warm_up: Callable[[], None],
        admission: Server | None = None,
    ) -> None:
        listener = Listener(
            name="extender",
            host=options.extender_listen,
            port=options.extender_listen_port,
            options=("[kubernetes] extender_listen", "extender_listen_port"),
        )
        super().__init__(listener, application, limits, tls)
        self._tasks, self.admission, self._warm_up = tasks, admission, warm_up
        self._warming = threading.Thread(target=self._warm, name="extender warm-up", daemon=True)

    def listen(self) -> None:
        """Bind the addresses.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if one of them is not available.
        """
        super().listen()
        if self.admission is not None:
            self.admission.listen()

    def start(self) -> None:
        """Serve on threads. Raises as :meth:`listen`, which it calls if that was not done."""
        self._warming.start()
        super().start()
        if self.admission is not None:
            self.admission.start()
        for tasks in self._tasks:
            tasks.start()

    def _warm(self) -> None:
        self._warm_up()
        # The nodes and pools of a large cluster stay. Each search for garbage among them stops a filter for 0.1 s.
        gc.freeze()

    def stop(self) -> None:
        """Accept no more requests, finish the accepted ones, and stop the background tasks."""
        super().stop()
        if self.admission is not None:
            self.admission.stop()
        for tasks in self._tasks:
            tasks.stop()
        if self._warming.is_alive():
            self._warming.join(_WARMING_SECONDS)


def build(conf: cfg.ConfigOpts, database: Database, timeout: float = cluster_reader.TIMEOUT) -> Server | None:
    """Return a server of the extender, None if it is disabled. It waits ``timeout`` seconds for Kubernetes.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable configuration.
    """
    options = conf.kubernetes
    if not options.extender:
        return None
    files = [getattr(options, name) for name in _TLS_OPTIONS]
    if any(files) and not all(files):
        missing = [name for name, value in zip(_TLS_OPTIONS, files, strict=True) if not value]
        raise errors.ConfigurationError(
            f"option [kubernetes] {missing[0]} is not set: TLS takes {', '.join(_TLS_OPTIONS)}"
        )
    if not any(files) and not authentication.is_loopback(options.extender_listen):
        raise errors.ConfigurationError(
            f"[kubernetes] extender_listen = {options.extender_listen} may be reached from other machines: "
            f"listen on 127.0.0.1, or set {', '.join(_TLS_OPTIONS)} so that only kube-scheduler is let in"
        )
    lease = options.extender_lease if options.extender_reserves else None
    cluster = ClusterReader(options.kubeconfig, timeout)
    queries = NodeQueries(database, _scoring_shape(options))
    revival = None if lease is None else ClaimRevival(database, queries, cluster, lease)
    nominations = None if lease is None else Nominations(queries, cluster, lease)
    extender = Extender(queries, cluster, lease, None if revival is None else revival.ensure, nominations)
    tls = MutualTls(dict(zip(_TLS_OPTIONS, files, strict=True))).context if all(files) else None
    admission = _admission(conf, queries, cluster, revival, tls) if options.admission else None
    limit = middleware.BodyLimit(options.extender_max_request_body_size, "extender_max_request_body_size")
    return ExtenderServer(
        options,
        application(extender, limit),
        ServerLimits(
            threads=_THREADS,
            client_timeout=conf.client_socket_timeout,
            stop_timeout=conf.osapi_volume_stop_timeout,
            max_body_size=limit.size,
            anonymous_paths=frozenset({_HEALTHZ, _READYZ}) if all(files) else None,
        ),
        tls,
        [
            cluster,
            *_claim_tasks(database, cluster, options, revival, nominations),
            *_import_tasks(database, cluster, options),
        ],
        extender.warm_up,
        admission,
    )


def _admission(
    conf: cfg.ConfigOpts,
    queries: NodeQueries,
    cluster: ClusterReader,
    revival: ClaimRevival | None,
    tls: TlsContexts | None,
) -> Server:
    if revival is None:
        raise errors.ConfigurationError(
            "option [kubernetes] admission claims capacity: set extender_reserves = true, or leave admission out"
        )
    if tls is None:
        raise errors.ConfigurationError(
            f"option [kubernetes] admission needs a certificate, because the API server asks over TLS alone: set "
            f"{', '.join(_TLS_OPTIONS)}"
        )
    admission = VolumeAdmission(queries, cluster, conf.kubernetes.extender_lease, revival.ensure)
    return admission_server.build(conf, admission, tls)


def _scoring_shape(options: Any) -> scoring_shape.ScoringShape:
    try:
        return scoring_shape.parse(options.extender_scoring_shape)
    except ValueError as error:
        raise errors.ConfigurationError(
            f"[kubernetes] extender_scoring_shape = {options.extender_scoring_shape}: {error}; name spread, pack or "
            "points such as 0:10, 80:5, 100:0"
        ) from error


def _claim_tasks(
    database: Database,
    cluster: ClusterReader,
    options: Any,
    revival: ClaimRevival | None,
    nominations: Nominations | None,
) -> Iterator[BackgroundTasks]:
    if revival is not None:
        # The module needs the Kubernetes client, an optional dependency.
        from tonnage.extensions.kubernetes.cluster.wake_claim import WakeClaim
        from tonnage.extensions.kubernetes.fit import pod_claim_tasks

        wake_claim = WakeClaim(cluster.api, options.extender_wake_claim) if options.extender_wake_claim else None
        yield pod_claim_tasks.PodClaimTasks(
            database,
            cluster,
            options.extender_lease,
            wake_claim,
            revival.kept,
            nominations,
            asks=options.refresh_capacity_objects,
        )


def _import_tasks(database: Database, cluster: ClusterReader, options: Any) -> Iterator[BackgroundTasks]:
    if options.read_capacity_objects:
        # The module needs the Kubernetes client, an optional dependency.
        from tonnage.extensions.kubernetes.provisioner import import_tasks

        yield import_tasks.ImportTasks(
            database,
            cluster.api,
            options.capacity_object_lifetime,
            options.capacity_object_drivers,
            options.capacity_object_disks,
        )


def _on_invalid_body(req: falcon.Request, resp: falcon.Response, error: errors.InvalidInput, params: Any) -> None:
    resp.status = falcon.HTTP_400
    _write(resp, error.message)


def _on_undecided(req: falcon.Request, resp: falcon.Response, error: errors.TonnageError, params: Any) -> None:
    LOG.warning("%s %s: %s", req.method, req.path, error.message)
    resp.status = falcon.HTTP_503
    _write(resp, "the extender cannot decide now: the log of tonnage-api has more")


def _on_http_error(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, params: Any) -> None:
    resp.status = error.status
    resp.set_headers(error.headers or {})
    _write(resp, error.description or error.title or "")


def _on_unexpected_error(req: falcon.Request, resp: falcon.Response, error: Exception, params: Any) -> None:
    LOG.error("%s %s failed", req.method, req.path, exc_info=error)
    resp.status = falcon.HTTP_500
    _write(resp, "the extender has erred: the log of tonnage-api has more")


def _write(resp: falcon.Response, message: str) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.data = msgspec.json.encode(FilterResult(error=message))
