# SPDX-License-Identifier: Apache-2.0
"""``main()`` of each process and command."""

import warnings

# The oslo libraries import it without need: Tonnage runs on threads. Here, because it has to come before their import.
warnings.filterwarnings("ignore", message=r"[\s\S]*Eventlet is deprecated")
