# SPDX-License-Identifier: Apache-2.0
"""Refused requests of Cinder as the ledger keeps them, so that ``tonnage why`` can ask again."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cinder import context as cinder_context
from cinder import exception, objects
from oslo_config import cfg
from oslo_serialization import jsonutils

from tonnage.ledger.catalog import refusals

#: The fields that are not recorded: whole objects, and fields that tell of secrets.
_UNRECORDED = frozenset({"volume", "volume_type", "volume_properties", "encryption_key_id", "reservations"})

#: The fields of requests about existing volumes, which Cinder's object for requests does not have.
_MORE = {"request": ("resource_properties", "migration_policy"), "volume": ("id", "name", "host", "cluster_name")}

#: The filter properties that come with a request; a scheduler adds the rest.
_PROPERTIES = ("scheduler_hints", "retry", "new_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request to repeat, with the pool or backend to which it is limited, if any."""

    spec: dict[str, Any]
    properties: dict[str, Any]
    target: str | None

    @property
    def context(self) -> Any:
        """A context with the rights of an administrator, for the project and the user of the request."""
        volume = self.spec["volume_properties"]
        return cinder_context.RequestContext(
            user_id=volume.get("user_id"), project_id=volume.get("project_id"), is_admin=True, overwrite=False
        )


def body(request_spec: Any, filter_properties: Any, target: str | None) -> dict[str, Any]:
    """Return a request, as Cinder's scheduler has it, for the ledger."""
    volume = _picked(
        request_spec.get("volume_properties", None) or {}, (*objects.VolumeProperties.fields, *_MORE["volume"])
    )
    spec = _picked(request_spec, (*objects.RequestSpec.fields, *_MORE["request"]))
    if "resource_properties" in spec:
        spec["resource_properties"] = volume
    volume_type = _picked(request_spec.get("volume_type", None) or {}, ("id", "name", "extra_specs"))
    properties = _picked(filter_properties or {}, _PROPERTIES)
    if "retry" in properties:
        properties["retry"].pop("exc", None)
    return refusals.cinder_body(
        exchange=cfg.CONF.control_exchange,  # noqa: TID251  (Cinder's way)
        request={
            "spec": {**spec, "volume_properties": volume, "volume_type": volume_type or None},
            "properties": properties,
            "place": target,
        },
    )


def read(recorded: Mapping[str, Any]) -> RecordedRequest:
    """Return a request from the ledger, with its volume type as it is now."""
    spec = dict(recorded["spec"])
    if volume_type := spec.get("volume_type"):
        with contextlib.suppress(exception.VolumeTypeNotFound):
            current_type = objects.VolumeType.get_by_id(cinder_context.get_admin_context(), volume_type["id"])
            spec["volume_type"] = {
                "id": current_type.id,
                "name": current_type.name,
                "extra_specs": dict(current_type.extra_specs or {}),
            }
    return RecordedRequest(spec=spec, properties=dict(recorded["properties"]), target=recorded["place"])


def _picked(source: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of an object or a mapping that have a value, as builtins."""
    # Objects of Cinder have to be given a default, or they look for a missing field in the database.
    values = {name: source.get(name, None) for name in dict.fromkeys(names) if name not in _UNRECORDED}
    fields: dict[str, Any] = jsonutils.to_primitive(
        {name: value for name, value in values.items() if value is not None}
    )
    return fields
