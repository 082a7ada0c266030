# SPDX-License-Identifier: Apache-2.0
"""A program that has imported Tonnage's commands and forks a process for each command that a test starts.

The import of a command takes a second of processor time, more than most tests need for all else. A forked process runs
the same ``main()`` with its own memory, signals, output and exit code.

Usage: ``python fork_server.py SOCKET``, with the number of a socket of type SEQPACKET. A message is a JSON list: the
name of the command, its arguments, and its working directory. Four files come with it: standard input, output and
error of the command, and a pipe to which the server writes its exit code as text. The answer is the process id. The
server ends when the socket is closed.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import warnings
from importlib import metadata

from sqlalchemy import orm

from tonnage import extension

#: What the commands import, also what some of them import late.
_MODULES = (
    "tonnage.cli.start",
    "tonnage.cli.daemons.agent",
    "tonnage.cli.daemons.api",
    "tonnage.cli.daemons.scheduler",
    "tonnage.cli.daemons.standalone",
    "tonnage.cli.manage",
    "tonnage.cli.status",
    "tonnage.cli.commands.backend",
    "tonnage.cli.tonnage",
    "tonnage.cli.simulation.explain",
    "tonnage.extensions.replay.log_replay",
    "tonnage.cli.overviews.placement_reasons",
    "tonnage.drivers.filesystem.driver",
    "tonnage.filters.retry",
    "tonnage.weighers.allocated_capacity",
    "tonnage.weighers.capacity",
    "tonnage.weighers.chance",
    "tonnage.weighers.headroom",
    "tonnage.weighers.volume_number",
    "alembic.command",
    "cliff.formatters.commaseparated",
    "cliff.formatters.json_format",
    "cliff.formatters.value",
    "cliff.formatters.yaml_format",
    "kombu.transport.memory",
    "kombu.transport.pyamqp",
    "oslo_messaging._drivers.impl_rabbit",
    "psycopg",
    "pymysql",
    "sqlite3",
    "wcwidth",
)


def _report_ends(pipes: dict[int, int]) -> None:
    """Write the exit code of each process that has ended to its pipe."""
    for pid in list(pipes):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            pipe = pipes.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # the test has ended
                os.write(pipe, b"%d" % os.waitstatus_to_exitcode(status))
            os.close(pipe)


def _become(files: list[int], folder: str, others: list[int]) -> None:
    """Give this process the standard files, the session and the signals of a command of its own."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in [*files, *others]:
        os.close(file)
    os.chdir(folder)


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork processes. Return the command and its arguments in each of them, and None in the server at its end."""
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    pipes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_ends(pipes)
        if requests not in ready:
            continue
        message, files, _, _ = socket.recv_fds(requests, 1 << 16, 4)
        if not message:
            return None
        command, folder = json.loads(message)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # numpy has threads
            pid = os.fork()
        if pid == 0:
            _become(files, folder, [*pipes.values(), *(one.detach() for one in (requests, woken, waker))])
            return list(command)
        for file in files[:3]:
            os.close(file)
        pipes[pid] = files[3]
        requests.send(b"%d" % pid)


def _import_extensions() -> None:
    """Import what daemons import of the extensions that they enable."""
    for declaration in extension.installed().values():
        for part in (
            *(declaration.options, declaration.check, declaration.tables, declaration.scheduler),
            *(declaration.api, declaration.listener, declaration.policies, declaration.metrics),
        ):
            if part:
                extension.load(part)


def main() -> None:
    """Import the commands, then serve."""
    gc.disable()
    for module in _MODULES:
        importlib.import_module(module)
    _import_extensions()
    orm.configure_mappers()
    gc.freeze()
    gc.enable()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        command = _serve(requests)
    if command is None:
        return
    sys.argv = command
    scripts = metadata.distribution("tonnage").entry_points.select(group="console_scripts")
    script = scripts[os.path.basename(command[0])]
    sys.exit(script.load()())


if __name__ == "__main__":
    main()
