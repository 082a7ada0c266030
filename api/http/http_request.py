# SPDX-License-Identifier: Apache-2.0
"""The request as resources see it, with what the middleware found out about it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import falcon
from microversion_parse import Version
from oslo_context.context import RequestContext

WsgiApp: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(slots=True)
class State:
    """What is known of a request beside what was sent: who asks, and by which microversion."""

    identity: RequestContext = field(default_factory=lambda: RequestContext(overwrite=False))
    version: Version = field(default_factory=lambda: Version(3, 0))


class Request(falcon.Request):
    """A request with typed :class:`State`."""

    __slots__ = ()
    context_type = State
    context: State  # type: ignore[assignment]

    def at_least(self, minor: int) -> bool:
        """Tell whether the request was made by microversion 3.``minor`` or later."""
        return self.context.version >= Version(3, minor)
