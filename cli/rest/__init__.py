# SPDX-License-Identifier: Apache-2.0
"""The REST API as commands use it: its address, its client with credentials, and the commands that change volumes."""
