# SPDX-License-Identifier: Apache-2.0
"""The parts of ``/capacity-overview`` that are not about single pools: volume types, refusals, and the ledger."""

import datetime
import threading
import uuid
from collections import OrderedDict

import falcon

from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.shared_results import SharedResult
from tonnage.api.http.annotations import operation
from tonnage.api.http.cached_answers import send, text_of_time
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.capacity import errors, units
from tonnage.capacity.explanation import Explanation
from tonnage.extensions.page import overview_bodies as bodies
from tonnage.extensions.page.policy_rules import CAPACITY_OVERVIEW
from tonnage.ledger.catalog import refusals
from tonnage.ledger.inventory import audit_findings, volume_figures
from tonnage.ledger.repair import consistency_check
from tonnage.rpc import contract
from tonnage.rpc.messages import CreateVolume, SimulatedRequest, WhatIf

#: The largest number of types that are remembered, of findings, and of refusals in one answer.
_MAX_TYPES = 200
_MAX_FINDINGS = 500
_MAX_REFUSALS = 50

_TYPE = Query(required=("name",))
_POOL = Query(filters=("pool",))


class Types:
    """``GET /capacity-overview/types``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: bodies.TypeOverviews, 304: None})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the volume types with the sums of their volumes."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        with self._context.database.reading(patient=False) as session:
            rows = volume_figures.types(session)
        shown = [
            bodies.TypeOverview(name=row.name, is_public=row.is_public, volumes=row.volumes, size_gb=row.size_gb)
            for row in rows
        ]
        send(req, resp, bodies.TypeOverviews(shown))


class Type:
    """``GET /capacity-overview/type``. The name is in the query, as it may contain any character."""

    def __init__(self, context: ResourceContext, lifetime: float) -> None:
        """``lifetime`` is the number of seconds after which a scheduler is asked again about a type."""
        self._context, self._lifetime = context, lifetime
        self._lock = threading.Lock()
        self._readings: OrderedDict[str, SharedResult[bodies.TypeCapacity]] = OrderedDict()

    @operation({200: bodies.TypeCapacity, 304: None}, query=_TYPE, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the pools that would accept a volume of 1 GiB of the type ``name``, and the reasons of the others."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        name = _TYPE.read(req)["name"]
        with self._context.database.reading(patient=False) as session:
            if all(row.name != name for row in volume_figures.types(session)):
                raise errors.NotFound(f"Volume type {name} could not be found.")
        send(req, resp, self._reading(name).get())

    def _reading(self, name: str) -> SharedResult[bodies.TypeCapacity]:
        with self._lock:
            reading = self._readings.setdefault(name, SharedResult(self._lifetime, lambda: self._ask(name)))
            self._readings.move_to_end(name)
            if len(self._readings) > _MAX_TYPES:
                self._readings.popitem(last=False)
        return reading

    def _ask(self, name: str) -> bodies.TypeCapacity:
        # Without a project no quota counts, and private types are like others.
        create = CreateVolume(
            request_id=f"ask-{uuid.uuid4()}",
            volume_id=str(uuid.uuid4()),
            size_gb=1,
            project_id="",
            volume_type=name,
        )
        [outlook] = self._context.scheduler.call(
            contract.WHAT_IF, WhatIf(requests=[SimulatedRequest(create=create)], detail=True)
        )
        return _type_capacity(name, outlook.volumes[0])


def _type_capacity(name: str, explanation: Explanation) -> bodies.TypeCapacity:
    refused: dict[str, bodies.FilterRefusals] = {}
    candidates, headroom = 0, -1.0
    for verdict in explanation.verdicts:
        if verdict.filter is None:
            candidates += 1
            largest = verdict.headroom
            headroom = max(headroom, float("inf") if largest == units.INFINITE else float(largest or 0))
            continue
        reason = "" if verdict.rejection is None else verdict.rejection.message
        filter_refusals = refused.setdefault(
            verdict.filter,
            bodies.FilterRefusals(filter=verdict.filter, pools=0, example=verdict.pool, reason=reason),
        )
        filter_refusals.pools += 1
    return bodies.TypeCapacity(
        name=name,
        message=explanation.message,
        pools=len(explanation.verdicts),
        candidates=candidates,
        headroom_gb=units.to_wire(headroom) if candidates else None,
        refused=sorted(refused.values(), key=lambda entry: -entry.pools),
    )


class Ledger:
    """``GET /capacity-overview/ledger``."""

    def __init__(self, context: ResourceContext, lifetime: float) -> None:
        """``lifetime`` is the number of seconds after which the ledger is checked again."""
        self._context = context
        self._reading = SharedResult(lifetime, self._check)

    @operation({200: bodies.LedgerOverview, 304: None})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the differences that the consistency check finds, at most a minute old, and the audit of reports."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        send(req, resp, self._reading.get())

    def _check(self) -> bodies.LedgerOverview:
        now = datetime.datetime.now(datetime.UTC)
        with self._context.database.reading(snapshot=True, patient=False) as session:
            checked = consistency_check.check_in(session)
            audits = [audit for audit in audit_findings.load(session) if audit.evidence.once is None]
        return bodies.LedgerOverview(
            checked_at=text_of_time(now) or "",
            pools=checked.pools,
            drift_count=len(checked.drift),
            finding_count=len(checked.findings),
            findings=[
                bodies.LedgerFinding(
                    cause=str(finding.cause),
                    is_drift=finding.drift,
                    where=finding.where,
                    subject=finding.subject,
                    ledger_gb=finding.ledger_gb,
                    found_gb=finding.found_gb,
                    text=finding.text,
                    is_mended_by_repair=finding.mended,
                )
                for finding in checked.findings[:_MAX_FINDINGS]
            ],
            audits=[
                bodies.ReportAudit(
                    backend=audit.backend,
                    pool=audit.pool,
                    breach=audit.breach,
                    text=audit.evidence.text,
                    seen_at=text_of_time(audit.seen_at) or "",
                )
                for audit in audits
            ],
            backends=[
                bodies.BackendListing(
                    name=backend.name,
                    reported_at=_before(now, backend.reported),
                    listed_at=_before(now, backend.listed),
                )
                for backend in checked.backends
            ],
        )


def _before(now: datetime.datetime, seconds: float | None) -> str | None:
    return None if seconds is None else text_of_time(now - datetime.timedelta(seconds=seconds))


class Refusals:
    """``GET /capacity-overview/refusals``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: bodies.RefusalOverview, 304: None}, query=_POOL)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the numbers of refusals by day and reason, and the last 50; ``pool`` selects those nearest to it.

        They are kept for 30 days.
        """
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        refusal_filter = refusals.RefusalFilter(pool=_POOL.read(req).get("pool"))
        with self._context.database.reading(snapshot=True, patient=False) as session:
            counts = refusals.count(session, refusal_filter)
            last = refusals.load(session, refusal_filter, _MAX_REFUSALS)
        shown = bodies.RefusalOverview(
            counts=[views.refusal_count(row) for row in counts], refusals=[views.refusal(row) for row in last]
        )
        send(req, resp, shown)
