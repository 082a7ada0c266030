# SPDX-License-Identifier: Apache-2.0
"""Messages on Cinder's bus, decoded without Cinder: reports, requests to schedulers, commands to volume services.

Cinder sends its objects as versioned objects: a mapping with the name, the version and the data. The decoder takes the
data alone, so the messages of every release with these fields are understood.
"""

import datetime
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_DATA = "versioned_object.data"


class Verb(enum.StrEnum):
    """The operations that need capacity, under their names in Cinder."""

    CREATE = "create_volume"
    EXTEND = "extend_volume"
    MIGRATE = "migrate_volume"
    RETYPE = "retype"


#: The operations that may take a volume to another pool.
MOVES = frozenset({Verb.MIGRATE, Verb.RETYPE})

#: The request to take over a volume from the storage.
MANAGE = "manage_existing"

#: The other requests to schedulers that are about pools, with the reasons for which their decisions are not judged.
UNJUDGED = {
    "create_snapshot": "a snapshot: its driver decides how much room it takes",
    MANAGE: "a volume that the storage has already",
    "manage_existing_snapshot": "a snapshot that the storage has already",
    "create_group": "an empty group: each of its volumes is a request of its own",
    "validate_host_capacity": "a group from a source: Cinder asks for all its volumes at once, and sends no command",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The stats of a backend, ``host@backend`` or the name of its cluster.

    ``sent_at`` is the time of the publication, in seconds since 1970 by the clock of the volume service ``host``. Only
    a ``periodic`` report follows the one before it in the order of their figures.
    """

    backend: str
    host: str
    sent_at: float
    stats: Mapping[str, Any]
    periodic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to Cinder's schedulers. ``size_gb`` is the capacity that the pool has to provide, in GiB.

    ``pool`` is where the volume is, ``target`` the pool or the backend that the request names. ``attempted`` are the
    pools in which an earlier attempt failed.
    """

    verb: Verb
    request_id: str
    volume_id: str
    size_gb: int
    project_id: str = ""
    pool: str | None = None
    target: str | None = None
    volume_type: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    availability_zone: str | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    attempted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of Cinder's scheduler to a volume service: its decision to place ``size_gb`` GiB in ``pool``.

    ``attempt`` is the number of the attempt to create the volume.
    """

    verb: Verb
    request_id: str
    volume_id: str
    pool: str
    size_gb: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedRequest:
    """A request to Cinder's schedulers whose decision is not judged. ``volume_id`` is empty if it has no volume."""

    verb: str
    request_id: str
    volume_id: str


Message = Report | Request | Command | UnjudgedRequest


def decode(exchange: str, routing_key: str, body: bytes | str) -> Message | None:
    """Return the message in a delivery, None for one that says nothing about capacity.

    Raises ValueError with the reason for a body that cannot be understood.
    """
    try:
        envelope = json.loads(body)
        message = json.loads(envelope["oslo.message"]) if "oslo.message" in envelope else envelope
        method, arguments = message["method"], plain(message["args"])
        if method == "update_service_capabilities":
            return _report(message, arguments)
        request_id = str(message.get("_context_request_id") or "")
        is_command = routing_key.startswith("cinder-volume.")
        if method in UNJUDGED and not is_command:
            volume = arguments.get("volume") or {}
            return UnjudgedRequest(verb=method, request_id=request_id, volume_id=str(volume.get("id") or ""))
        if method not in {verb.value for verb in Verb}:
            return None
        if is_command:
            return _command(Verb(method), request_id, arguments)
        return _request(Verb(method), request_id, arguments)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"a message to {routing_key or exchange} is not understood: {error!r}") from error


def plain(value: Any) -> Any:
    """Return a value with each versioned object replaced by its data."""
    if isinstance(value, Mapping):
        return plain(value[_DATA]) if _DATA in value else {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) else value


def _report(message: Mapping[str, Any], arguments: Mapping[str, Any]) -> Report | None:
    if arguments.get("service_name") != "volume":
        return None
    sent = datetime.datetime.fromisoformat(arguments["timestamp"]).replace(tzinfo=datetime.UTC)
    host = arguments["host"]
    return Report(
        backend=arguments.get("cluster_name") or host,
        host=host,
        sent_at=sent.timestamp(),
        stats=arguments["capabilities"],
        periodic=not message.get("_context_user_id") and not message.get("_context_project_id"),
    )


def _request(verb: Verb, request_id: str, arguments: Mapping[str, Any]) -> Request:
    volume, spec = arguments["volume"], arguments["request_spec"]
    properties = arguments.get("filter_properties") or {}
    volume_type = spec.get("volume_type") or {}
    target = spec.get("resource_backend")
    size_gb = int(volume["size"])
    if verb is Verb.EXTEND:
        size_gb = int(arguments["new_size"]) - size_gb
    elif verb is Verb.MIGRATE:
        target = arguments.get("backend") or arguments.get("host")
    zones = spec.get("availability_zones") or []
    retry = properties.get("retry") or {}
    return Request(
        verb=verb,
        request_id=request_id,
        volume_id=volume["id"],
        size_gb=size_gb,
        project_id=volume.get("project_id") or "",
        pool=pool_of(volume),
        target=target,
        volume_type=volume_type.get("name"),
        extra_specs=volume_type.get("extra_specs") or {},
        availability_zone=zones[0] if len(zones) == 1 else volume.get("availability_zone") if not zones else None,
        hints=properties.get("scheduler_hints") or {},
        attempted=frozenset(retry.get("backends") or ()),
    )


def _command(verb: Verb, request_id: str, arguments: Mapping[str, Any]) -> Command | None:
    volume = arguments["volume"]
    pool, size_gb = pool_of(volume), int(volume["size"])
    if verb is Verb.EXTEND:
        size_gb = int(arguments["new_size"]) - size_gb
    elif verb in MOVES:
        host = arguments["host"]
        target = pool_of(host)
        if target == pool:
            size_gb = 0
        pool = target
    if pool is None:
        return None
    retry = (arguments.get("filter_properties") or {}).get("retry") or {}
    return Command(
        verb=verb,
        request_id=request_id,
        volume_id=volume["id"],
        pool=pool,
        size_gb=size_gb,
        attempt=int(retry.get("num_attempts") or 1),
    )


def pool_of(volume: Mapping[str, Any]) -> str | None:
    """Return the pool of a volume or of a target: that of its cluster if it has one, else that of its host."""
    return volume.get("cluster_name") or volume.get("host") or None
