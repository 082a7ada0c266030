# SPDX-License-Identifier: Apache-2.0
"""The way from a command to a running scheduler: over the message bus or, where there is none, over REST.

A question is the body that ``POST /v3/{project}/scheduler-stats/what-if`` takes, either way.
"""

import http.client
import json
import math
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import oslo_messaging
from oslo_config import cfg

from tonnage.api import volume_requests
from tonnage.api.http import body, fields
from tonnage.api.schemas import simulation_bodies, volume_bodies
from tonnage.capacity import errors, type_conversion
from tonnage.capacity.pools.hypothetical_pools import Changes
from tonnage.cli.commands import credentials
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.messages import Asked, CreateGroup, CreateVolume, Outlook, WhatIf
from tonnage.rpc.scheduler_client import SchedulerClient

#: A bus that is in the memory of one process, which no other can reach.
_WITHIN = ("kombu+memory:", "fake:")

_REST_SECONDS = 120

#: Who asks where nobody says it.
PROJECT = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks whom: ``url`` is where the REST API listens, if it is to be asked.

    Without a ``project`` it is the one of who asks there, or :data:`PROJECT`. ``cloud`` is an entry of clouds.yaml that
    says who that is, where the API wants to know.
    """

    project: str | None = None
    url: str | None = None
    cloud: str | None = None


def ask(conf: cfg.ConfigOpts, question: Mapping[str, Any], asker: Asker) -> list[Outlook]:
    """Return what a scheduler answers.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it is not known whom to ask or who asks,
    :class:`~tonnage.capacity.errors.Unavailable` if nobody answers, and what the scheduler raises.
    """
    url = asker.url
    place = conf.get_location("transport_url")
    set_by_somebody = place is not None and place.location.is_user_controlled
    if url is None and not (conf.config_file or conf.config_dir or set_by_somebody):
        raise errors.ConfigurationError(
            "nobody is known who could be asked: name the configuration of Tonnage with --config-file, or the REST API "
            "with --url http://HOST:PORT"
        )
    if url is None and not (conf.transport_url or "rabbit://").startswith(_WITHIN):
        return _over_rpc(conf, question, asker.project or PROJECT)
    if url is None:
        host = conf.osapi_volume_listen
        url = f"http://{f'[{host}]' if ':' in host else host}:{conf.osapi_volume_listen_port}"
    return _over_rest(url, question, asker)


def _over_rpc(conf: cfg.ConfigOpts, question: Mapping[str, Any], project: str) -> list[Outlook]:
    message = as_message(question, project, conf.default_volume_type)
    transport = rpc_transport.create(conf)
    try:
        return SchedulerClient(transport).what_if(message)
    except errors.Unavailable as error:
        hosts = oslo_messaging.TransportURL.parse(conf).hosts
        named = ", ".join(f"{host.hostname}:{host.port or 'its usual port'}" for host in hosts) or "this machine"
        raise errors.Unavailable(
            f"{error.message} (asked over the message bus of option transport_url, {named}; with --url the REST API is "
            "asked)"
        ) from None
    finally:
        transport.cleanup()


def _over_rest(url: str, question: Mapping[str, Any], asker: Asker) -> list[Outlook]:
    project = "" if asker.project is None else f"/{urllib.parse.quote(asker.project, safe='')}"
    address = f"{url.rstrip('/')}/v3{project}/scheduler-stats/what-if"
    try:
        try:
            outlooks = _answer(address, question, {})
        except _Challenged as challenged:
            outlooks = _answer(address, question, credentials.headers(challenged.by, asker.cloud))
    except _Challenged as challenged:
        raise errors.InvalidInput(f"the REST API at {url} does not take these credentials: {challenged}") from None
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        reason = getattr(error, "reason", None) or error
        raise errors.Unavailable(
            f"nobody answers at {address} ({reason}): start Tonnage, or say where its REST API listens with --url"
        ) from None
    return type_conversion.convert(_with_nan(outlooks), list[Outlook])


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: who asks is nobody's business but of the API that was named."""

    def redirect_request(self, *given: Any) -> None:
        """Refuse."""


