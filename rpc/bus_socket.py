# SPDX-License-Identifier: Apache-2.0
"""The local bus for another process: its messages come to the bus through a pair of connected sockets.

:class:`Gateway` runs in the process with the bus, :class:`Driver` is the transport of the other one, which a fork has
given its socket. Messages go one way, to servers in the process with the bus, and answers the other way.

A frame is its length in four bytes, and then a list in MessagePack: ``[number, topic, server, fanout, timeout, is_call,
data, is_json]`` of a message, and ``[number, data, is_json, failure]`` of an answer. ``data`` is a packed value; a
failure has the name of its class, its text and the lines of its traceback.
"""

import contextlib
import functools
import itertools
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import msgspec
import oslo_messaging

from tonnage.rpc.local_bus import BUS, Destination, LocalDriver, Packed, answer_within

LOG = logging.getLogger(__name__)

_HEADER = struct.Struct("!I")

#: Seconds in which the other process has to take a part of a frame. Otherwise the connection ends, and with it the
#: other process: the threads that answer must not wait for it without end.
_SEND_TIMEOUT = 30


class _Frames:
    """The frames on a socket: any thread sends them, and one thread reads those of the other side."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT, 0))
        self._sending = threading.Lock()

    def send(self, value: Any) -> None:
        """Send a frame. Raises ``OSError`` if the other process has gone or takes nothing; then the connection ends."""
        data = msgspec.msgpack.encode(value)
        with self._sending:
            try:
                self._socket.sendall(_HEADER.pack(len(data)) + data)
            except OSError:
                self.close()  # a part of the frame may have been sent
                raise

    def __iter__(self) -> Iterator[Any]:
        """Read frames until the other process closes its socket or ends."""
        with self._socket.makefile("rb") as file, contextlib.suppress(OSError):
            while len(header := file.read(_HEADER.size)) == _HEADER.size:
                [length] = _HEADER.unpack(header)
                data = file.read(length)
                if len(data) < length:
                    return
                yield msgspec.msgpack.decode(data)

    def close(self) -> None:
        """End both directions."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Gateway:
    """Hands the messages of another process to the bus of this one, and returns the answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._frames = _Frames(connection)
        self._thread = threading.Thread(target=self._run, name="bus gateway", daemon=True)
        #: Whether messages are taken no longer.
        self.has_ended = False

    def start(self) -> None:
        """Take messages until the other process ends or :meth:`stop` is called."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages, and return no more answers."""
        self._frames.close()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            for number, topic, server, fanout, timeout, is_call, data, is_json in self._frames:
                destination = Destination(topic, server, fanout)
                try:
                    answer = BUS.send(destination, Packed(data, is_json), timeout, is_call)
                except Exception as error:
                    # A server may be unable to start a thread, for example. Later messages may pass.
                    LOG.exception("A message for %s could not be delivered", topic)
                    self._send(number, Packed(b""), (type(error).__name__, str(error), ""))
                    continue
                if answer is not None:
                    answer.add_done_callback(functools.partial(self._return, number))
        finally:
            self.has_ended = True

    def _return(self, number: int, answer: "futures.Future[Packed]") -> None:
        try:
            self._send(number, answer.result())
        except oslo_messaging.RemoteError as error:
            self._send(number, Packed(b""), (error.exc_type, error.value, error.traceback))

    def _send(self, number: int, packed: Packed, failure: tuple[Any, ...] | None = None) -> None:
        with contextlib.suppress(OSError):  # the other process has ended
            self._frames.send([number, packed.data, packed.is_json, failure])


class Driver(LocalDriver):
    """The driver of oslo.messaging for a process whose bus is in the one that has forked it. It has no servers."""

    def __init__(self, conf: Any, url: Any, exchange: str, connection: socket.socket) -> None:
        super().__init__(conf, url, exchange)
        self._frames = _Frames(connection)
        self._numbers = itertools.count()
        self._answers: dict[int, futures.Future[Packed]] = {}
        #: The reason for which nothing is sent any more.
        self._ending = ""
        self._thread = threading.Thread(target=self._read_answers, name="bus answers", daemon=True)
        self._thread.start()

    def send(
        self,
        target: Any,
        ctxt: Any,
        message: Any,
        wait_for_reply: Any = None,
        timeout: Any = None,
        call_monitor_timeout: Any = None,
        retry: Any = None,
        transport_options: Any = None,
    ) -> Any:
        """Send a message that lives for ``timeout`` seconds, and return the reply if it is waited for.

        Raises ``MessagingTimeout`` if there is no reply within ``timeout`` seconds, and ``MessageDeliveryFailure`` once
        the transport is closed or the process with the bus has ended.
        """
        packed = Packed.of((ctxt, message))
        number, answer = next(self._numbers), futures.Future[Packed]()
        if wait_for_reply:
            self._answers[number] = answer
        address = target.topic, target.server or "", bool(target.fanout)
        try:
            # Read after the answer has its place: whoever sets this fails all answers that have one.
            if self._ending:
                raise oslo_messaging.MessageDeliveryFailure(self._ending)
            self._frames.send([number, *address, timeout, bool(wait_for_reply), packed.data, packed.is_json])
            return answer_within(timeout, answer, target.topic) if wait_for_reply else None
        except OSError as error:
            raise oslo_messaging.MessageDeliveryFailure(
                f"the process with the message bus takes no messages: {error}"
            ) from None
        finally:
            self._answers.pop(number, None)

    def _read_answers(self) -> None:
        for number, data, is_json, failure in self._frames:
            answer = self._answers.pop(number, None)
            if answer is None:
                continue  # nobody waits for it any more
            if failure is None:
                answer.set_result(Packed(data, is_json))
            else:
                answer.set_exception(oslo_messaging.RemoteError(*failure))
        self._ending = self._ending or "the process with the message bus has ended"
        for number in list(self._answers):
            if (answer := self._answers.pop(number, None)) is not None:
                answer.set_exception(oslo_messaging.MessageDeliveryFailure(self._ending))

    def listen(self, target: Any, batch_size: Any, batch_timeout: Any) -> Any:
        """Raise NotImplementedError: this process has no servers."""
        raise NotImplementedError("servers run in the process with the bus")

    def cleanup(self) -> None:
        """Send no more messages."""
        self._ending = "the transport is closed"
        self._frames.close()
        self._thread.join()
