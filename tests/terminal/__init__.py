"""`gpualert run` on a terminal: each behaviour beside the bare command on an identical one."""
