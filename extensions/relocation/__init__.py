# SPDX-License-Identifier: Apache-2.0
"""Plans of moves for an OpenStack cloud, whose volumes Cinder moves by its own API.

The planner, the goals, the records and the executor are those of the extension ``moves``. Floors from the ground up:
watcher, its modules.
"""
