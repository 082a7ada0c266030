# SPDX-License-Identifier: Apache-2.0
"""``/qos-specs``: what volumes of some types are to get."""

from collections.abc import Callable
from typing import Any

import falcon

from tonnage.api.auth import policies
from tonnage.api.http import list_query
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import type_bodies, views
from tonnage.ledger.catalog import qos_specs

_LIST_QUERY = Query(sort_keys=qos_specs.SORT_KEYS, more="ignored")
_DELETE_QUERY = Query(flags=("force",), more="ignored")
_TYPE_QUERY = Query(filters=("vol_type_id",), required=("vol_type_id",), more="ignored")


class _Resource:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools


class AllSpecs(_Resource):
    """``/qos-specs``."""

    @operation({200: type_bodies.QosSpecsPage}, query=_LIST_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List QoS specs."""
        tools = self._tools
        tools.policy.require(req.context.identity, policies.QOS_GET_ALL)
        page = tools.lists.page(_LIST_QUERY.read(req))
        with tools.database.reading() as session:
            found = qos_specs.page(session, page)
        resp.media = type_bodies.QosSpecsPage(
            [views.qos_specs(each) for each in found], tools.lists.links(req, page, found)
        )

    @operation({200: type_bodies.OneQosSpecs}, bodies=(type_bodies.CreateQosSpecs,), errors=(409,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create QoS specs: whatever is said beside ``name`` and ``consumer`` is a spec."""
        tools = self._tools
        tools.policy.require(req.context.identity, policies.QOS_CREATE)
        sent = tools.bodies.read(req, type_bodies.CreateQosSpecs)
        made = tools.database.run(qos_specs.create, sent.name, sent.consumer or qos_specs.Consumer.BACK_END, sent.specs)
        resp.media = type_bodies.OneQosSpecs(views.qos_specs(made), views.links(req, "qos-specs", made.id))


class Specs(_Resource):
    """``/qos-specs/{specs_id}``."""

    @operation({200: type_bodies.OneQosSpecs})
    def on_get(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Show QoS specs."""
        self._tools.policy.require(req.context.identity, policies.QOS_GET)
        with self._tools.database.reading() as session:
            found = qos_specs.get(session, specs_id)
        resp.media = type_bodies.OneQosSpecs(views.qos_specs(found), views.links(req, "qos-specs", found.id))

    @operation({200: type_bodies.SetQosSpecs}, bodies=(type_bodies.UpdateQosSpecs,))
    def on_put(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Set some of the specs, or ``consumer``, and leave the others."""
        tools = self._tools
        tools.policy.require(req.context.identity, policies.QOS_UPDATE)
        sent = tools.bodies.read(req, type_bodies.UpdateQosSpecs)
        tools.database.run(qos_specs.update, specs_id, sent.specs, sent.consumer)
        resp.media = type_bodies.SetQosSpecs(sent.qos_specs)

    @operation({202: None}, query=_DELETE_QUERY)
    def on_delete(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Remove QoS specs; with ``force`` also those of types, which go without."""
        self._tools.policy.require(req.context.identity, policies.QOS_DELETE)
        force = list_query.flag(_DELETE_QUERY.read(req), "force")
        self._tools.database.remove(qos_specs.delete, specs_id, force=force)
        resp.status = falcon.HTTP_202


class SpecKeys(_Resource):
    """``/qos-specs/{specs_id}/delete_keys``."""

    @operation({202: None}, bodies=(type_bodies.QosKeys,))
    def on_put(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Remove some of the specs."""
        self._tools.policy.require(req.context.identity, policies.QOS_DELETE)
        self._tools.database.remove(qos_specs.unset, specs_id, self._tools.bodies.read(req, type_bodies.QosKeys).keys)
        resp.status = falcon.HTTP_202


class Associations(_Resource):
    """``/qos-specs/{specs_id}/associations``."""

    @operation({200: type_bodies.QosAssociations})
    def on_get(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """List the types that QoS specs are for."""
        self._tools.policy.require(req.context.identity, policies.QOS_GET_ALL)
        with self._tools.database.reading() as session:
            kinds = qos_specs.associations(session, specs_id)
        resp.media = type_bodies.QosAssociations([type_bodies.QosAssociation(kind.id, kind.name) for kind in kinds])


class Association(_Resource):
    """``/qos-specs/{specs_id}/associate`` and ``disassociate``, which clients call with GET."""

    @operation({202: None}, query=_TYPE_QUERY)
    def on_get_with(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Let QoS specs be those of a type."""
        self._change(req, resp, qos_specs.associate, specs_id)

    @operation({202: None}, query=_TYPE_QUERY)
    def on_get_without(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Let QoS specs be those of a type no more."""
        self._change(req, resp, qos_specs.disassociate, specs_id)

    @operation({202: None})
    def on_get_alone(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Let QoS specs be those of no type."""
        self._tools.policy.require(req.context.identity, policies.QOS_UPDATE)
        self._tools.database.run(qos_specs.disassociate_all, specs_id)
        resp.status = falcon.HTTP_202

    def _change(self, req: Request, resp: falcon.Response, change: Callable[..., Any], specs_id: str) -> None:
        self._tools.policy.require(req.context.identity, policies.QOS_UPDATE)
        self._tools.database.run(change, specs_id, _TYPE_QUERY.read(req)["vol_type_id"])
        resp.status = falcon.HTTP_202
