# SPDX-License-Identifier: Apache-2.0
"""The capabilities of a backend, with the values for the extra specs of volume types, in the format of Cinder."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import falcon
import msgspec

from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.schemas import service_bodies
from tonnage.api.schemas.service_bodies import Capabilities, Property
from tonnage.capacity import pool_stats, request, type_conversion
from tonnage.ledger.inventory import backends


class BackendCapabilities:
    """``/capabilities/{host}``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: service_bodies.Capabilities})
    def on_get(self, req: Request, resp: falcon.Response, host: str) -> None:
        """Show the capabilities of a backend and the extra specs that volume types can require."""
        self._context.policy.require(req.context.identity, policies.CAPABILITIES)
        with self._context.database.reading() as session:
            reports = backends.last_reports(session, host)
        resp.media = of_backend(host, reports)


_FLAGS = {
    "thin_provisioning_support": request.Provisioning.THIN,
    "thick_provisioning_support": request.Provisioning.THICK,
}

#: The key of a report under which a driver may describe extra specs itself.
_DRIVER_PROPERTIES = "properties"

_DESCRIPTIONS: Mapping[str, tuple[str, str]] = {
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

#: Keys of a report that control filters, weighers or drivers, and that extra specs cannot require.
_CONTROL_KEYS = {
    _DRIVER_PROPERTIES,
    "filter_function",
    "goodness_function",
    "location_info",
    "min_free_capacity_extend_percentage",
    "min_free_capacity_percentage",
    "report_lifetime",
}
_HIDDEN = (pool_stats.FIGURES - _FLAGS.keys()) | {*pool_stats.SHOWN, *_CONTROL_KEYS}

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def of_backend(host: str, reports: Sequence[Mapping[str, Any]]) -> Capabilities:
    """Return the capabilities of a backend from the last reports of its pools.

    A value that differs between the pools is null.
    """
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
        properties=dict(sorted({**_reported_properties(reports), **_driver_properties(reports)}.items())),
    )


def _agreed(reports: Sequence[Mapping[str, Any]], key: str) -> str | None:
    values = [report.get(key) for report in reports]
    # A protocol may be a list of all its names, the preferred one first.
    texts = {str(value[0] if isinstance(value, list) and value else value) for value in values if value is not None}
    return texts.pop() if len(texts) == 1 else None


def _reported_properties(reports: Sequence[Mapping[str, Any]]) -> dict[str, Property]:
    """Return each capability with the values in the reports of the pools."""
    values: dict[str, list[Any]] = {}
    for report in reports:
        for flag, provisioning in _FLAGS.items():
            supported = bool(report.get(flag))
            values.setdefault(flag, []).append(supported)
            if supported:
                values.setdefault(request.PROVISIONING_SPEC, []).append(provisioning.value)
        for key, value in _extra_specs(report):
            if key not in _FLAGS:
                values.setdefault(key, []).append(value)
    return {key: _property(key, reported_values) for key, reported_values in values.items()}


def _extra_specs(report: Mapping[str, Any], scope: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of the extra specs that match a report's capabilities, with the reported values.

    Keys of nested capabilities are scoped.
    """
    for key, value in report.items():
        if not scope and key in _HIDDEN:
            continue
        if isinstance(value, Mapping):
            yield from _extra_specs(value, f"{scope or 'capabilities:'}{key}:")
        elif type(value) in _TYPES:
            yield f"{scope}{key}", value


def _property(key: str, values: Sequence[Any]) -> Property:
    title, description = _DESCRIPTIONS.get(key, (key.replace("_", " ").replace(":", " "), "As the driver reports it."))
    type_names = {_TYPES[type(value)] for value in values}
    if len(type_names) > 1:
        return Property(title, description, "string", sorted({str(value) for value in values}))
    return Property(title, description, type_names.pop(), sorted(set(values)))


def _driver_properties(reports: Sequence[Mapping[str, Any]]) -> dict[str, Property]:
    """Return the properties that drivers report, without malformed ones."""
    properties = {}
    for report in reports:
        reported = report.get(_DRIVER_PROPERTIES)
        for key, value in reported.items() if isinstance(reported, Mapping) else ():
            try:
                properties[key] = type_conversion.convert(value, Property)
            except msgspec.ValidationError:
                continue
    return properties
