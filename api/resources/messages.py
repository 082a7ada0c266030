# SPDX-License-Identifier: Apache-2.0
"""User messages: why an operation failed after it had been accepted."""

import falcon

from tonnage.api import answers
from tonnage.api import policies
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.listing import Query
from tonnage.api.operations import operation
from tonnage.api.resources.base import Tools
from tonnage.ledger import messages

_QUERY = Query(sort_keys=messages.SORT_KEYS, filters=messages.FILTERS)


class Messages:
    """``/messages``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: answers.Messages}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the messages of the asker's project."""
        tools, identity = self._tools, req.context.identity
        tools.policy.require(identity, policies.MESSAGE_GET_ALL)
        given = _QUERY.read(req)
        page = tools.lists.page(given)
        with tools.database.reading() as session:
            found = messages.page(session, identity.project_id, _QUERY.chosen(given), page)
        resp.media = answers.Messages([views.message(req, told) for told in found], tools.lists.links(req, page, found))


class Message:
    """``/messages/{message_id}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: answers.OneMessage})
    def on_get(self, req: Request, resp: falcon.Response, message_id: str) -> None:
        """Show a message."""
        tools, identity = self._tools, req.context.identity
        with tools.database.reading() as session:
            told = messages.get(session, message_id, tools.policy.reach(identity))
        tools.policy.require(identity, policies.MESSAGE_GET, told.project_id)
        resp.media = answers.OneMessage(views.message(req, told))

    @operation({204: None})
    def on_delete(self, req: Request, resp: falcon.Response, message_id: str) -> None:
        """Delete a message."""
        tools, identity = self._tools, req.context.identity
        reach = tools.policy.reach(identity)
        with tools.database.reading() as session:
            told = messages.get(session, message_id, reach)
        tools.policy.require(identity, policies.MESSAGE_DELETE, told.project_id)
        tools.database.remove(messages.delete, message_id, reach)
        resp.status = falcon.HTTP_204
