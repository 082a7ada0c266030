# SPDX-License-Identifier: Apache-2.0
"""The admission of claims over HTTPS, for the API server of the cluster.

The API server of a managed cluster shows no certificate. So this is a listener of its own. Whoever reaches it can claim
capacity for pods that wait, and move the claims of those whose volumes are not being made yet.
"""

import logging
from typing import Any

import falcon
import msgspec

from tonnage.api.http import middleware
from tonnage.api.http.body import has_nul
from tonnage.api.http.server import Listener, Server
from tonnage.api.http.wsgi_server import ServerLimits, TlsContexts
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.admission.volume_admission import VolumeAdmission
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable
from tonnage.extensions.kubernetes.fit import extender_instruments

LOG = logging.getLogger(__name__)

PATH = "/k8s/admit"

#: Largest body in bytes. etcd takes objects of 1.5 MiB, and a request has the old one and the new one.
_MAX_BODY_SIZE = 4 * 2**20
_THREADS = 8


class _Admit:
    """``/k8s/admit``."""

    def __init__(self, admission: VolumeAdmission, limit: middleware.BodyLimit) -> None:
        self._admission, self._limit = admission, limit

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer an ``AdmissionReview``."""
        with extender_instruments.DURATION.labels("admit").time():
            raw = self._limit.read(req.bounded_stream)
            if has_nul(raw):
                raise errors.InvalidInput("text cannot contain the character NUL")
            resp.data = msgspec.json.encode(self._admission.review(raw))
        resp.content_type = falcon.MEDIA_JSON


def application(admission: VolumeAdmission) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the WSGI application. Errors are statuses: ``failurePolicy`` of the cluster decides their effect."""
    limit = middleware.BodyLimit(_MAX_BODY_SIZE, "the limit of /k8s/admit")
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(middleware=[middleware.RequestLimits(limit)])
    app.add_route(PATH, _Admit(admission, limit))
    app.add_error_handler(Exception, _on_unexpected_error)
    app.add_error_handler(falcon.HTTPError, _on_http_error)
    for undecided in (errors.NotFound, errors.Unavailable):
        app.add_error_handler(undecided, _on_undecided)
    app.add_error_handler(errors.InvalidInput, _on_invalid_body)
    return app


def build(conf: Any, admission: VolumeAdmission, tls: TlsContexts) -> Server:
    """Return the server."""
    options = conf.kubernetes
    listener = Listener(
        name="admission",
        host=options.admission_listen,
        port=options.admission_listen_port,
        options=("[kubernetes] admission_listen", "admission_listen_port"),
    )
    limits = ServerLimits(
        threads=_THREADS,
        client_timeout=conf.client_socket_timeout,
        stop_timeout=conf.osapi_volume_stop_timeout,
        max_body_size=_MAX_BODY_SIZE,
    )
    return Server(listener, application(admission), limits, tls)


def _on_invalid_body(req: falcon.Request, resp: falcon.Response, error: errors.InvalidInput, params: Any) -> None:
    resp.status, resp.text = falcon.HTTP_400, error.message


def _on_undecided(req: falcon.Request, resp: falcon.Response, error: errors.TonnageError, params: Any) -> None:
    LOG.warning("A volume is made without a look at room, or not made (failurePolicy): %s", error.message)
    resp.status = falcon.HTTP_503
    # Readers of the pod's events may see the cluster's errors, but not the ledger's.
    public = isinstance(error, (ClusterUnavailable, errors.NotFound))
    resp.text = error.message if public else "Tonnage cannot look up its figures now: the log of tonnage-api has more"


def _on_http_error(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, params: Any) -> None:
    resp.status, resp.text = error.status, error.description or error.title or ""
    resp.set_headers(error.headers or {})


def _on_unexpected_error(req: falcon.Request, resp: falcon.Response, error: Exception, params: Any) -> None:
    LOG.error("%s %s failed", req.method, req.path, exc_info=error)
    resp.status, resp.text = falcon.HTTP_500, "the admission has erred: the log of tonnage-api has more"
