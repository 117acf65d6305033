"""A training loop under tqdm: one line that fills the terminal's width, and a message above it."""

import sys

from tqdm import tqdm

with tqdm(
    range(40), desc="epoch", bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}", mininterval=0
) as bar:
    for step in bar:
        if step == 20:
            bar.write("half way")
print("drawn", file=sys.stderr)