_OPENER = urllib.request.build_opener(_Stay)


class _Challenged(Exception):
    """The API wants to know who asks."""

    def __init__(self, said: str, by: str) -> None:
        super().__init__(said)
        self.by = by


def _answer(address: str, question: Mapping[str, Any], who: Mapping[str, str]) -> Any:
    """Return the outlooks. Raises :class:`_Challenged`, and what the library raises."""
    request = urllib.request.Request(  # noqa: S310 (the scheme has been looked at)
        address, json.dumps(question).encode(), {"Content-Type": "application/json", **who}
    )
    try:
        with _OPENER.open(request, timeout=_REST_SECONDS) as answer:
            return json.load(answer)["outlooks"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.HTTPStatus.UNAUTHORIZED:
                raise _Challenged(_said(error), error.headers.get("WWW-Authenticate", "")) from None
            if (moved := error.headers.get("Location")) is not None:
                raise errors.InvalidInput(
                    f"the REST API is not at {address} but, as is said there, at {moved}"
                ) from None
            raise errors.InvalidInput(_said(error)) from None


def _said(error: urllib.error.HTTPError) -> str:
    """Return what the API says in an error, whose body has one key that names the error."""
    try:
        [told] = json.load(error).values()
        return str(told["message"])
    except (ValueError, KeyError, TypeError):
        return f"the REST API answered {error.code} {error.reason}"


def _with_nan(value: Any) -> Any:
    """Put back weights of pools that cannot be ranked, for which JSON has null."""
    if isinstance(value, list):
        return [_with_nan(each) for each in value]
    if isinstance(value, dict):
        return {key: math.nan if key == "raw" and each is None else _with_nan(each) for key, each in value.items()}
    return value


def as_message(question: Mapping[str, Any], project: str, default_type: str | None) -> WhatIf:
    """Return a question as schedulers take it. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    sent = body.convert(dict(question), simulation_bodies.WhatIf)
    return WhatIf(
        requests=[
            _asked(item, f"requests[{place}]", project, default_type) for place, item in enumerate(sent.requests)
        ],
        changes=type_conversion.convert(sent.changes, Changes, from_attributes=True),
        detail=sent.detail,
        apart=sent.apart,
    )


def _asked(item: Mapping[str, Any], where: str, project: str, default_type: str | None) -> Asked:
    request_id = f"ask-{uuid.uuid4()}"
    given = sorted(simulation_bodies.ASKED.keys() & item.keys())
    if len(given) != 1:
        raise errors.InvalidInput(f"{where} takes one of {', '.join(simulation_bodies.ASKED)}")
    try:
        sent: simulation_bodies.Question = body.convert(item, simulation_bodies.ASKED[given[0]])
        if isinstance(sent, volume_bodies.CreateVolume):
            return Asked(create=_create(sent.volume, sent.all_hints(), request_id, project, default_type))
        if not isinstance(sent, volume_bodies.CreateVolumes):
            return volume_requests.of_volume_there(sent, request_id)
        creates = [_create(each, sent.all_hints(), request_id, project, default_type) for each in sent.volumes]
        ids = [each.volume_id for each in creates]
        creates = [volume_requests.siblings_by_id(each, f"volumes[{place}]", ids) for place, each in enumerate(creates)]
        return Asked(group=CreateGroup(request_id=request_id, volumes=creates))
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{where}: {error.message}") from None


def _create(
    wanted: volume_bodies.NewVolume, beside: fields.Hints, request_id: str, project: str, default_type: str | None
) -> CreateVolume:
    if not isinstance(wanted.size, fields.Size):
        raise errors.InvalidInput("missing required field size")
    message = CreateVolume(
        request_id=request_id,
        volume_id=str(uuid.uuid4()),
        size_gb=int(wanted.size),
        project_id=project,
        volume_type=wanted.volume_type or default_type,
        availability_zone=wanted.availability_zone or None,
        hints={**beside, **wanted.all_hints()},
    )
    return message if wanted.source_volid is None else replace(message, source_volume_id=wanted.source_volid)
