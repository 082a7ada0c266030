# SPDX-License-Identifier: Apache-2.0
"""The health check for load balancers and operators."""

import logging
import os

import falcon

from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http.annotations import PublicResource, operation
from tonnage.api.http.http_request import Request
from tonnage.api.schemas import response_bodies
from tonnage.capacity import errors
from tonnage.ledger.locks import heartbeats

LOG = logging.getLogger(__name__)

_UNWRITABLE = "the ledger cannot be written"


class Health(PublicResource):
    """``GET /healthcheck``: 200 while volumes can be created, otherwise 503 with the parts that do not answer.

    A call costs one query, and every few seconds a small write and a probe message, so it may be called every second.
    It does not wait for a database or a message bus that is away. It also answers 503 while the file ``out_of_service``
    exists: an operator creates the file so that a load balancer sends no more requests before the server is stopped.
    """

    def __init__(self, context: ResourceContext, down_time: int, out_of_service: str | None) -> None:
        self._context, self._down_time, self._out_of_service = context, down_time, out_of_service
        self._logged_reasons: list[str] = []

    @operation({200: response_bodies.Health, 503: response_bodies.Health})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Check that the ledger can be written, the message bus answers and a scheduler is up."""
        reasons = self.reasons()
        self._log(reasons)
        resp.status = falcon.HTTP_503 if reasons else falcon.HTTP_200
        resp.set_header("Cache-Control", "no-store")
        resp.media = response_bodies.Health(not reasons, reasons)

    on_head = on_get

    def reasons(self) -> list[str]:
        """Return the parts that do not answer."""
        if self._out_of_service is not None and os.path.exists(self._out_of_service):
            return ["taken out of service by a file ([healthcheck] disable_by_file_path)"]
        database = self._context.database
        bus = [] if self._context.scheduler.bus_takes_messages() else ["the message bus does not take messages"]
        try:
            with database.reading(patient=False) as session:
                rows = heartbeats.load(session)
            database.require_writable()
        except errors.Unavailable as error:
            LOG.debug("healthcheck: %s", error.message)
            return ["the database does not answer" if database.refusal is None else _UNWRITABLE, *bus]
        schedulers = [row for row in rows if row.binary == heartbeats.SCHEDULER and row.up(self._down_time)]
        # A full disk may still take the small writes of this process.
        if schedulers and all(row.ledger_fault is not None for row in schedulers):
            return [_UNWRITABLE, *bus]
        if schedulers:
            return bus
        return [f"no scheduler was heard in the last {self._down_time} seconds (service_down_time)", *bus]

    def _log(self, reasons: list[str]) -> None:
        """Log the reasons if they differ from those of the last call."""
        if reasons == self._logged_reasons:
            return
        self._logged_reasons = reasons
        LOG.log(logging.WARNING if reasons else logging.INFO, "healthcheck: %s", "; ".join(reasons) or "healthy")
