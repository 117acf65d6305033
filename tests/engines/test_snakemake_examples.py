"""The examples do what their first lines say."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pipeline import Pipeline, told
from .snakemake_venv import SnakemakeVenv

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]  # the first makes an environment

LOST = ("file_not_found", 1)


@pytest.fixture
def pipeline(snakemake: SnakemakeVenv, tmp_path: Path) -> Pipeline:
    (tmp_path / "work").mkdir()
    return Pipeline(snakemake, tmp_path / "work")


def outcomes(pipeline: Pipeline) -> dict[str, list[tuple[str, int]]]:
    return {name: [one[:2] for one in attempts] for name, attempts in told(pipeline.story()).items()}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("one-line", ["--keep-going"], {"failed train sample=B": [("cuda_oom", 1)], "failed train sample=C": [LOST]}),
        (
            "no-line",
            ["--profile", "profile"],
            {"failed train sample=B": [("cuda_oom", 1)] * 2, "failed train sample=C": [LOST] * 2},
        ),
        ("wrapper", ["--keep-going"], {"failed train sample=B": [("cuda_oom", 1)], "failed train sample=C": [LOST]}),
        (
            "retries",
            ["--keep-going", "--retries", "2"],
            {"recovered train sample=B": [("cuda_oom", 1)], "failed train sample=C": [LOST]},
        ),
    ],
    ids=["one-line", "no-line", "wrapper", "retries"],
)
def test_an_example_does_what_it_says(
    pipeline: Pipeline, name: str, options: list[str], expected: dict[str, list[tuple[str, int]]]
) -> None:
    example = pipeline.venv.files / "examples" / name
    options = [str(example / "profile") if option == "profile" else option for option in options]
    ended = pipeline.run(
        "", "--snakefile", str(example / "Snakefile"), *options, GPUALERT_GATE="stop" if name == "retries" else ""
    )
    assert ended.status == 1
    if name == "wrapper":
        pipeline.wait_for_mail()
    assert outcomes(pipeline) == expected, ended.output
    assert len(pipeline.mails()) == 1
