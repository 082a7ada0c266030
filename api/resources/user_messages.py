# SPDX-License-Identifier: Apache-2.0
"""User messages: the reasons why accepted operations failed."""

import falcon

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import response_bodies
from tonnage.ledger.catalog import user_messages

_QUERY = Query(sort_keys=user_messages.SORT_KEYS, filters=user_messages.FILTERS)


class Messages:
    """``/messages``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.Messages}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the messages of the user's project."""
        context, identity = self._context, req.context.identity
        context.policy.require(identity, policies.MESSAGE_GET_ALL)
        parameters = _QUERY.read(req)
        page = context.paginator.page(parameters)
        with context.database.reading() as session:
            rows = user_messages.page(session, identity.project_id, _QUERY.select_filters(parameters), page)
        details = context.policy.allows(identity, policies.FAILURE_DETAILS)
        resp.media = response_bodies.Messages(
            [views.message(req, row, details=details) for row in rows], context.paginator.links(req, page, rows)
        )


class Message:
    """``/messages/{message_id}``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.OneMessage})
    def on_get(self, req: Request, resp: falcon.Response, message_id: str) -> None:
        """Show a message."""
        context, identity = self._context, req.context.identity
        with context.database.reading() as session:
            row = user_messages.get(session, message_id, context.policy.visible_project(identity))
        context.policy.require(identity, policies.MESSAGE_GET, row.project_id)
        details = context.policy.allows(identity, policies.FAILURE_DETAILS)
        resp.media = response_bodies.OneMessage(views.message(req, row, details=details))

    @operation({204: None})
    def on_delete(self, req: Request, resp: falcon.Response, message_id: str) -> None:
        """Delete a message."""
        context, identity = self._context, req.context.identity
        reach = context.policy.visible_project(identity)
        with context.database.reading() as session:
            row = user_messages.get(session, message_id, reach)
        context.policy.require(identity, policies.MESSAGE_DELETE, row.project_id)
        context.database.remove(user_messages.delete, message_id, reach)
        resp.status = falcon.HTTP_204
