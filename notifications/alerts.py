# SPDX-License-Identifier: Apache-2.0
"""Webhooks, mail and the like, by Apprise: it knows how to talk to more services than anybody wants to.

An address may be a secret in any of its parts, so none is ever named but by its number and what kind it is.
"""

import contextlib
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from tonnage.capacity import errors
from tonnage.ledger import outbox
from tonnage.notifications import payloads
from tonnage.notifications.bus import NotSent


class Alert:
    """One address that is told of pools that hold more than they should."""

    def __init__(self, number: int, url: str) -> None:
        """``number`` is its place in the configuration, beginning with 1.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be used.
        """
        try:
            import apprise  # takes half a second
        except ImportError as error:
            raise errors.ConfigurationError(
                f"option capacity_alert_urls needs a library that is not installed ({error}): install tonnage[alerts]"
            ) from error
        with _silent(logging.getLogger("apprise")):
            service = apprise.Apprise.instantiate(url)
        if not service:
            raise errors.ConfigurationError(
                f"option capacity_alert_urls: number {number} is no URL that Apprise can use; "
                "'apprise --dry-run --body=test URL' says more"
            )
        self._service: Any = service
        self._kind = str(service.service_name)
        # Where it stands in the outbox.
        self.channel = f"alert-{number}"

    def send(self, message: outbox.Message) -> None:
        """Tell about a crossing. Raises :class:`~tonnage.notifications.bus.NotSent` if that did not work."""
        title, text = described(message.payload)
        exceeded = message.event_type == payloads.EXCEEDED
        kind = "warning" if exceeded else "success"
        if not self._service.notify(title=title, body=f"{text}\nmessage id {message.id}", notify_type=kind):
            raise NotSent(f"{message.event_type} could not be sent to {self._kind}, which was not reached or refused")


def described(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return a title and a text that say what an announcement of a crossing says."""
    name, reasons = payload["name_to_id"], payload["reasons"]
    title = f"Pool {name} holds " + (f"too much: {' and '.join(reasons)}" if reasons else "no more than it should")
    lines = [
        f"in use: {_of(payload['used_percent'])} % of {_of(payload['total'])} GiB, {_of(payload['free'])} GiB free; "
        f"announced above {payload['exceeded_percent']:g} %",
        f"provisioned: {_of(payload['provisioned'])} GiB of at most {_of(payload['provisioned_limit'])} GiB "
        f"(ratio {_of(payload['max_over_subscription_ratio'])})",
        f"allocated: {_of(payload['allocated'])} GiB",
        f"reported at {payload['reported_at']} UTC",
    ]
    return title, "\n".join(lines)


def _of(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


@contextlib.contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """What is wrong with an address it says with the address."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
