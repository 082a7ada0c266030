# SPDX-License-Identifier: Apache-2.0
"""``main()`` of each process and command."""

import os
import warnings

# The oslo libraries import eventlet, for which Tonnage, which runs on threads, has no use. Here, because it has to come
# before their import: without its name resolver a process starts a tenth of a second sooner.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
warnings.filterwarnings("ignore", message=r"[\s\S]*Eventlet is deprecated")
