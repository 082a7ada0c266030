# SPDX-License-Identifier: Apache-2.0
"""The connection to the message bus, and the clients and servers that use it.

Between processes that is RabbitMQ (``transport_url = rabbit://...``), within one process ``kombu+memory://``. A
transport holds connections and threads: make it after the last fork.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import oslo_messaging
from amqp import exceptions as amqp_exceptions
from kombu import exceptions as kombu_exceptions
from oslo_config import cfg
from oslo_messaging import transport as oslo_transport
from oslo_messaging._drivers import amqpdriver
from oslo_messaging.rpc import server as oslo_server

from tonnage.capacity import errors
from tonnage.rpc import bus_socket, local_bus, options, serialization
from tonnage.rpc.contract import Answer, Delivery, Message, Method

LOG = logging.getLogger(__name__)

#: The version of both interfaces, of schedulers and of agents. oslo.messaging refuses a message of another major
#: version, or of a later minor version than the server's: a change that older processes can live with raises the second
#: number, any other the first.
VERSION = "1.0"

#: All schedulers listen here; calls go to any of them, reports to all.
TOPIC_SCHEDULER = "tonnage-scheduler"
#: Each backend has a server of its own here, named ``host@backend``.
TOPIC_AGENT = "tonnage-agent"
#: No server listens here.
TOPIC_NOBODY = "tonnage-nobody"

#: Number of attempts to restore a lost connection to the bus before the sender gets an error, which takes some seconds
#: with the pauses of oslo.messaging. Its own default is to try forever.
CONNECTION_RETRIES = 2

#: Number of messages that the bus sends to a server before the first of them is acknowledged: a server that has frozen
#: keeps no more than these. oslo.messaging's own default is no limit.
_PREFETCH = 8

#: Seconds for which a thread of oslo.messaging waits for the next message before it searches for other tasks. RPC has
#: no such tasks. The library's own value is 1 ms, doubled after each wait: a message wakes the thread about ten times.
_SHORTEST_POLL = 1.0

#: The form of ``transport_url``.
_ADDRESS = (
    "it takes rabbit://user:password@host:port/, with special characters of user and password (such as '/' and '@') "
    "written as %2F, %40"
)

#: The errors of RabbitMQ for an account that does not exist or lacks a permission.
_REFUSALS = (amqp_exceptions.AccessRefused, amqp_exceptions.NotAllowed)

#: The exceptions of oslo.messaging when it gives up, and those of its libraries for a failed first connection.
FAILURES = (oslo_messaging.MessagingException, kombu_exceptions.OperationalError, *_REFUSALS)

#: What RabbitMQ answers for a fan-out while no receiver runs: the exchange goes with the last of them.
_NO_EXCHANGE = "NOT_FOUND - no exchange"

#: Seconds for which a server with a database is sought for a call.
_SEARCH = 2.0

#: Seconds before a declined call is sent again: the first time, and at most.
_SHORTEST_PAUSE = 0.01
_LONGEST_PAUSE = 0.1

Server: TypeAlias = oslo_server.RPCServer


class PatientTransport(oslo_transport.RPCTransport):  # type: ignore[misc]
    """A transport on which casts expire and calls do not wait for the bus without end.

    oslo.messaging hands a call's timeout to the bus as the message's time to live and gives casts none. (It has none to
    give to a fanout. Those are reports, and a late one is refused by its epoch and sequence number.)

    Before its first call it opens the connection on which answers come, and for that it tries forever, whatever
    ``retry`` is. So a message without a receiver precedes the first call, and fails after ``retry`` attempts.
    """

    _reached = False

    def _send(
        self,
        target: Any,
        ctxt: Any,
        message: Any,
        wait_for_reply: Any = None,
        timeout: Any = None,
        retry: Any = None,
        **arguments: Any,
    ) -> Any:
        if timeout is None:
            timeout = self.conf.rpc_message_ttl
        if wait_for_reply and not self._reached and not is_local(self.conf):
            super()._send(oslo_messaging.Target(topic=TOPIC_NOBODY), {}, {}, timeout=1, retry=retry)
            self._reached = True
        return super()._send(
            target, ctxt, message, wait_for_reply=wait_for_reply, timeout=timeout, retry=retry, **arguments
        )

    def probe(self) -> None:
        """Send a message without a receiver, once. Raises the library's exception if the bus does not accept it."""
        self._send(oslo_messaging.Target(topic=TOPIC_NOBODY), {}, {}, timeout=1, retry=0)

    def _listen(self, target: Any, batch_size: Any, batch_timeout: Any) -> Any:
        """Raises :class:`~tonnage.capacity.errors.Unavailable` if the bus refuses; it waits for a bus that is away."""
        if is_local(self.conf):
            return super()._listen(target, batch_size, batch_timeout)
        try:
            return _Listener(super()._listen(target, batch_size, batch_timeout))
        except FAILURES as error:
            raise errors.Unavailable(
                f"the message bus lets nobody listen to {target.topic}: {describe_failure(error)}"
            ) from None


