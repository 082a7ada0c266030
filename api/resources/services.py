# SPDX-License-Identifier: Apache-2.0
"""Schedulers and backends: whether they are up, and whether volumes are placed on a backend."""

from collections.abc import Mapping
from dataclasses import dataclass

import falcon

from tonnage.api import listing
from tonnage.api import microversions
from tonnage.api import policies
from tonnage.api import schemas
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.resources.base import Tools
from tonnage.capacity import errors
from tonnage.ledger import services
from tonnage.rpc.messages import BackendState
from tonnage.rpc.messages import SetBackendState

#: What Cinder calls the same.
_OTHER_NAMES = {"cinder-volume": services.AGENT, "cinder-scheduler": services.SCHEDULER}


class Services:
    """``GET /os-services``."""

    def __init__(self, tools: Tools, down_time: int) -> None:
        self._tools, self._down_time = tools, down_time

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List them; ``host`` and ``binary`` narrow the list down."""
        self._tools.policy.require(req.context.identity, policies.SERVICES)
        wanted = listing.filters(listing.parameters(req), ("host", "binary"))
        binary = _binary(wanted.get("binary"))
        with self._tools.database.reading() as session:
            rows = services.load(session)
        backend_state = req.at_least(microversions.BACKEND_STATE)
        resp.media = {
            "services": [
                views.service(row, self._down_time, backend_state=backend_state)
                for row in rows
                if row.host == wanted.get("host", row.host) and row.binary == (binary or row.binary)
            ]
        }


@dataclass(frozen=True, slots=True)
class _Change:
    state: BackendState
    takes_reason: bool = False
    needs_reason: bool = False


_CHANGES: Mapping[str, _Change] = {
    "enable": _Change(BackendState.ENABLED),
    "disable": _Change(BackendState.DISABLED),
    "disable-log-reason": _Change(BackendState.DISABLED, takes_reason=True, needs_reason=True),
    "drain": _Change(BackendState.DRAINING, takes_reason=True),
}


class ServiceActions:
    """``PUT /os-services/{action}``: enable, disable, disable-log-reason, and drain, which is ours."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def on_put(self, req: Request, resp: falcon.Response, action: str) -> None:
        """Enable or disable a backend, or have its volumes moved away."""
        tools = self._tools
        tools.policy.require(req.context.identity, policies.SERVICES_UPDATE)
        change = _CHANGES.get(action)
        if change is None:
            raise errors.NotFound(f"There is no such action: {action[:64]}. Known are {', '.join(_CHANGES)}.")
        sent = tools.bodies.read(req, schemas.ServiceChange)
        asked = sent.binary or sent.service
        if _binary(asked) != services.AGENT:
            raise errors.InvalidInput(
                f"binary is {asked!r}: expected {services.AGENT}, as only backends can be enabled, disabled or drained"
            )
        reason = (sent.disabled_reason or "").strip() or None if change.takes_reason else None
        if change.needs_reason and reason is None:
            raise errors.InvalidInput("disabled_reason is missing: say why, or use disable")
        tools.scheduler.set_backend_state(SetBackendState(backend=sent.host, state=change.state, reason=reason))
        enabled = change.state is BackendState.ENABLED
        resp.media = {
            "host": sent.host,
            "service": sent.service or "",
            "binary": sent.binary or "",
            "status": "enabled" if enabled else "disabled",
            "disabled": not enabled,
            "draining": change.state is BackendState.DRAINING,
            **({"disabled_reason": reason} if change.takes_reason else {}),
        }


def _binary(name: str | None) -> str | None:
    return name if name is None else _OTHER_NAMES.get(name, name)
