# SPDX-License-Identifier: Apache-2.0
"""Health, for load balancers and operators."""

import logging
import os
from collections.abc import Callable

import falcon

from tonnage.api.http.http_request import Request
from tonnage.api.openapi.annotations import Open, operation
from tonnage.api.schemas import response_bodies
from tonnage.capacity import errors
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import heartbeats

LOG = logging.getLogger(__name__)


class Health(Open):
    """``GET /healthcheck``: 200 while volumes can be created, else 503 and every part that is not there.

    It costs one query, and a message to nobody every few seconds, so it can be asked every second; it waits for nothing
    that is away. While there is a file ``out_of_service`` it is 503 as well: so an operator has a load balancer send no
    more requests here, before the server is stopped.
    """

    def __init__(self, database: Database, bus: Callable[[], bool], down_time: int, out_of_service: str | None) -> None:
        """``bus`` tells whether the message bus takes messages."""
        self._database, self._bus, self._down_time, self._out_of_service = database, bus, down_time, out_of_service
        self._said: list[str] = []

    @operation({200: response_bodies.Health, 503: response_bodies.Health})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Look whether the database and the message bus answer and a scheduler is up."""
        reasons = self._reasons()
        self._log(reasons)
        resp.status = falcon.HTTP_503 if reasons else falcon.HTTP_200
        resp.set_header("Cache-Control", "no-store")
        resp.media = response_bodies.Health(not reasons, reasons)

    on_head = on_get

    def _reasons(self) -> list[str]:
        if self._out_of_service is not None and os.path.exists(self._out_of_service):
            return ["taken out of service by a file ([healthcheck] disable_by_file_path)"]
        bus = [] if self._bus() else ["the message bus does not take messages"]
        try:
            with self._database.reading(patient=False) as session:
                rows = heartbeats.load(session)
        except errors.Unavailable as error:
            LOG.debug("healthcheck: %s", error.message)
            return ["the database does not answer", *bus]
        schedulers = [row for row in rows if row.binary == heartbeats.SCHEDULER]
        if any(row.up(self._down_time) for row in schedulers):
            return bus
        return [f"no scheduler was heard in the last {self._down_time} seconds (service_down_time)", *bus]

    def _log(self, reasons: list[str]) -> None:
        """Say what has changed, and not each time."""
        if reasons == self._said:
            return
        self._said = reasons
        LOG.log(logging.WARNING if reasons else logging.INFO, "healthcheck: %s", "; ".join(reasons) or "healthy")