class _Listener:
    """A listener of oslo.messaging that loses no message when it stops.

    oslo.messaging deletes its fanout queue while the broker still sends messages of the other queues. It acknowledges
    the messages that arrive meanwhile and drops them. So :meth:`stop` cancels the consumers first.
    """

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._handle: Callable[[Any], None]

    def start(self, on_incoming_callback: Callable[[Any], None]) -> None:
        """Handle messages from now on."""
        self._handle = on_incoming_callback
        self._listener.start(on_incoming_callback)

    def stop(self) -> None:
        """Handle the messages that have arrived, and leave all others to other servers."""
        self._listener.stop()
        poller = self._listener._poll_style_listener
        connection = poller.conn.connection
        with contextlib.suppress(*connection.connection.recoverable_connection_errors):
            for consumer, tag in connection._consumers.items():
                consumer.cancel(tag)
        while messages := poller.poll(batch_size=1):
            self._handle(messages)

    def cleanup(self) -> None:
        """Close the connection, after the last message has been handled."""
        self._listener.cleanup()


Transport: TypeAlias = PatientTransport


def create(conf: cfg.ConfigOpts, bus: socket.socket | None = None) -> Transport:
    """Return a new transport to the message bus that ``[DEFAULT] transport_url`` names; does not connect yet.

    ``bus`` leads to the :class:`~tonnage.rpc.bus_socket.Gateway` of the process whose local bus this one uses.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an address that cannot work.
    """
    options.register(conf)
    amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = _SHORTEST_POLL
    try:
        if is_local(conf):
            local = conf, oslo_messaging.TransportURL.parse(conf), options.EXCHANGE
            return PatientTransport(local_bus.Driver(*local) if bus is None else bus_socket.Driver(*local, bus))
        transport: Transport = oslo_messaging.get_rpc_transport(conf, transport_cls=PatientTransport)
    except (oslo_messaging.InvalidTransportURL, oslo_messaging.DriverLoadFailure) as error:
        raise errors.ConfigurationError(f"[DEFAULT] transport_url: {error}; {_ADDRESS}") from None
    except ImportError as error:
        scheme = conf.transport_url.partition(":")[0]
        raise errors.ConfigurationError(
            f"[DEFAULT] transport_url with {scheme}:// needs a library that is not installed ({error}); {_ADDRESS}"
        ) from error
    except ValueError:
        # Its text may be a part of the password.
        raise errors.ConfigurationError(f"[DEFAULT] transport_url is no address: {_ADDRESS}") from None
    conf.set_default("rabbit_qos_prefetch_count", _PREFETCH, group="oslo_messaging_rabbit")
    return transport


def warn_if_local(conf: cfg.ConfigOpts) -> None:
    """Log a warning about a bus that reaches no other daemon, for a daemon that needs others."""
    if is_local(conf):
        LOG.warning(
            "[DEFAULT] transport_url = %s reaches no other daemon: only tonnage-standalone can work with it, all "
            "others take rabbit://user:password@host:port/",
            conf.transport_url,
        )


def is_local(conf: cfg.ConfigOpts) -> bool:
    """Return whether the bus is that of ``tonnage-standalone``, which no other daemon reaches."""
    return bool(conf.transport_url.startswith("kombu+memory:"))


def describe_failure(error: Exception) -> str:
    """Return the message of one of :data:`FAILURES`, with the option to check if the bus has refused the account."""
    if not isinstance(error, _REFUSALS):
        return str(error)
    return f"{error.reply_text} (user, password and virtual host are those of option transport_url)"


def server(
    transport: Transport,
    topic: str,
    name: str,
    endpoint: object,
    readiness: serialization.Readiness | None = None,
    title: str | None = None,
) -> Server:
    """Return a server for the methods of ``endpoint``, not yet started.

    It declines calls while ``readiness`` raises an error. Its errors have its ``title``, the topic if None.

    A method takes the context and ``message`` as builtins (see :mod:`tonnage.rpc.serialization`); its result, a
    message or a list of them, and its exception reach the caller as :meth:`Peer.call` says. Methods run on
    threads, ``executor_thread_pool_size`` at a time; ``start(override_pool_size=1)`` runs them in the order of
    arrival.
    """
    return oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic=topic, server=name),
        [serialization.Guarded(endpoint, title or topic, VERSION, readiness)],
    )


