# SPDX-License-Identifier: Apache-2.0
"""The context of an API request: user, project, roles and request ids, and the error for a request without a user."""

from oslo_context.context import RequestContext

from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

#: The environment key under which oslo.middleware leaves the id that it gave the request.
_REQUEST_ID = "openstack.request_id"
#: The key of the id that the sender gave: OpenStack's services share it among all requests of one operation.
_GLOBAL_REQUEST_ID = "openstack.global_request_id"

#: User and project of a request that names none.
USER = "admin"
PROJECT = "demo"
#: Most characters of a user id or a project id.
MAX_ID_LENGTH = 255

#: The message of a 401. It does not tell an unknown user from a wrong password.
REQUIRED = "The request you have made requires authentication."


class Unauthenticated(errors.TonnageError):
    """The request has no valid credentials. ``challenge`` is the value of the header ``WWW-Authenticate``."""

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


def administrator(req: Request, *, user_id: str, project_id: str | None) -> RequestContext:
    """Return the context of an administrator, in the default project if ``project_id`` is None."""
    return RequestContext(
        user_id=user_id,
        project_id=project_id or PROJECT,
        roles=["admin", "member", "reader"],
        is_admin=True,
        request_id=req.env.get(_REQUEST_ID),
        global_request_id=req.env.get(_GLOBAL_REQUEST_ID),
    )


def request_id(req: Request) -> str | None:
    """Return the id that the request was given on arrival."""
    assigned_id: str | None = req.env.get(_REQUEST_ID)
    return assigned_id
