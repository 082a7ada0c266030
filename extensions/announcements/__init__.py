# SPDX-License-Identifier: Apache-2.0
"""Announcements of capacity on the message bus, and alerts to web hooks, mail and chats."""
