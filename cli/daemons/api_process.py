# SPDX-License-Identifier: Apache-2.0
"""The REST API of ``tonnage-standalone``, in a process of its own.

Python runs one thread of a process at a time. So requests and decisions get a processor each, where there are two. The
API's process is forked before the standalone has threads or connections. It has its own connection to the ledger, and
reaches a scheduler on the local bus through a socket.

The standalone tells it by a pipe when to serve, to read its files again, and to stop. It ignores the signals of a
daemon, because the standalone gets them too, and ends as soon as the standalone has ended.
"""

import contextlib
import enum
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import warnings
from multiprocessing.connection import Connection

from oslo_config import cfg

from tonnage import installation
from tonnage.api.http.server import ApiServer
from tonnage.api.process import ApiProcess
from tonnage.capacity import errors
from tonnage.cli import output, setup
from tonnage.cli.daemons import reload
from tonnage.rpc.bus_socket import Gateway

LOG = logging.getLogger(__name__)

#: Seconds between two looks at whether the standalone is to stop before it serves requests.
_POLL = 0.2


class _Answer(enum.Enum):
    """The first word of a message of the API's process."""

    #: Its servers listen; the URL of the API follows.
    LISTENS = b"listens"
    #: It cannot start; the message of the error follows.
    FAILED = b"failed"
    #: It serves requests.
    SERVES = b"serves"


class _Command(enum.Enum):
    """The commands to the API's process."""

    SERVE = b"serve"
    #: Take over the changed options of the configuration files.
    RELOAD = b"reload"
    STOP = b"stop"


class StandaloneApi:
    """The process of the API, as the standalone sees it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Fork the process. This one must have no other thread and no connection yet."""
        context = multiprocessing.get_context("fork")
        self._pipe, pipe = context.Pipe()
        near, far = socket.socketpair()
        self._gateway = Gateway(near)
        self._process = context.Process(target=_run, args=(conf, pipe, far, (self._pipe, near)), daemon=True)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # numpy has threads
            self._process.start()
        pipe.close()
        far.close()
        #: The URL of the API, once it listens.
        self.url = ""

    def listen(self) -> None:
        """Wait until the servers of the process listen.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if they cannot.
        """
        answer, text = self._receive()
        if answer is _Answer.FAILED:
            raise errors.ConfigurationError(text)
        self.url = text

    def start(self, stopped: threading.Event) -> None:
        """Serve requests, unless ``stopped`` is set before.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the process has ended.
        """
        self._gateway.start()
        self._tell(_Command.SERVE)
        while not self._pipe.poll(_POLL):
            if stopped.is_set():
                return
        self._receive()

    def reload(self) -> None:
        """Let the process take over the changed options of the configuration files."""
        self._tell(_Command.RELOAD)

    def stop(self) -> None:
        """Finish the accepted requests, and end the process."""
        self._tell(_Command.STOP)
        self._process.join()
        if self._process.exitcode:
            LOG.error("Requests may be lost: %s", _ending(self._process.exitcode))

    def close(self) -> None:
        """Close the connections to the process. One that has not been stopped is killed: it may hang."""
        self._process.kill()
        self._process.join()
        self._gateway.stop()
        self._pipe.close()

    @property
    def failure(self) -> str | None:
        """The reason for which the standalone has to end; None while the process runs and can send messages."""
        if (code := self._process.exitcode) is not None:
            return _ending(code)
        return "the process of the REST API has lost its message bus" if self._gateway.has_ended else None

    def _tell(self, command: _Command) -> None:
        with contextlib.suppress(OSError):  # it has ended, and :attr:`failure` says how
            self._pipe.send_bytes(command.value)

    def _receive(self) -> tuple[_Answer, str]:
        """Return the next message of the process. Raises ConfigurationError if it has ended."""
        try:
            word, _, text = self._pipe.recv_bytes().partition(b" ")
        except (EOFError, OSError):
            self._process.join()
            raise errors.ConfigurationError(_ending(self._process.exitcode or 0)) from None
        return _Answer(word), text.decode()


def _ending(code: int) -> str:
    ending = f"exit status {code}; the log says more" if code >= 0 else f"signal {-code}"
    return f"the process of the REST API has ended with {ending}"


def _run(conf: cfg.ConfigOpts, pipe: Connection, bus: socket.socket, others: tuple[Connection, socket.socket]) -> None:
    """Be the process of the API until it is told to stop. ``others`` are the standalone's own ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # A copy of an end would keep this process from seeing that the standalone has ended.
    for end in others:
        end.close()
    told = {command: threading.Event() for command in (_Command.SERVE, _Command.STOP)}
    threading.Thread(target=_follow, args=(conf, pipe, told), name="commands", daemon=True).start()
    with contextlib.ExitStack() as cleanup:
        try:
            process = ApiProcess(conf, conf.osapi_volume_listen, bus)
            cleanup.callback(process.close)
            api = ApiServer(conf, process.application)
            servers = [api, *process.further_servers(conf)]
            # A conflict with another process about a port is detected before the services start.
            for server in servers:
                server.listen()
                cleanup.callback(server.stop)
        except (*setup.EXPECTED_ERRORS, ModuleNotFoundError) as error:
            line = installation.missing_library(error) if isinstance(error, ModuleNotFoundError) else None
            pipe.send_bytes(b"%s %s" % (_Answer.FAILED.value, (line or output.one_line(error)).encode()))
            return
        except Exception:
            LOG.exception("The REST API cannot start")
            sys.exit(1)
        pipe.send_bytes(b"%s %s" % (_Answer.LISTENS.value, api.url.encode()))
        told[_Command.SERVE].wait()
        # Not earlier: a standalone that cannot start says so in one line.
        LOG.info("The process of the REST API is %d", os.getpid())
        for server in servers:
            server.start()
        pipe.send_bytes(_Answer.SERVES.value)
        told[_Command.STOP].wait()


def _follow(conf: cfg.ConfigOpts, pipe: Connection, told: dict[_Command, threading.Event]) -> None:
    """Follow the commands. End the process if the standalone has ended: nobody answers its requests."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            command = _Command(pipe.recv_bytes())
            if command is _Command.RELOAD:
                # The standalone has checked and logged the changes.
                reload.take_over(conf, logged=False)
            else:
                told[command].set()
    os._exit(1)
