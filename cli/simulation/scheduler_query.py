# SPDX-License-Identifier: Apache-2.0
"""Queries of commands to a running scheduler, over the message bus or, without a bus, over REST.

A question has the format of the body of ``POST /v3/{project}/scheduler-stats/what-if`` in both cases.
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import oslo_messaging
from oslo_config import cfg

from tonnage.api.context import volume_requests
from tonnage.api.http import body
from tonnage.api.schemas import fields, simulation_bodies, volume_bodies
from tonnage.capacity import errors, type_conversion
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.cli.rest import api_client, connection_arguments
from tonnage.cli.simulation import explanations
from tonnage.cli.simulation.argument_types import PROJECT
from tonnage.rpc import contract
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import CreateGroup, CreateVolume, SimulatedRequest, SimulationResult, WhatIf

#: Prefixes of the URLs of message buses within a process, which other processes cannot reach.
_IN_PROCESS = ("kombu+memory:", "fake:")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTarget:
    """The destination and the origin of a query.

    ``url`` is the URL of the REST API in the command line; without it and without a URL in the environment, the message
    bus of the configuration is used. The default of ``project`` is the project of the credentials over REST, and
    :data:`PROJECT` over the bus. ``cloud`` is the entry of clouds.yaml with the credentials, in case the API requires
    them.
    """

    project: str | None = None
    url: str | None = None
    cloud: str | None = None


def query(conf: cfg.ConfigOpts, question: Mapping[str, Any], target: QueryTarget) -> list[SimulationResult]:
    """Send a question to a scheduler and return its outlooks.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the credentials are missing,
    :class:`~tonnage.capacity.errors.Unavailable` if no scheduler answers, and the errors of the scheduler.
    """
    if connection_arguments.named_url(conf, target.url) is None and _uses_bus(conf):
        return _over_rpc(conf, question, target.project or PROJECT)
    return _over_rest(connection_arguments.api_url(conf, target.url), question, target)


def _uses_bus(conf: cfg.ConfigOpts) -> bool:
    """Return whether a configuration has a message bus that other processes can reach."""
    if not (conf.config_file or conf.config_dir or connection_arguments.names_bus(conf)):
        return False
    return not (conf.transport_url or "rabbit://").startswith(_IN_PROCESS)


def _over_rpc(conf: cfg.ConfigOpts, question: Mapping[str, Any], project: str) -> list[SimulationResult]:
    message = as_message(question, project, conf.default_volume_type)
    if not conf.debug:
        # If no scheduler answers, one line of the command says so. The library's log lines are for debugging.
        logging.getLogger("oslo.messaging").setLevel(logging.CRITICAL)
    transport = rpc_transport.create(conf)
    try:
        return SchedulerClient(transport).call(contract.WHAT_IF, message)
    except errors.Unavailable as error:
        hosts = oslo_messaging.TransportURL.parse(conf).hosts
        named = ", ".join(f"{host.hostname}:{host.port or 'its usual port'}" for host in hosts) or "this machine"
        raise errors.Unavailable(
            f"{error.message} (asked over the message bus of option transport_url, {named}; with --url the REST API is "
            "asked)"
        ) from None
    finally:
        transport.cleanup()


def _over_rest(url: str, question: Mapping[str, Any], target: QueryTarget) -> list[SimulationResult]:
    client = api_client.ApiClient(url, target.project, target.cloud)
    outlooks = client.post("/scheduler-stats/what-if", question, "outlooks")
    return type_conversion.convert(explanations.with_nan(outlooks), list[SimulationResult])


def as_message(question: Mapping[str, Any], project: str, default_type: str | None) -> WhatIf:
    """Return the RPC message for a question. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    sent = body.convert(dict(question), simulation_bodies.WhatIf)
    return WhatIf(
        requests=[
            _request_message(request, f"requests[{index}]", project, default_type)
            for index, request in enumerate(sent.requests)
        ],
        changes=type_conversion.convert(sent.changes, Changes, from_attributes=True),
        detail=sent.detail,
        apart=sent.independent,
    )


def _request_message(
    request: Mapping[str, Any], where: str, project: str, default_type: str | None
) -> SimulatedRequest:
    request_id = f"ask-{uuid.uuid4()}"
    body_keys = sorted(simulation_bodies.REQUEST_BODIES.keys() & request.keys())
    if len(body_keys) != 1:
        raise errors.InvalidInput(f"{where} takes one of {', '.join(simulation_bodies.REQUEST_BODIES)}")
    try:
        sent: simulation_bodies.RequestBody = body.convert(request, simulation_bodies.REQUEST_BODIES[body_keys[0]])
        if isinstance(sent, volume_bodies.CreateVolume):
            return SimulatedRequest(create=_create(sent.volume, sent.all_hints(), request_id, project, default_type))
        if not isinstance(sent, volume_bodies.CreateVolumes):
            return volume_requests.existing_volume_request(sent, request_id)
        creates = [_create(volume, sent.all_hints(), request_id, project, default_type) for volume in sent.volumes]
        ids = [create.volume_id for create in creates]
        creates = [
            volume_requests.resolve_siblings(create, f"volumes[{index}]", ids) for index, create in enumerate(creates)
        ]
        return SimulatedRequest(group=CreateGroup(request_id=request_id, volumes=creates))
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{where}: {error.message}") from None


def _create(
    volume: volume_bodies.NewVolume, shared_hints: fields.Hints, request_id: str, project: str, default_type: str | None
) -> CreateVolume:
    if not isinstance(volume.size, fields.Size):
        raise errors.InvalidInput("missing required field size")
    message = CreateVolume(
        request_id=request_id,
        volume_id=str(uuid.uuid4()),
        size_gb=int(volume.size),
        project_id=project,
        volume_type=volume.volume_type or default_type or None,
        availability_zone=volume.availability_zone or None,
        hints={**shared_hints, **volume.all_hints()},
    )
    return message if volume.source_volid is None else replace(message, source_volume_id=volume.source_volid)
