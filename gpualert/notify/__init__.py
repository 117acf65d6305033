"""Composes the message and hands it over: every channel, and the spool in front of them."""

from __future__ import annotations

from gpualert.errors import DeliveryError


class ChannelError(DeliveryError):
    """
    A channel cannot be used at all, whatever the message: unreachable, login refused, no such program.

    It is never the message's fault, so the message stays in the spool.
    """


class UnansweredError(DeliveryError):
    """The server has the whole message and did not say whether it takes it: it may arrive, so nobody hurries."""
