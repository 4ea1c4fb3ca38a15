"""The documented functions return what those of 0.1.1 return.

The expected values are computed from the plain model as 0.1.1 was observed to do it: softmax over the logits of each
label's last token at the last position; tuples in the order probabilities, hidden state, logits; calibration functions
called with (probabilities, logits of the whole vocabulary, hidden state). ``tests/compatibility`` compares them with
the released kernel itself.
"""

from __future__ import annotations

import functools

import pytest

from StaICC import ContextualCalibration, DomainCalibration
from StaICC.errors import ArgumentError
from StaICC.inference.identity import identity_of
from StaICC.prefabricate_inference import model_kernel

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("transformers")

LABELS = ["person", "location", "number"]
PROMPTS = ["question: who wrote? answer: ", "question: the good city? answer: ", "x"]
CHANNEL = [[f"answer: {label} question: {query}?\n" for label in LABELS] for query in ("who", "the city")]
standard = model_kernel.standard_ICL_inference_with_torch_Causal_LM
batched = model_kernel.batched_ICL_inference_with_torch_Causal_LM
noisy = model_kernel.noisy_channel_ICL_inference_with_torch_Causal_LM


@pytest.fixture(scope="module")
def parts(make_model, make_tokenizer):
    """Return the arguments of the functions that name the model."""
    return {"model": make_model("GPT2"), "tokenizer": make_tokenizer()}


def plain_probabilities(parts, prompt):
    """Return the label probabilities by the logits of the labels' last tokens, from one call of the model."""
    tokenizer, model = parts["tokenizer"], parts["model"]
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    with torch.no_grad():
        logits = model(ids).logits[0, -1]
    label_tokens = [tokenizer(label)["input_ids"][-1] for label in LABELS]
    return torch.softmax(logits[label_tokens], 0).tolist()


def test_the_batched_function_returns_a_row_for_each_prompt(parts):
    rows = batched(prompt=PROMPTS, label_space=LABELS, **parts)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        assert row == pytest.approx(plain_probabilities(parts, prompt), abs=1e-5), prompt


def test_the_function_inside_gets_probabilities_logits_and_states_of_one_prompt(parts):
    rows = batched(
        prompt=PROMPTS,
        label_space=LABELS,
        inside_calibration_function=lambda row, logits, state: [len(row), len(logits), len(state)],
        **parts,
    )
    labels, vocabulary, width = 3, 384, 32
    assert rows == [[labels, vocabulary, width]] * len(PROMPTS)


def test_the_function_of_the_batch_gets_all_rows_and_its_result_is_returned(parts):
    rows = batched(prompt=PROMPTS, label_space=LABELS, **parts)
    count_and_first = batched(
        prompt=PROMPTS, label_space=LABELS, batch_calibration_function=lambda rows: (len(rows), rows[0]), **parts
    )
    assert count_and_first == (len(PROMPTS), pytest.approx(rows[0]))


def test_the_function_of_the_batch_gets_what_the_function_inside_returns(parts):
    result = batched(
        prompt=PROMPTS,
        label_space=LABELS,
        inside_calibration_function=lambda row, logits, state: ["changed"],
        batch_calibration_function=lambda rows: rows,
        **parts,
    )
    assert result == [["changed"]] * len(PROMPTS)


def test_the_batched_function_refuses_a_single_prompt(parts):
    with pytest.raises(ArgumentError, match="prompt must be a list of strings"):
        batched(prompt="x", label_space=LABELS, **parts)


def token_log_probabilities(parts, text):
    """Return the log-probabilities of all tokens of a text but the first, from one call of the model."""
    ids = parts["tokenizer"](text)["input_ids"]
    with torch.no_grad():
        logs = torch.log_softmax(parts["model"](torch.tensor([ids])).logits[0].double(), -1)
    return [logs[index, token].item() for index, token in enumerate(ids[1:])]


def channel_row(parts, prompts, variant):
    """Return the label probabilities of the prompts of a query, each of which begins with a label.

    The paper sums up the log-probabilities of the tokens after the label, the release takes the mean of all.
    """
    scores = []
    for prompt, label in zip(prompts, LABELS, strict=True):
        log_probabilities = token_log_probabilities(parts, prompt)
        if variant == "0.1.1":
            scores.append(sum(log_probabilities) / len(log_probabilities))
        else:
            tokens_up_to_label = len(parts["tokenizer"](f"answer: {label}")["input_ids"])
            after_label = log_probabilities[tokens_up_to_label - 1 :]  # the first token has none
            scores.append(sum(after_label))
    return torch.softmax(torch.tensor(scores).double(), 0).tolist()


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_the_noisy_channel_scores_the_text_of_the_query(parts, variant):
    for prompts in CHANNEL:
        row = noisy(prompt=prompts, label_space=LABELS, variant=variant, **parts)
        assert row == pytest.approx(channel_row(parts, prompts, variant), abs=1e-5), prompts


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_a_batch_of_noisy_channels_has_the_rows_of_single_calls(parts, variant):
    rows = noisy.batch(prompts=CHANNEL, label_space=LABELS, variant=variant, **parts)
    for prompts, row in zip(CHANNEL, rows, strict=True):
        assert row == pytest.approx(channel_row(parts, prompts, variant), abs=1e-5), prompts


def trained_calibration(calibration_class, row, **options):
    """Return a calibration that was trained on one prompt, for which the model predicts this row."""

    def write_prompt(demonstrations, query):
        return "prompt"

    def predict(prompt, label_space):
        return row

    calibration = calibration_class(LABELS, **options)
    calibration.train(write_prompt, predict, [(["a b"], 0)], calibration_number=1, k=0)
    return calibration.inference


def test_the_identity_of_a_call_depends_on_function_model_and_variant(parts, make_model):
    identities = [
        standard.identity_for(**parts),
        batched.identity_for(**parts),
        noisy.identity_for(**parts),
        noisy.identity_for(**parts, variant="0.1.1"),
        standard.identity_for(model=make_model("GPT2", seed=1), tokenizer=parts["tokenizer"]),
    ]

    assert len({identity.digest for identity in identities}) == 5


def test_the_identity_of_a_call_depends_on_its_calibration(parts):
    row, other_row = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    calibrations = [
        None,
        lambda row, logits, state: row,
        trained_calibration(ContextualCalibration, row),
        trained_calibration(ContextualCalibration, other_row),
        trained_calibration(ContextualCalibration, row, variant="0.1.1"),
        trained_calibration(DomainCalibration, row),
    ]

    digests = set()
    for calibration in calibrations:
        digests.add(standard.identity_for(**parts, calibration_function=calibration).digest)

    assert len(digests) == 6


def test_arguments_that_change_no_prediction_are_not_in_the_identity(parts):
    with_them = standard.identity_for(**parts, cache_empty=print, return_hidden_state=False, calibration_function=None)
    assert with_them.digest == standard.identity_for(**parts).digest


def test_equal_calibrations_have_one_identity(parts):
    first = trained_calibration(ContextualCalibration, [0.5, 0.3, 0.2])
    second = trained_calibration(ContextualCalibration, [0.5, 0.3, 0.2])

    identity = standard.identity_for(**parts, calibration_function=first)

    assert identity.digest == standard.identity_for(**parts, calibration_function=second).digest


def test_a_partial_with_its_model_has_a_complete_identity(parts):
    assert identity_of(functools.partial(standard, **parts)).complete
