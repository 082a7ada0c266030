# SPDX-License-Identifier: Apache-2.0
"""The messages on Cinder's bus and the rows of its database, decoded without Cinder."""
