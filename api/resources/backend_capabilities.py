# SPDX-License-Identifier: Apache-2.0
"""The capabilities of a backend, and the values that volume types can ask for, in the form of Cinder."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import falcon
import msgspec

from tonnage.api.auth import policies
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import service_bodies
from tonnage.api.schemas.service_bodies import Capabilities, Property
from tonnage.capacity import request, type_conversion
from tonnage.capacity.reports import pool_stats
from tonnage.ledger.inventory import backends


class BackendCapabilities:
    """``/capabilities/{host}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: service_bodies.Capabilities})
    def on_get(self, req: Request, resp: falcon.Response, host: str) -> None:
        """Show what a backend is, and what volume types can ask of it."""
        self._tools.policy.require(req.context.identity, policies.CAPABILITIES)
        with self._tools.database.reading() as session:
            reports = backends.reports_of(session, host)
        resp.media = of_backend(host, reports)


_FLAGS = {
    "thin_provisioning_support": request.Provisioning.THIN,
    "thick_provisioning_support": request.Provisioning.THICK,
}

#: What a driver may report by itself of the specs that mean something to it.
_OWN = "properties"

_KNOWN: Mapping[str, tuple[str, str]] = {
    "thin_provisioning_support": (
        "Thin provisioning support",
        "Whether thin volumes can be made: '<is> True' asks for it.",
    ),
    "thick_provisioning_support": (
        "Thick provisioning support",
        "Whether thick volumes can be made: '<is> True' asks for it.",
    ),
    request.PROVISIONING_SPEC: ("Provisioning type", "How volumes are made. It picks no pool by itself."),
    "volume_backend_name": ("Backend name", "The name that the configuration gives the backend."),
}

#: Steers filters and weighers, or drivers, and is nothing to be asked for.
_STEERING = {
    _OWN,
    "filter_function",
    "goodness_function",
    "location_info",
    "min_free_capacity_extend_percentage",
    "min_free_capacity_percentage",
    "report_lifetime",
}
_HIDDEN = (pool_stats.FIGURES - _FLAGS.keys()) | {*pool_stats.SHOWN, *_STEERING}

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def of_backend(host: str, reports: Sequence[Mapping[str, Any]]) -> Capabilities:
    """Return what a backend is by the last reports of its pools. What they do not agree on is null."""
    return Capabilities(
        namespace=f"OS::Storage::Capabilities::{host}",
        vendor_name=_agreed(reports, "vendor_name"),
        volume_backend_name=_agreed(reports, "volume_backend_name"),
        pool_name=_agreed(reports, "pool_name"),
        driver_version=_agreed(reports, "driver_version"),
        storage_protocol=_agreed(reports, "storage_protocol"),
        display_name=_agreed(reports, "display_name"),
        description=_agreed(reports, "description"),
        visibility=_agreed(reports, "visibility"),
        properties=dict(sorted({**_asked_for(reports), **_own(reports)}.items())),
    )


def _agreed(reports: Sequence[Mapping[str, Any]], key: str) -> str | None:
    values = [report.get(key) for report in reports]
    # Of a protocol there may be all its names, the preferred one first.
    texts = {str(value[0] if isinstance(value, list) and value else value) for value in values if value is not None}
    return texts.pop() if len(texts) == 1 else None


def _asked_for(reports: Sequence[Mapping[str, Any]]) -> dict[str, Property]:
    """Return each capability with the values that pools report."""
    values: dict[str, list[Any]] = {}
    for report in reports:
        for flag, provisioning in _FLAGS.items():
            supported = bool(report.get(flag))
            values.setdefault(flag, []).append(supported)
            if supported:
                values.setdefault(request.PROVISIONING_SPEC, []).append(provisioning.value)
        for key, value in _flat(report):
            if key not in _FLAGS:
                values.setdefault(key, []).append(value)
    return {key: _property(key, found) for key, found in values.items()}


def _flat(report: Mapping[str, Any], scope: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the capabilities of a report by the extra specs that ask for them, nested ones in their scope."""
    for key, value in report.items():
        if not scope and key in _HIDDEN:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{scope or 'capabilities:'}{key}:")
        elif type(value) in _TYPES:
            yield f"{scope}{key}", value


def _property(key: str, values: Sequence[Any]) -> Property:
    title, description = _KNOWN.get(key, (key.replace("_", " ").replace(":", " "), "As the driver reports it."))
    kinds = {_TYPES[type(value)] for value in values}
    if len(kinds) > 1:
        return Property(title, description, "string", sorted({str(value) for value in values}))
    return Property(title, description, kinds.pop(), sorted(set(values)))


def _own(reports: Sequence[Mapping[str, Any]]) -> dict[str, Property]:
    """Return what drivers report of this themselves, as far as it has the form."""
    found = {}
    for report in reports:
        given = report.get(_OWN)
        for key, value in given.items() if isinstance(given, Mapping) else ():
            try:
                found[key] = type_conversion.convert(value, Property)
            except msgspec.ValidationError:
                continue
    return found
