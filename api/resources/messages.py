# SPDX-License-Identifier: Apache-2.0
"""User messages: why an operation failed after it had been accepted."""

import falcon

from tonnage.api import listing
from tonnage.api import policies
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.resources.base import Tools
from tonnage.ledger import messages


class Messages:
    """``/messages``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the messages of the asker's project."""
        tools, identity = self._tools, req.context.identity
        tools.policy.require(identity, policies.MESSAGE_GET_ALL)
        given = listing.parameters(req)
        page = tools.lists.page(given)
        with tools.database.reading() as session:
            found = messages.page(session, identity.project_id, listing.filters(given, messages.FILTERS), page)
        resp.media = {
            "messages": [views.message(req, told) for told in found],
            **tools.lists.links(req, "messages", page, found),
        }


class Message:
    """``/messages/{message_id}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def on_get(self, req: Request, resp: falcon.Response, message_id: str) -> None:
        """Show a message."""
        tools, identity = self._tools, req.context.identity
        with tools.database.reading() as session:
            told = messages.get(session, message_id, tools.policy.reach(identity))
        tools.policy.require(identity, policies.MESSAGE_GET, told.project_id)
        resp.media = {"message": views.message(req, told)}

    def on_delete(self, req: Request, resp: falcon.Response, message_id: str) -> None:
        """Delete a message."""
        tools, identity = self._tools, req.context.identity
        reach = tools.policy.reach(identity)
        with tools.database.reading() as session:
            told = messages.get(session, message_id, reach)
        tools.policy.require(identity, policies.MESSAGE_DELETE, told.project_id)
        tools.database.run(messages.delete, message_id, reach)
        resp.status = falcon.HTTP_204
