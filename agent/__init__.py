# SPDX-License-Identifier: Apache-2.0
"""The agent: the process next to the storage that runs the drivers, reports, and executes commands."""
