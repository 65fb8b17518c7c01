"""The step that registers a model as the gate decided, and makes a better model the champion."""

from typing import NamedTuple

from kfp.dsl import HTML, Artifact, Dataset, Input, Markdown, Model, Output

from components import step


@step
def register(
    dataset: Input[Dataset],
    model: Input[Model],
    evaluation: Input[Artifact],
    decision: Input[Artifact],
    report: Input[HTML],
    version: Output[Model],
    summary: Output[Markdown],
    registry: str,
    model_name: str,
    task: str,
    run: str,
    pipeline: str,
    champion: str = "",
    pins: str = "",
    terms: dict = {},
    job: str = "",
    models: dict = {},
) -> NamedTuple("Released", [("Output", str), ("words", str)]):  # type: ignore[valid-type]
    """Registers a better model after checking its copy's predictions. Never cached; repeating it changes nothing.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        model: The challenger.
        evaluation: Directory with predictions.parquet and metrics.json.
        decision: Decision of the gate, as JSON.
        report: Report to keep with the version.
        registry: Root of the registry, a folder or gs://.
        model_name: Name of the model in the registry.
        task: Expected task of the dataset; no other task is imported.
        run: Name of this run, for the history.
        pipeline: Name of the pipeline.
        champion: URI of the pins of the compared champion. Empty: none.
        pins: URI of the pins of the run.
        terms: Rules of the promotion, from resolve; see decide.
        job: Resource name of the run, for Vertex AI's Model Registry. Empty: a local run.
        models: Settings for Vertex AI's Model Registry: encryption_key and labels.

    Returns:
        version: Folder of the version in the registry, if there is one.
        summary: Outcome, as Markdown.
        Output: promoted, registered, candidate, kept, not decided or nothing new.
        words: Outcome in one sentence.
    """
    from vgp import steps

    released = steps.register(
        dataset.path,
        model.path,
        evaluation.path,
        decision.path,
        report.path,
        summary.path,
        registry=registry,
        model_name=model_name,
        task=task,
        run=run,
        pipeline=pipeline,
        champion=champion,
        pins=pins,
        **terms,
        commit=steps.commit_of_run(job),
    )
    version.uri = released.uri or version.uri
    followed = steps.follow_registry(job, released.read, released.number, models)
    version.metadata.update(released.metadata | followed)
    return released.code, released.words
