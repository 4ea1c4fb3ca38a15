"""The names of benchmarks in results, signatures, files.

Those of the diagnostic benchmarks are the spellings of StaICC 0.1.1: they are keys of its results, so they stay.
"""

from __future__ import annotations

NORMAL = "Normal"
CONTEXTUAL_BIAS = "Contextual_bias"
DOMAIN_BIAS = "Domain_bias"
POSTERIOR_BIAS = "Post_bias"
GLER = "GLER"
TEMPLATE_SENSITIVITY = "Template_sens"
DEMONSTRATION_SENSITIVITY = "Demo_sens"
GENERALISATION = "Generalisation"
LONG_ICL = "LongICL"
HELMET = "HELMET"

TRIPLET_BIAS = "Triplet_bias"
DIAGNOSIS = "Diagnosis"
SUITE = "Suite"

_CLASS_NAMES = {
    CONTEXTUAL_BIAS: "ContextualBias",
    DOMAIN_BIAS: "DomainBias",
    POSTERIOR_BIAS: "PosteriorBias",
    TEMPLATE_SENSITIVITY: "TemplateSensitivity",
    DEMONSTRATION_SENSITIVITY: "DemonstrationSensitivity",
    TRIPLET_BIAS: "TripletBias",
}


def class_name(benchmark: str) -> str:
    """Return the name of the class of a benchmark, which titles of tables show.

    Args:
        benchmark: The name in results; that of an unknown benchmark is returned unchanged.

    Example:
        >>> class_name("Post_bias"), class_name("Normal")
        ('PosteriorBias', 'Normal')
    """
    return _CLASS_NAMES.get(benchmark, benchmark)


def has_true_labels(benchmark: str) -> bool:
    """Return whether the queries of a benchmark have a true label.

    Queries of contextual and of domain bias are empty or random words. They are recorded with the label of a test row,
    which is not theirs.

    Args:
        benchmark: The name in results.

    Example:
        >>> has_true_labels("Domain_bias"), has_true_labels("Normal")
        (False, True)
    """
    return benchmark not in (CONTEXTUAL_BIAS, DOMAIN_BIAS)


def has_long_contexts(benchmark: str) -> bool:
    """Return whether a benchmark is one with long contexts: of many demonstrations, which all conditions need.

    Its conditions are rounds or lengths, its models generate text by default, and its data are those of
    ``python -m StaICC data install long-icl``.

    Args:
        benchmark: The name in results.
    """
    return benchmark in (LONG_ICL, HELMET)
