"""The gate's word -> a version of the registry, and the champion where the model is better."""

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
    """Registers a model that is better, once its copy predicts what was evaluated. Never cached; repeated, it is once.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        model: The challenger.
        evaluation: Directory with predictions.parquet and metrics.json.
        decision: The gate's word, as JSON.
        report: The page that the version keeps.
        registry: Root of the registry, a folder or gs://.
        model_name: Name of the model in the registry.
        task: The task that the dataset must be of; nothing else that its manifest may name is run.
        run: Name of this run, by which the history tells who it was.
        pipeline: Name of the pipeline.
        champion: URI of the pins of the champion that the model was compared with. Empty: there was none.
        pins: URI of the pins of the run.
        terms: Who promotes a better model, as resolve has checked it: approve, beside what decide takes.
        job: Resource name of the run, whose project and region have the Model Registry. Empty: none has.
        models: What the settings say of models there: encryption_key and labels.

    Returns:
        version: The version's folder in the registry, where there is one.
        summary: What came of it.
        Output: promoted, registered, candidate, kept, not decided or nothing new.
        words: The same in one sentence.
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
