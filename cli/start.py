# SPDX-License-Identifier: Apache-2.0
"""What the installed commands call: ``main()`` of their modules, which are imported here.

That takes half a second, in which Ctrl-C is to end a command as quietly as later on. So this module imports next to
nothing itself.
"""

import gc
import importlib
import os
import signal

#: As shells have it for a command that Ctrl-C has ended.
_INTERRUPTED = 128 + signal.SIGINT


def run(module: str) -> object:
    """Import a module and return what its ``main()`` returns."""
    # Where it is ignored, as of what a shell runs in the background, it goes on being so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An exception might be raised, and caught, anywhere in what is being imported.
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(_INTERRUPTED))
    # What is imported stays. To look through it for garbage, again and again as it grows, takes a seventh of the time.
    gc.disable()
    main = importlib.import_module(module).main
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
    return run("tonnage.cli.daemons.agent")


def api() -> object:
    """Start ``tonnage-api``."""
    return run("tonnage.cli.daemons.api")


def manage() -> object:
    """Start ``tonnage-manage``."""
    return run("tonnage.cli.manage")


def publisher() -> object:
    """Start ``tonnage-publisher``."""
    return run("tonnage.cli.daemons.publisher")


def scheduler() -> object:
    """Start ``tonnage-scheduler``."""
    return run("tonnage.cli.daemons.scheduler")


def standalone() -> object:
    """Start ``tonnage-standalone``."""
    return run("tonnage.cli.daemons.standalone")


def status() -> object:
    """Start ``tonnage-status``."""
    return run("tonnage.cli.status")
