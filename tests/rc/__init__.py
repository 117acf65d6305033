"""The functions that `gpualert init` brings into a person's shell, tried in real shells."""
