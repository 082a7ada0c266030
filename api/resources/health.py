# SPDX-License-Identifier: Apache-2.0
"""Health, for load balancers and operators."""

import logging
import os

import falcon

from tonnage.api import answers
from tonnage.api.http import Request
from tonnage.api.operations import Open
from tonnage.api.operations import operation
from tonnage.capacity import errors
from tonnage.ledger import services
from tonnage.ledger.database import Database

LOG = logging.getLogger(__name__)


class Health(Open):
    """``GET /healthcheck``: 200 while volumes can be created, else 503 and what is amiss.

    It costs one query and sends no message, so it can be asked every second. While there is a file ``out_of_service``
    it is 503 as well: so an operator has a load balancer send no more requests here, before the server is stopped.
    """

    def __init__(self, database: Database, down_time: int, out_of_service: str | None) -> None:
        self._database, self._down_time, self._out_of_service = database, down_time, out_of_service

    @operation({200: answers.Health, 503: answers.Health})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Look whether the database answers and a scheduler is up."""
        reasons = self._reasons()
        resp.status = falcon.HTTP_503 if reasons else falcon.HTTP_200
        resp.set_header("Cache-Control", "no-store")
        resp.media = answers.Health(not reasons, reasons)

    on_head = on_get

    def _reasons(self) -> list[str]:
        if self._out_of_service is not None and os.path.exists(self._out_of_service):
            return ["taken out of service by a file ([healthcheck] disable_by_file_path)"]
        try:
            with self._database.reading() as session:
                rows = services.load(session)
        except errors.Unavailable as error:
            LOG.warning("healthcheck: %s", error.message)
            return ["the database does not answer"]
        schedulers = [row for row in rows if row.binary == services.SCHEDULER]
        if any(row.up(self._down_time) for row in schedulers):
            return []
        return [f"no scheduler was heard in the last {self._down_time} seconds (service_down_time)"]
