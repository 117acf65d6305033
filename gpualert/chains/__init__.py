"""Chains of retries: a command that is tried again where its cause allows it, kept on disk and driven by ticks."""
