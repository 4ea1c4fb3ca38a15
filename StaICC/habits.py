"""Attributes that users of other libraries look for: the error says what to write here.

A class names its own in ``_advice``; every other missing attribute has the message that Python gives.
"""

from __future__ import annotations

from collections.abc import Mapping

CALL_IT = "Call the benchmark itself: benchmark(my_inference)"
"""The advice for methods such as ``run``."""

NEW_BENCHMARK_FOR_K = "k is an argument of the benchmark: make a new one, such as StaICC.Normal(k=8)"
"""The advice for methods that would change ``k``."""

OF_BENCHMARKS: Mapping[str, str] = {
    **dict.fromkeys(("run", "evaluate", "eval", "predict", "fit", "test"), CALL_IT),
    **dict.fromkeys(("change_k", "set_k"), NEW_BENCHMARK_FOR_K),
    "change_template": "Change the prompts of a data set: benchmark[0].prompt_former.change_instruction(...)",
    "prompts": "The prompts of a data set are benchmark[0].prompt_set()",
}
"""Advice for benchmarks and groups of benchmarks."""

ARGUMENTS_OF_BENCHMARKS: Mapping[str, str] = {
    "seed": "Rows, demonstrations and prompts are fixed, so there is nothing to seed.",
    "model": "Call the benchmark with the model: Normal()(load_kernel('hf:gpt2')).",
    **dict.fromkeys(("num_fewshot", "n_shots", "shots"), "The number of demonstrations is k."),
    **dict.fromkeys(("data", "tasks", "dataset"), "Data sets are datasets=['TREC', ...]."),
}
"""Advice for arguments that benchmarks do not have."""

OF_PROMPT_WRITERS: Mapping[str, str] = {
    **dict.fromkeys(("change_k", "set_k"), NEW_BENCHMARK_FOR_K),
    **dict.fromkeys(
        ("change_template", "set_template", "change_prompt"),
        "Change its parts with change_instruction, change_input_text_prefixes, change_query_prefix and "
        "change_label_prefix, or give the template to your own data: StaICC.Dataset.from_rows(..., template=...)",
    ),
    **dict.fromkeys(("change_labels", "change_label_words", "change_verbalizer"), "Use change_label_space"),
}
"""Advice for prompt writers."""

OF_RESULTS: Mapping[str, str] = {
    **dict.fromkeys(("scores", "metrics", "mean", "average"), 'The means are in result["Averaged results"]'),
    **dict.fromkeys(("to_df", "to_dataframe", "df"), "Use result.to_pandas()"),
    **dict.fromkeys(("predictions", "answers"), "Use result.queries()"),
    **dict.fromkeys(("load", "from_file", "from_json"), "Use StaICC.load(path)"),
}
"""Advice for results and groups of results; each score of a result is one too (:func:`advice_on_score`)."""


def advice_on_score(name: str) -> str:
    """Return where the mean of a score of a result is."""
    return f'Use result["Averaged results"]["{name}"], or result["Divided results"][DATA_SET]["{name}"]'


def raise_hidden_error(owner: object, name: str) -> None:
    """Raise the AttributeError of a property again, for which Python asked ``__getattr__``.

    Args:
        owner: The object.
        name: The name of the attribute. Nothing is raised if the class of the object has no such attribute.
    """
    if hasattr(type(owner), name):
        object.__getattribute__(owner, name)


def missing_attribute(owner: object, name: str, advice: str | None = None) -> AttributeError:
    """Return the error for an attribute that an object does not have.

    Args:
        owner: The object.
        name: The name of the attribute.
        advice: What to write instead, as a sentence without a full stop; ``None`` if nothing is known.

    Example:
        >>> missing_attribute({}, "run", CALL_IT)
        AttributeError("'dict' object has no attribute 'run'. Call the benchmark itself: benchmark(my_inference)")
    """
    message = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if advice is not None:
        return AttributeError(f"{message}. {advice}")
    return AttributeError(message, name=name, obj=owner)  # with these, Python suggests a near attribute
