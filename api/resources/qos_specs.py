# SPDX-License-Identifier: Apache-2.0
"""QoS specs and their associations with volume types, ``/qos-specs``."""

from collections.abc import Callable

import falcon
from sqlalchemy import orm

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import list_query
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import type_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import qos_specs

_LIST_QUERY = Query(sort_keys=qos_specs.SORT_KEYS, other_parameters="ignored")
_DELETE_QUERY = Query(flags=("force",), other_parameters="ignored")
_TYPE_QUERY = Query(filters=("vol_type_id",), required=("vol_type_id",), other_parameters="ignored")


class _Resource:
    def __init__(self, context: ResourceContext) -> None:
        self._context = context


class QosSpecsCollection(_Resource):
    """``/qos-specs``."""

    @operation({200: type_bodies.QosSpecsPage}, query=_LIST_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List QoS specs."""
        context = self._context
        context.policy.require(req.context.identity, policies.QOS_GET_ALL)
        page = context.paginator.page(_LIST_QUERY.read(req))
        with context.database.reading() as session:
            rows = qos_specs.page(session, page)
        resp.media = type_bodies.QosSpecsPage(
            [views.qos_specs(row) for row in rows], context.paginator.links(req, page, rows)
        )

    @operation({200: type_bodies.OneQosSpecs}, bodies=(type_bodies.CreateQosSpecs,), errors=(409,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create QoS specs. All keys except ``name`` and ``consumer`` are specs."""
        context = self._context
        context.policy.require(req.context.identity, policies.QOS_CREATE)
        sent = context.bodies.read(req, type_bodies.CreateQosSpecs)
        created = context.database.run(
            qos_specs.create, sent.name, sent.consumer or qos_specs.Consumer.BACK_END, sent.specs
        )
        resp.media = type_bodies.OneQosSpecs(views.qos_specs(created), views.links(req, "qos-specs", created.id))


class QosSpecsItem(_Resource):
    """``/qos-specs/{specs_id}``."""

    @operation({200: type_bodies.OneQosSpecs})
    def on_get(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Show QoS specs."""
        self._context.policy.require(req.context.identity, policies.QOS_GET)
        with self._context.database.reading() as session:
            specs = qos_specs.get(session, specs_id)
        resp.media = type_bodies.OneQosSpecs(views.qos_specs(specs), views.links(req, "qos-specs", specs.id))

    @operation({200: type_bodies.SetQosSpecs}, bodies=(type_bodies.UpdateQosSpecs,))
    def on_put(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Set some of the specs, or ``consumer``, and leave the others."""
        context = self._context
        context.policy.require(req.context.identity, policies.QOS_UPDATE)
        sent = context.bodies.read(req, type_bodies.UpdateQosSpecs)
        context.database.run(qos_specs.update, specs_id, sent.specs, sent.consumer)
        resp.media = type_bodies.SetQosSpecs(sent.qos_specs)

    @operation({202: None}, query=_DELETE_QUERY)
    def on_delete(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Delete QoS specs. ``force`` is required if volume types are associated."""
        self._context.policy.require(req.context.identity, policies.QOS_DELETE)
        force = list_query.boolean(_DELETE_QUERY.read(req), "force")
        self._context.database.remove(qos_specs.delete, specs_id, force=force)
        resp.status = falcon.HTTP_202


class SpecKeys(_Resource):
    """``/qos-specs/{specs_id}/delete_keys``."""

    @operation({202: None}, bodies=(type_bodies.QosKeys,))
    def on_put(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Delete some keys of QoS specs."""
        self._context.policy.require(req.context.identity, policies.QOS_DELETE)
        self._context.database.remove(
            qos_specs.unset, specs_id, self._context.bodies.read(req, type_bodies.QosKeys).keys
        )
        resp.status = falcon.HTTP_202


class Associations(_Resource):
    """``/qos-specs/{specs_id}/associations``."""

    @operation({200: type_bodies.QosAssociations})
    def on_get(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """List the volume types of QoS specs."""
        self._context.policy.require(req.context.identity, policies.QOS_GET_ALL)
        with self._context.database.reading() as session:
            volume_types = qos_specs.associations(session, specs_id)
        resp.media = type_bodies.QosAssociations(
            [type_bodies.QosAssociation(volume_type.id, volume_type.name) for volume_type in volume_types]
        )


#: Headers of requests that a browser or a proxy sends in advance, before a user asks for the answer.
_PURPOSES = ("Purpose", "Sec-Purpose", "X-Purpose", "X-Moz")


class Association(_Resource):
    """``/qos-specs/{specs_id}/associate`` and ``disassociate``, which clients call with GET."""

    @operation({202: None}, query=_TYPE_QUERY)
    def on_get_associate(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Associate QoS specs with a volume type."""
        self._change(req, resp, qos_specs.associate, specs_id)

    @operation({202: None}, query=_TYPE_QUERY)
    def on_get_disassociate(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Remove the association of QoS specs with a volume type."""
        self._change(req, resp, qos_specs.disassociate, specs_id)

    @operation({202: None})
    def on_get_disassociate_all(self, req: Request, resp: falcon.Response, specs_id: str) -> None:
        """Remove all associations of QoS specs."""
        self._require_request(req, resp)
        self._context.database.run(qos_specs.disassociate_all, specs_id)

    def _change(
        self, req: Request, resp: falcon.Response, change: Callable[[orm.Session, str, str], object], specs_id: str
    ) -> None:
        self._require_request(req, resp)
        self._context.database.run(change, specs_id, _TYPE_QUERY.read(req)["vol_type_id"])

    def _require_request(self, req: Request, resp: falcon.Response) -> None:
        """Check that the user may make a change and makes it deliberately. Keep the response out of caches."""
        self._context.policy.require(req.context.identity, policies.QOS_UPDATE)
        if any("prefetch" in (req.get_header(name) or "").lower() for name in _PURPOSES):
            raise errors.InvalidInput("This request changes QoS specs, so it is not answered to a prefetch.")
        # Browsers send stored credentials with images and links of other sites too, without their origin.
        if req.get_header("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise errors.InvalidInput(
                "This request changes QoS specs, so it is not answered to a page of another site."
            )
        resp.status = falcon.HTTP_202
        resp.cache_control = ["no-store"]
