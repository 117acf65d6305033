"""Options, settings and variables that are wrong."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "config_error/argparse_unknown_option",
        "An option that the program does not have: argparse prints the usage and leaves with status 2.",
        "train.py: error: unrecognized arguments: --learning-rate 0.1",
        "python train.py --epochs 3 --learning-rate 0.1",
        text="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument('--epochs', type=int)
parser.add_argument('--lr', type=float)
print(parser.parse_args())
""",
    ),
    produced(
        "config_error/yaml_indentation",
        "A YAML file whose indentation is wrong.",
        "yaml.scanner.ScannerError: mapping values are not allowed here",
        "python run.py config.yaml",
        files={
            "run.py": """\
import sys

import yaml

print('reading', sys.argv[1])
print(yaml.safe_load(open(sys.argv[1])))
""",
            "config.yaml": """\
model:
  width: 64
  depth: 2
   dropout: 0.1
""",
        },
        framework="yaml",
        uses=("pyyaml",),
        evidence_alt=('in "config.yaml", line 4, column 11',),
    ),
    produced(
        "config_error/hydra_override",
        "An override of a key that Hydra's configuration does not have.",
        "Could not override 'optim.lr'.",
        "python app.py optim.lr=0.1",
        files={
            "app.py": """\
import hydra


@hydra.main(version_base=None, config_path='.', config_name='base')
def main(config):
    print(config)


main()
""",
            "base.yaml": """\
optimizer:
  lr: 0.001
""",
        },
        framework="hydra",
        uses=("hydra-core",),
        evidence_alt=("Key 'optim' is not in struct",),
    ),
    produced(
        "config_error/missing_variable",
        "A job script under set -u needs a variable that nobody set.",
        "DATA_ROOT: unbound variable",
        "bash job.sh",
        text="""\
python3 chatter.py training 1618 --seed 514
set -eu
echo "job on $(hostname)"
echo "data in $DATA_ROOT"
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "config_error/variable_asked_for_by_python",
        "A program says which variable must be set.",
        "KeyError: 'WORLD_SIZE'",
        "python dist.py",
        text="""\
import os

print('initialising from the environment')
world = int(os.environ['WORLD_SIZE'])
print(world)
""",
        class_alt=("traceback",),
    ),
    produced(
        "config_error/pydantic_settings",
        "Settings that pydantic refuses, two at once.",
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for TrainSettings",
        "python settings.py",
        text="""\
import pydantic

import chatter


class TrainSettings(pydantic.BaseModel):
    epochs: int
    lr: float = pydantic.Field(gt=0)


for line in chatter.training(1020, seed=171, style=2):
    print(line)
print(TrainSettings(epochs="three", lr=-1))
""",
        framework="pydantic",
        uses=("pydantic",),
        class_alt=("traceback",),
    ),
    produced(
        "config_error/unknown_choice_in_own_words",
        "A program checks its configuration, and names key, value and choices.",
        "ConfigError: optimizer.name: 'adamw2' is not one of adam, adamw, sgd",
        "python -m conf",
        files={
            "conf/__init__.py": "",
            "conf/__main__.py": """\
class ConfigError(Exception):
    pass


print('validating experiment.toml')
raise ConfigError("optimizer.name: 'adamw2' is not one of adam, adamw, sgd")
""",
        },
    ),
    produced(
        "config_error/getopts_usage",
        "A shell script's own usage message.",
        "usage: launch.sh -n NODES -g GPUS script.py",
        "bash launch.sh -x 4 train.py",
        text="""\
usage() { echo 'usage: launch.sh -n NODES -g GPUS script.py' >&2; exit 2; }
while getopts n:g: name; do
  case $name in n) nodes=$OPTARG ;; g) gpus=$OPTARG ;; *) usage ;; esac
done
echo $nodes $gpus
""",
        framework="bash",
        uses=("bash",),
        evidence_alt=("launch.sh: illegal option -- x",),
    ),
]
