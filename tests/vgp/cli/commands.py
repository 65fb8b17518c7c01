"""A process that runs commands, to be killed: see tests/killing.py."""

import os

import kfp.compiler
import kfp.registry
from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
from killing import serve

from vgp.__main__ import main

assert kfp.compiler and kfp.registry and PipelineServiceClient, "imported once, before the forks"


def command(words: list[str]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    main(words)


if __name__ == "__main__":
    serve(command)
