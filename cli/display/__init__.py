# SPDX-License-Identifier: Apache-2.0
"""Base classes of commands, on cliff, and the columns of their tables."""
