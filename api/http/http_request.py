# SPDX-License-Identifier: Apache-2.0
"""The request type of the API, with the identity and the microversion that middleware adds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import falcon
from microversion_parse import Version
from oslo_context.context import RequestContext

WsgiApp: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(slots=True)
class State:
    """The identity of the user and the microversion of a request."""

    identity: RequestContext = field(default_factory=lambda: RequestContext(overwrite=False))
    version: Version = field(default_factory=lambda: Version(3, 0))


class Request(falcon.Request):
    """A request with typed :class:`State`."""

    __slots__ = ()
    context_type = State
    context: State  # type: ignore[assignment]

    def at_least(self, minor: int) -> bool:
        """Return whether the request has microversion 3.``minor`` or later."""
        return self.context.version >= Version(3, minor)
