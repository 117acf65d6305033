"""Asks: `secret` with getpass, `name` with input() and readline, `pdb` in the debugger."""

import getpass
import sys

if sys.argv[1] == "secret":
    print("length", len(getpass.getpass("Token: ")))
elif sys.argv[1] == "name":
    import readline

    readline.parse_and_bind("tab: complete")
    print("hello", input("name? ") + "!")
else:
    weight = 41
    breakpoint()
    print("weight", weight)