class Peer:
    """Sends messages to the servers of one topic, or of the topic that a method has for itself."""

    def __init__(self, transport: Transport, topic: str, name: str, resend_after: float | None = None) -> None:
        """``name`` is the name of the server in errors.

        A call that is not answered within ``resend_after`` seconds is sent again, so that another server can answer it,
        and once more after twice that time, and so on, unless its delivery is a single call. A call that a server
        declines is sent again soon; for one whose server has no database, another is sought for two seconds.
        """
        self._name = name
        self._resend_after = resend_after
        self._conf = transport.conf
        self._client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic=topic, version=VERSION), retry=CONNECTION_RETRIES
        )

    def call(self, method: Method[Message, Answer], message: Message) -> Answer:
        """Send a message to any server and return its answer.

        Raises the error that the server raised, :class:`~tonnage.capacity.errors.NoAnswer` if no server answers within
        the timeout of the method or ``rpc_response_timeout`` seconds, or another
        :class:`~tonnage.capacity.errors.Unavailable` if the bus cannot be reached, or the server failed or speaks
        another version.
        """
        arguments = _arguments(message)
        longest = float(self._conf.rpc_response_timeout)
        timeout = longest if method.timeout is None else min(method.timeout, longest)
        timeout_name = "rpc_response_timeout = " if timeout == longest else ""
        end = search_end = time.monotonic() + timeout
        resend_after = timeout
        if self._resend_after is not None and method.delivery is not Delivery.SINGLE_CALL:
            resend_after = self._resend_after
        pause = _SHORTEST_PAUSE
        may_have_effect = False  # an attempt without an answer, or with an unclear one
        while True:
            remaining = end - time.monotonic()
            try:
                answer = self._send(method, arguments, min(resend_after, max(remaining, _SHORTEST_PAUSE)))
                return serialization.result(answer, method.answer)
            except oslo_messaging.MessagingTimeout:
                if resend_after >= remaining:
                    raise errors.NoAnswer(
                        f"no {self._name} answered {method.name} within {timeout_name}{timeout:g} s"
                    ) from None
                may_have_effect = True
                LOG.info("No %s has answered %s within %g s", self._name, method.name, resend_after)
                resend_after *= 2
            except (errors.Declined, errors.DatabaseUnreachable) as error:
                now = time.monotonic()
                if isinstance(error, errors.DatabaseUnreachable):
                    search_end = min(search_end, now + _SEARCH)
                    may_have_effect = may_have_effect or not isinstance(error, errors.LedgerRefusal)
                if now + pause > search_end:
                    if may_have_effect and isinstance(error, errors.LedgerRefusal):
                        raise errors.DatabaseUnreachable(error.message) from None
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _send(self, method: Method[Any, Any], arguments: Mapping[str, Any], seconds: float) -> Any:
        """Send a message once, and return its answer. Raises ``MessagingTimeout`` after so many seconds."""
        name = method.name
        target = {} if method.topic is None else {"topic": method.topic}
        try:
            return self._client.prepare(timeout=seconds, **target).call({}, name, **arguments)
        except oslo_messaging.MessagingTimeout:
            raise
        except oslo_messaging.RemoteError as error:
            raise errors.Unavailable(f"the {self._name} could not take {name}: {error.exc_type}") from None
        except FAILURES as error:
            raise self._unreachable(name, error) from None

    def cast(self, method: Method[Message, None], message: Message, server: str | None = None) -> None:
        """Send a message without waiting for an answer, to the server of that name if it is given.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the bus cannot be reached.
        """
        arguments = _arguments(message)
        target: dict[str, Any] = {"fanout": True} if method.delivery is Delivery.FANOUT else {}
        if server is not None:
            target["server"] = server
        try:
            self._client.prepare(**target).cast({}, method.name, **arguments)
        except FAILURES as error:
            raise self._unreachable(method.name, error) from None

    def _unreachable(self, name: str, error: Exception) -> errors.Unavailable:
        if _NO_EXCHANGE in str(error):
            return errors.Unavailable(f"no {self._name} is connected to the message bus, so {name} could not be sent")
        return errors.Unavailable(
            f"the message bus did not take {name} for the {self._name}: {describe_failure(error)}"
        )


def _arguments(message: object) -> dict[str, Any]:
    """Return the arguments of a method on the bus; a method without a message has none."""
    return {} if message is None else {"message": serialization.pack(message)}
