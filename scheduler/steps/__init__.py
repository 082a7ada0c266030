# SPDX-License-Identifier: Apache-2.0
"""Features that only some requests use: clones, groups, hints, moves."""
