"""Source code that does not parse."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "syntax_error/python_colon",
        "A colon is missing.",
        "SyntaxError: expected ':'",
        "python train.py",
        text="""\
import math


def cosine(step)
    return math.cos(step)


print(cosine(1))
""",
    ),
    produced(
        "syntax_error/python_indentation",
        "A module that is imported late, after 1,200 lines of training, has a wrong indentation.",
        "IndentationError: unindent does not match any outer indentation level",
        "python train.py",
        files={
            "train.py": """\
import chatter

for line in chatter.training(1200, seed=181, style=3):
    print(line)
import evaluate
""",
            "evaluate.py": """\
def score(a):
        if a:
            return 1
    return 0
""",
        },
    ),
    produced(
        "syntax_error/bash_end_of_file",
        "A job script without the closing `fi`.",
        "syntax error: unexpected end of file",
        "bash job.sh",
        text="""\
#!/bin/bash
python3 chatter.py training 1248 --seed 504
echo preparing
if [ -d data ]; then
  echo data found

python train.py
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "syntax_error/bashism_in_dash",
        "A script written for bash and run by sh.",
        'Syntax error: "(" unexpected',
        "sh job.sh",
        text="""\
nodes=(node01 node02)
echo ${nodes[0]}
""",
        framework="bash",
    ),
    produced(
        "syntax_error/node",
        "A brace is missing in a Node script.",
        "SyntaxError: Unexpected end of input",
        "node post.js",
        text="""\
function summarise(runs) {
  return runs.map(r => r.loss);

console.log(summarise([]));
""",
        framework="node",
        uses=("node",),
    ),
    produced(
        "syntax_error/perl",
        "A semicolon is missing in a Perl script.",
        "syntax error at convert.pl line 3",
        "perl convert.pl",
        text="""\
use strict;
my $n = 4
print "converting $n files\\n";
""",
        framework="perl",
        uses=("perl",),
        evidence_alt=("Execution of convert.pl aborted due to compilation errors.",),
    ),
    produced(
        "syntax_error/makefile_separator",
        "Spaces in place of a tab.",
        "*** missing separator (did you mean TAB instead of 8 spaces?).  Stop.",
        "make train",
        files={
            "Makefile": """\
train: data
        python train.py
"""
        },
        framework="make",
        uses=("make",),
        class_alt=("config_error",),
    ),
]
