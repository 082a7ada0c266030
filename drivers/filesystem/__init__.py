# SPDX-License-Identifier: Apache-2.0
"""The driver for folders: a file for each volume."""
