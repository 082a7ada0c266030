# SPDX-License-Identifier: Apache-2.0
"""The decision thread: decider, placer, booking plan."""
