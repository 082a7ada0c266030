# SPDX-License-Identifier: Apache-2.0
"""``main()`` of each daemon, worker processes, reload."""
