"""A curses program: shows its size and the last key; `q` ends it."""

import curses


def main(screen):
    """Draw, read a key, draw."""
    curses.init_pair(1, curses.COLOR_RED, curses.COLOR_BLACK)
    key = "none"
    while key != "q":
        screen.erase()
        rows, columns = screen.getmaxyx()
        screen.addstr(0, 0, f"full screen {rows}x{columns}", curses.color_pair(1) | curses.A_BOLD)
        screen.addstr(rows - 1, columns - 10, "corner")
        screen.addstr(2, 0, f"key {key}")
        screen.refresh()
        key = screen.getkey()


curses.wrapper(main)
print("back")
