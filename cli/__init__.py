# SPDX-License-Identifier: Apache-2.0
"""Command-line programs: a module with ``main()`` for each daemon and command.

Floors from the ground up: display, its modules, rest, commands and daemons and simulation, changes and overviews.
"""

import os
import warnings

# The oslo libraries import eventlet, which Tonnage does not use, because it runs on threads. Without eventlet's name
# resolver a process starts a tenth of a second sooner. The variable has to be set before the import of these libraries.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
warnings.filterwarnings("ignore", message=r"[\s\S]*Eventlet is deprecated")
