# SPDX-License-Identifier: Apache-2.0
"""Entry points of the installed commands. Each imports a module and calls its ``main()``.

The import takes half a second, and Ctrl-C has to end a command quietly during this time as well. So this module has
hardly any imports of its own.
"""

import gc
import importlib
import os
import signal
import sys

#: Exit status of a command that Ctrl-C has ended, the same as in shells.
_INTERRUPTED = 128 + signal.SIGINT


def run(module: str, extra: str = "") -> object:
    """Import a module, run its ``main()`` and return the result.

    If a library is missing, print the command that installs ``extra``, the extra of Tonnage with all libraries of the
    program, and return 1.
    """
    # If SIGINT is ignored, as in background jobs of a shell, it stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A KeyboardInterrupt could be caught anywhere in the imported modules.
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(_INTERRUPTED))
    # Imported objects are never garbage. Without collections the import takes a seventh less time.
    gc.disable()
    try:
        main = importlib.import_module(module).main
    except ModuleNotFoundError as error:
        from tonnage import installation

        line = installation.missing_library(error, extra)
        if line is None:
            raise
        print(f"{os.path.basename(sys.argv[0])}: {line}", file=sys.stderr)
        return 1
    gc.freeze()
    gc.enable()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()


def tonnage() -> object:
    """Start ``tonnage``."""
    return run("tonnage.cli.tonnage")


def agent() -> object:
    """Start ``tonnage-agent``."""
    return run("tonnage.cli.daemons.agent", "agent")


def api() -> object:
    """Start ``tonnage-api``."""
    return run("tonnage.cli.daemons.api", "api")


def manage() -> object:
    """Start ``tonnage-manage``."""
    return run("tonnage.cli.manage")


def scheduler() -> object:
    """Start ``tonnage-scheduler``."""
    return run("tonnage.cli.daemons.scheduler", "all")


def standalone() -> object:
    """Start ``tonnage-standalone``."""
    return run("tonnage.cli.daemons.standalone", "all")


def status() -> object:
    """Start ``tonnage-status``."""
    return run("tonnage.cli.status")
