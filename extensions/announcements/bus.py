# SPDX-License-Identifier: Apache-2.0
"""Notifications through the configured drivers of oslo.messaging.

oslo.messaging's own ``Notifier`` creates a new message id for each attempt, and does not return whether the message was
sent. Messages in the outbox have a fixed id and need confirmation, so this module calls the drivers directly, by their
documented interface.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import oslo_messaging
from oslo_config import cfg
from oslo_messaging import transport as oslo_transport
from oslo_utils import timeutils
from stevedore import extension, named

from tonnage.capacity import errors
from tonnage.extensions.announcements import options
from tonnage.rpc import options as rpc_options

_DRIVERS = "oslo.messaging.notify.drivers"

#: Drivers that need a message bus.
_ON_BUS = frozenset({"messaging", "messagingv2", "routing"})

#: Priority of all notifications: every consumer listens to this one.
_PRIORITY = "INFO"

#: Attempts to reach the bus before a message counts as not sent, unless the configuration limits them. The sender of
#: the message retries later.
_RETRY = 1


class NotSent(errors.TonnageError):
    """The drivers, or the service, did not confirm a message."""


class _ConfirmedTransport(oslo_transport.NotificationTransport):  # type: ignore[misc]
    """A transport that stores the last error of each thread. The drivers only log errors."""

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self.failure = threading.local()

    def _send_notification(self, *args: Any, **kwargs: Any) -> None:
        try:
            super()._send_notification(*args, **kwargs)
        except Exception as error:
            self.failure.error = error


class Bus:
    """Sends notifications. It can be shared between threads, but not across a fork."""

    def __init__(self, conf: cfg.ConfigOpts, settings: options.Settings) -> None:
        """Load the drivers.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable drivers or an unusable address.
        """
        rpc_options.register(conf)
        section = conf[options.OSLO_GROUP]
        group = "[DEFAULT]" if section.transport_url is None else f"[{options.OSLO_GROUP}]"
        url = section.transport_url or conf.transport_url
        if not _ON_BUS.isdisjoint(settings.drivers) and url.startswith("kombu+memory:"):
            raise errors.ConfigurationError(
                f"option [{options.OSLO_GROUP}] driver: nobody could receive notifications, as {group} transport_url "
                f"leads nowhere but within this process; set [{options.OSLO_GROUP}] transport_url to rabbit://..."
            )
        try:
            self._transport = oslo_messaging.get_rpc_transport(
                conf, url=section.transport_url, transport_cls=_ConfirmedTransport
            )
        except (oslo_messaging.InvalidTransportURL, oslo_messaging.DriverLoadFailure) as error:
            raise errors.ConfigurationError(f"{group} transport_url: {error}") from None
        except ValueError:  # its message may contain a part of the password
            raise errors.ConfigurationError(f"{group} transport_url is no address") from None
        self._retry = _RETRY if section.retry < 0 else section.retry
        self._publisher = f"capacity.{settings.host}"
        self._drivers: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
            _DRIVERS,
            names=settings.drivers,
            invoke_on_load=True,
            invoke_args=(conf,),
            invoke_kwds={"topics": section.topics, "transport": self._transport},
            on_missing_entrypoints_callback=_unknown_drivers,
            on_load_failure_callback=_driver_load_failed,
        )

    def send(self, message_id: str, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification. Raises :class:`NotSent` if a driver fails."""
        message = {
            "message_id": message_id,
            "publisher_id": self._publisher,
            "event_type": event_type,
            "priority": _PRIORITY,
            "payload": payload,
            "timestamp": str(timeutils.utcnow()),
        }
        self._transport.failure.error = None
        try:
            for driver in self._drivers:
                plugin: Any = driver.obj
                plugin.notify({}, message, _PRIORITY, self._retry)
        except Exception as error:  # a third-party driver can raise any error
            raise _not_sent(event_type, error) from error
        if self._transport.failure.error is not None:
            raise _not_sent(event_type, self._transport.failure.error)

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()


def _not_sent(event_type: str, error: Exception) -> NotSent:
    return NotSent(f"{event_type} could not be sent: {' '.join(str(error).split()) or type(error).__name__}")


def _unknown_drivers(missing: Iterable[str]) -> NoReturn:
    names = ", ".join(sorted(extension.ExtensionManager(_DRIVERS).names()))
    raise errors.ConfigurationError(
        f"option [{options.OSLO_GROUP}] driver names {', '.join(sorted(missing))}: known are {names}"
    )


def _driver_load_failed(manager: object, entry_point: Any, error: BaseException) -> NoReturn:
    raise errors.ConfigurationError(
        f"option [{options.OSLO_GROUP}] driver: {entry_point.name} cannot be loaded: {error}"
    ) from error
