# SPDX-License-Identifier: Apache-2.0
"""Everything that agents send: registration, reports, outcomes."""
