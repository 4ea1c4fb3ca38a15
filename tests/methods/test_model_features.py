"""Features of a tiny random model: equal to those of single calls, together as alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

from StaICC import Normal
from StaICC.methods.run import Method, run_all
from tests.methods.fakes import predictions_of

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> tuple[Any, Any]:
    return make_model("Llama", max_position_embeddings=2048), make_tokenizer()


def kernel_of(parts: tuple[Any, Any], **options: Any) -> Any:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(*parts, **options)


PROMPTS = ["The film was good. label: ", "The film was bad. label: ", "N/A label: ", "film"]
LABELS = ["good one", "bad one", "neither"]


def token_logs(parts: tuple[Any, Any], prompt: str) -> Any:
    """Return the log-probability of each token after a prompt, from one call of the model."""
    model, tokenizer = parts
    with torch.no_grad():
        return model(**tokenizer(prompt, return_tensors="pt")).logits[0, -1].double().log_softmax(-1)


ALL_FEATURES = {"probabilities", "log_probabilities", "hidden", "vocabulary"}


@pytest.fixture(params=["last", "first"])
def scoring(request: pytest.FixtureRequest) -> str:
    """Which token of a label is scored."""
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["label mass", "no label mass"])
def kernel(parts: tuple[Any, Any], scoring: str, request: pytest.FixtureRequest) -> Any:
    return kernel_of(parts, label_scoring=scoring, label_mass=request.param)


def test_a_model_computes_all_features_in_one_run(kernel: Any) -> None:
    assert kernel.joint_features == ALL_FEATURES


def test_features_are_those_of_the_next_token_in_a_single_call(kernel: Any, parts: tuple[Any, Any]) -> None:
    features = kernel.features(PROMPTS, LABELS, ALL_FEATURES)

    tokens = kernel.format.scoring_tokens(LABELS)[0]  # one of each label
    for number, prompt in enumerate(PROMPTS):
        logs = token_logs(parts, prompt)
        probabilities = logs[tokens].softmax(-1)
        vocabulary = torch.tensor(features["vocabulary"][number]).log_softmax(-1)
        assert features["log_probabilities"][number] == pytest.approx(logs[tokens].tolist(), abs=1e-5), prompt
        assert features["probabilities"][number] == pytest.approx(probabilities.tolist(), abs=1e-6), prompt
        assert vocabulary.tolist() == pytest.approx(logs.tolist(), abs=1e-4), prompt


def test_features_are_those_of_the_methods_of_the_kernel(kernel: Any) -> None:
    features = kernel.features(PROMPTS, LABELS, ALL_FEATURES)

    assert numpy.allclose(features["hidden"], kernel.hidden_states(PROMPTS), atol=1e-5)
    assert numpy.allclose(features["probabilities"], kernel.batch(PROMPTS, LABELS), atol=1e-7)


@pytest.mark.parametrize("feature", sorted(ALL_FEATURES))
def test_a_feature_is_the_same_alone_and_with_the_others(kernel: Any, feature: str) -> None:
    with_others = kernel.features(PROMPTS, LABELS, ALL_FEATURES)[feature]
    alone = kernel.features(PROMPTS, LABELS, {feature})[feature]
    assert numpy.allclose(alone, with_others, atol=1e-5)


FIVE_METHODS = ["vanilla", "contextual_calibration", "knn_prompt", "hidden_calibration", "linear_calibration"]
EVERY_LABEL_SCORE = pytest.mark.parametrize(
    "options",
    [{}, {"label_scoring": "full"}, {"label_scoring": "full", "label_normalisation": "mean"}],
    ids=["last token", "sum of all tokens", "mean of all tokens"],
)


@pytest.mark.slow
@EVERY_LABEL_SCORE
def test_features_computed_for_several_methods_change_predictions_by_rounding_only(
    parts: tuple[Any, Any], options: dict[str, Any]
) -> None:
    benchmark = Normal(k=1, datasets=["mini"], limit=2)

    table = run_all(
        kernel_of(parts, **options), benchmark, calibration_number=9, methods=FIVE_METHODS, return_outputs=True
    )

    for name, result in table.items():
        alone = Method(name, kernel_of(parts, **options), calibration_number=9).run(benchmark, return_outputs=True)
        assert numpy.allclose(predictions_of(result), predictions_of(alone), atol=1e-5), name


@pytest.mark.slow
@EVERY_LABEL_SCORE
def test_a_kernel_with_another_token_budget_computes_no_stored_feature_again(
    parts: tuple[Any, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    benchmark = Normal(k=1, datasets=["mini"], limit=2)
    settings = {"calibration_number": 9, "methods": FIVE_METHODS, "store": tmp_path / "store.sqlite"}
    table = run_all(kernel_of(parts, **options), benchmark, **settings)

    second_table = run_all(kernel_of(parts, token_budget=64, **options), benchmark, **settings)

    assert dict(second_table) == dict(table)
    for name, result in second_table.items():
        computed = sum(entry.computed for entry in result.provenance.predictors)
        assert computed == 0, name
