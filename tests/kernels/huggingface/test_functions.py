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
    return {"model": make_model("GPT2"), "tokenizer": make_tokenizer()}


def plain(parts, prompt):
    ids = torch.tensor([parts["tokenizer"](prompt)["input_ids"]])
    with torch.no_grad():
        output = parts["model"](ids, output_hidden_states=True)
    tokens = [parts["tokenizer"](label)["input_ids"][-1] for label in LABELS]
    logits = output.logits[0, -1]
    return torch.softmax(logits[tokens], 0).tolist(), output.hidden_states[-1][0, -1].numpy(), logits.numpy()


def test_batched_function(parts):
    expected = [plain(parts, prompt)[0] for prompt in PROMPTS]
    assert batched(prompt=PROMPTS, label_space=LABELS, **parts) == [pytest.approx(row, abs=1e-5) for row in expected]
    seen = []
    found = batched(
        prompt=PROMPTS,
        label_space=LABELS,
        inside_calibration_function=lambda row, logits, state: [row[0], len(logits), len(state)],
        batch_calibration_function=lambda rows: seen.append(rows) or "done",
        **parts,
    )
    assert found == "done"
    assert [row[1:] for row in seen[0]] == [[384, 32]] * 3
    with pytest.raises(ArgumentError, match="prompt must be a list of strings"):
        batched(prompt="x", label_space=LABELS, **parts)


def channel_scores(parts, prompts, released):
    scores = []
    for prompt, label in zip(prompts, LABELS, strict=True):
        ids = parts["tokenizer"](prompt)["input_ids"]
        with torch.no_grad():
            logs = torch.log_softmax(parts["model"](torch.tensor([ids])).logits[0].double(), -1)
        values = [logs[i, token].item() for i, token in enumerate(ids[1:])]
        given = len(parts["tokenizer"](f"answer: {label}")["input_ids"])
        scores.append(sum(values) / len(values) if released else sum(values[given - 1 :]))
    return torch.softmax(torch.tensor(scores).double(), 0).tolist()


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_noisy_channel(parts, variant):
    expected = [channel_scores(parts, prompts, variant == "0.1.1") for prompts in CHANNEL]
    for prompts, row in zip(CHANNEL, expected, strict=True):
        assert noisy(prompt=prompts, label_space=LABELS, variant=variant, **parts) == pytest.approx(row, abs=1e-5)
    rows = noisy.batch(prompts=CHANNEL, label_space=LABELS, variant=variant, **parts)
    assert rows == [pytest.approx(row, abs=1e-5) for row in expected]


def trained(kind, row, **options):
    made = kind(LABELS, **options)
    made.train(lambda *_, **__: "prompt", lambda prompt, label_space: row, [(["a b"], 0)], calibration_number=1, k=0)
    return {"calibration_function": made.inference}


def test_identities_of_partials(parts, make_model):
    rows = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    names = {
        function.identity_for(**{**parts, **more}).digest
        for function, more in (
            (standard, {}),
            (batched, {}),
            (noisy, {}),
            (noisy, {"variant": "0.1.1"}),
            (standard, {"model": make_model("GPT2", seed=1)}),
            (standard, {"calibration_function": lambda row, logits, state: row}),
            (standard, trained(ContextualCalibration, rows[0])),
            (standard, trained(ContextualCalibration, rows[1])),
            (standard, trained(DomainCalibration, rows[0])),
            (standard, trained(ContextualCalibration, rows[0], variant="0.1.1")),
        )
    }
    assert len(names) == 10
    for same in (
        {"cache_empty": print, "return_hidden_state": False, "calibration_function": None},
        trained(ContextualCalibration, rows[0]),
    ):
        assert standard.identity_for(**parts, **same).digest in names
    assert identity_of(functools.partial(standard, **parts)).complete
