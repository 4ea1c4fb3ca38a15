"""``variant="0.1.1"`` side by side with the released StaICC 0.1.1, on a tiny random model and the prompts of TREC.

The release runs in a process of its own, from the published wheel: the file that ``STAICC_RELEASE_WHEEL`` names, or
fetched once into the user's cache, like the data pack. It is only run: what it computes is the oracle.

870 more cases have the same numbers as inputs on both sides, so that the arithmetic is compared to 1e-14.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [
    pytest.mark.pack,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*so all predictions are those of the model:UserWarning"),
]
numpy = pytest.importorskip("numpy")
pytest.importorskip("torch")

DEMONSTRATIONS = 3
"""Demonstrations of each prompt of TREC."""
ROWS = 4
"""Test rows that are compared."""
ENOUGH_SAMPLES = 40
"""Training prompts that have each of the six labels of TREC."""
FEW_SAMPLES = 4
"""Training prompts that lack at least two of the six labels."""
POOL_SIZE = 24
"""Demonstrations from which TopK and SA-ICL choose."""
NEIGHBOURS = 5
"""Nearest demonstrations, of which SA-ICL tries ten orders of four."""

RELEASE = """
import functools, json, sys, warnings
warnings.filterwarnings("ignore")
import torch, transformers
from StaICC.prefabricate_inference import model_kernel, prompt_template_edit, standard_calibration
from StaICC.util import configs, dataset_interface, experimentor, hgf_dataset_loader

out, model_folder = sys.argv[1:3]
demonstrations, test_rows, enough_samples, few_samples, pool_size, neighbours = map(int, sys.argv[3:])
model = transformers.AutoModelForCausalLM.from_pretrained(model_folder).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
label_scores_of_model = model_kernel.standard_ICL_inference_with_torch_Causal_LM
result = {}

def do_nothing():
    pass

def numbers(values):
    return [float(value) for value in values]

def experimentor_on(load_dataset, k, noisy_channel=False):
    split = dataset_interface.triplet_dataset(load_dataset())
    return experimentor.single_experimentor(triplet_dataset=split, k=k, noisy_channel=noisy_channel)

trec = experimentor_on(hgf_dataset_loader.trec, demonstrations)
labels = trec.get_label_space()
prompts = [trec.prompt_set()[row] for row in range(test_rows)]
result["labels"] = labels

# The label probabilities of a prompt; with an option, a tuple of these and another output of the model.
def predict(prompt, label_space, **options):
    return label_scores_of_model(prompt=prompt, model=model, tokenizer=tokenizer, label_space=labels, **options)

probabilities, hidden_states, vocabulary_logits = [], [], []
for prompt in prompts:
    row, hidden_state = predict(prompt, labels, return_hidden_state=True)
    probabilities.append(row)
    hidden_states.append(hidden_state)
    vocabulary_logits.append(predict(prompt, labels, return_full_vocab_prob=True)[-1])
result["vanilla"] = probabilities
result["batch_calibration"] = standard_calibration.batch_calibration(probabilities, batch_size=3)

options_of_training = {
    "contextual_calibration": {},
    "domain_calibration": {},
    "hidden_calibration": {"return_hidden_state": True},
    "knn_prompt": {"return_full_vocab_prob": True},
    "knn_prompt_centroid": {"return_full_vocab_prob": True},
}
for name, options in options_of_training.items():
    for samples in (enough_samples, few_samples):
        calibration = getattr(standard_calibration, name)(labels)
        calibration.train(
            trec.get_prompt_writter_from_dataline(),
            functools.partial(predict, **options),
            trec.calibration_set(),
            calibration_number=samples,
            k=demonstrations,
        )
        result[f"{name}, {samples} samples"] = [
            numbers(calibration.inference(*outputs)) for outputs in zip(probabilities, vocabulary_logits, hidden_states)
        ]

noisy = experimentor_on(hgf_dataset_loader.trec, demonstrations, noisy_channel=True)
result["noisy_channel"] = [
    model_kernel.noisy_channel_ICL_inference_with_torch_Causal_LM(
        prompt=noisy.prompt_set()[row], model=model, tokenizer=tokenizer, label_space=labels
    )
    for row in range(test_rows)
]

with_instruction = experimentor_on(hgf_dataset_loader.trec, demonstrations)
chosen_instruction = prompt_template_edit.PPL_ICL(model, tokenizer, None, with_instruction, cache_empty=do_nothing)
result["ppl_icl"] = {
    "chosen instruction": chosen_instruction,
    "first prompt": with_instruction.prompt_set()[0],
    "instructions of each data set": configs.PPL_ICL_INSTRUCTION_SETTINGS,
}

rows_of_orders = []  # the label probabilities of each order that SA-ICL tries

def recorded_label_scores(*arguments, **options):
    output = label_scores_of_model(*arguments, **options)
    if not isinstance(output, tuple):
        rows_of_orders.append(numbers(output))
    return output

model_kernel.standard_ICL_inference_with_torch_Causal_LM = recorded_label_scores
for name, load_dataset in {"TREC": hgf_dataset_loader.trec, "SST5": hgf_dataset_loader.sst5}.items():
    dataset = experimentor_on(load_dataset, k=4)
    options = {"cache_empty": do_nothing, "demonstration_set_cut": pool_size}
    method = prompt_template_edit.SA_ICL(model, tokenizer, dataset, **options)
    topk = []
    for row in range(test_rows):
        text = dataset.test_set()[row][0]
        topk.append([int(position) for position in method._get_top_k_indexes(text, neighbours)])
    rows_of_orders.clear()
    result[name] = {
        "nearest demonstrations": topk,
        "predictions": [numbers(method._inference(row)) for row in range(test_rows)],
        "predictions with each order": [rows_of_orders[start : start + 10] for start in range(0, 10 * test_rows, 10)],
    }
    assert len(rows_of_orders) == 10 * test_rows
json.dump(result, open(out, "w"))
"""


CASES = """
import math, random

CALIBRATIONS = (
    "contextual_calibration", "domain_calibration", "hidden_calibration", "knn_prompt", "knn_prompt_centroid"
)
SPREADS = (0.5, 2.0, 8.0)  # of the logits: from nearly uniform probabilities to nearly certain ones

# A calibration set of 40 rows with random words and random labels.
class RandomRows:
    def __init__(self, generator, labels):
        self.labels = labels
        texts = [[f"w{generator.randrange(60)}" for _ in range(generator.randrange(2, 9))] for _ in range(40)]
        self.rows = [([" ".join(words)], generator.choice(labels)) for words in texts]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, position):
        return self.rows[position]
    def get_label(self, position):
        return self.rows[position][1]
    def find_index_from_label(self, label):
        return self.labels.index(label)
    def get_dataset_name(self):
        return "random rows"

def write_prompt(demonstrations, query):
    return repr([(list(texts), str(label)) for texts, label in demonstrations] + list(query))

# The random outputs of a model for a prompt: label probabilities, a hidden state of 9 numbers, 21 vocabulary logits.
def model_outputs(prompt, n_labels, spread):
    generator = random.Random(prompt)
    logits = [generator.gauss(0, spread) for _ in range(n_labels)]
    powers = [math.exp(logit - max(logits)) for logit in logits]
    probabilities = [power / sum(powers) for power in powers]
    hidden_state = [generator.gauss(0, 3) for _ in range(9)]
    vocabulary_logits = [generator.gauss(0, 3) for _ in range(21)]
    return probabilities, hidden_state, vocabulary_logits

# A model that returns what the training of a calibration reads: probabilities, for some with a second output.
def model_for(calibration, spread):
    def predict(prompt, label_space):
        probabilities, hidden_state, vocabulary_logits = model_outputs(prompt, len(label_space), spread)
        if calibration == "hidden_calibration":
            return probabilities, hidden_state
        if calibration in ("knn_prompt", "knn_prompt_centroid"):
            return probabilities, vocabulary_logits
        return probabilities
    return predict

# Yield the name and the row of each case: five calibrations and batch calibration, for 5 * 29 random data sets.
def calibrated_rows(make_calibration, batch_calibration):
    for n_labels in (2, 3, 4, 5, 6):
        labels = [f"label {number}" for number in range(n_labels)]
        for seed in range(29):
            generator = random.Random(1000 * n_labels + seed)
            spread = SPREADS[seed % 3]
            rows = RandomRows(generator, labels)
            k = seed % 5
            samples = generator.choice((4, 16, 33))
            case = f"{n_labels} labels, seed {seed}"
            for name in CALIBRATIONS:
                calibration = make_calibration(name, labels)
                options = {"sample_length": 7} if name == "domain_calibration" else {}
                model = model_for(name, spread)
                calibration.train(write_prompt, model, rows, calibration_number=samples, k=k, **options)
                query = f"query {n_labels} {seed}"
                probabilities, hidden_state, vocabulary_logits = model_outputs(query, n_labels, spread)
                row = calibration.inference(probabilities, vocabulary_logits, hidden_state)
                yield f"{name}, {case}", [float(value) for value in row]

            queries = generator.choice((7, 30, 128))
            batch = [model_outputs(f"{n_labels} {seed} {query}", n_labels, spread)[0] for query in range(queries)]
            calibrated = batch_calibration(batch, batch_size=generator.choice((3, 10, 128)))
            yield f"batch calibration, {case}", [float(value) for row in calibrated for value in row]
"""

CASES_IN_RELEASE = """
import json, sys
from StaICC.prefabricate_inference import standard_calibration

def make_calibration(name, labels):
    return getattr(standard_calibration, name)(labels)

rows = dict(calibrated_rows(make_calibration, standard_calibration.batch_calibration))
json.dump(rows, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def model_folder(make_model: Any, make_tokenizer: Any, tmp_path_factory: Any) -> Path:
    """A folder with a tiny random GPT-2 that reads 2,048 tokens, and its tokenizer."""
    folder: Path = tmp_path_factory.mktemp("tiny")
    make_model("GPT2", n_positions=2048, max_position_embeddings=2048).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def run_release(release: Path, program: str, *arguments: object) -> Any:
    """Run a program with the release in a process of its own, and return the JSON that it writes.

    The first argument of the program is the file to write to.
    """
    script = release / "program.py"
    script.write_text(program)
    output = release / "output.json"
    done = subprocess.run(
        [sys.executable, str(script), str(output), *map(str, arguments)],
        cwd=release,
        env={**os.environ, "PYTHONPATH": str(release), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def released(model_folder: Path, release: Path) -> dict[str, Any]:
    """What the release computes for the first test rows of TREC (TopK and SA-ICL: also SST5), by method."""
    numbers = (DEMONSTRATIONS, ROWS, ENOUGH_SAMPLES, FEW_SAMPLES, POOL_SIZE, NEIGHBOURS)
    result: dict[str, Any] = run_release(release, RELEASE, model_folder, *numbers)
    return result


def functions_of(program: str) -> dict[str, Any]:
    """Run a program in this process, and return its names."""
    names: dict[str, Any] = {}
    exec(program, names)
    return names


def make_released_variant(name: str, labels: list[str]) -> Any:
    """Return the calibration of this name, which computes as in 0.1.1."""
    from StaICC.methods.released.calibrations import CLASSES

    return CLASSES[name](labels, variant="0.1.1")


def test_calibrated_rows_are_those_of_the_release_in_870_cases(release: Path) -> None:
    from StaICC.methods.released.calibrations import batch_calibration

    batch_calibration_of_0_1_1 = functools.partial(batch_calibration, variant="0.1.1")
    calibrated_rows = functions_of(CASES)["calibrated_rows"]

    rows = dict(calibrated_rows(make_released_variant, batch_calibration_of_0_1_1))
    rows_of_release = run_release(release, CASES + CASES_IN_RELEASE)

    methods, label_spaces, seeds = 6, 5, 29
    assert len(rows) == methods * label_spaces * seeds == 870
    assert rows.keys() == rows_of_release.keys()
    for case, row in rows.items():
        assert row == pytest.approx(rows_of_release[case], rel=0, abs=1e-14), case
    uncertain_cases = [case for case, row in rows_of_release.items() if max(row) < 0.999]
    assert len(uncertain_cases) > 600, "where predictions are certain, agreement means little"


REPEATED_TRAININGS = """
ATTRIBUTES = ("calibrationA", "labels_of_anchors", "label_statics", "failed", "knn_k", "n_label", "label_space")

# Train each calibration several times, and yield the case, the prediction of a query, and the attributes afterwards.
def repeated_trainings(make_calibration):
    labels = ["a", "b"]
    for name in CALIBRATIONS:
        for sizes in ([20], [20, 20], [20, 8, 20], [20, 3], [3, 20], [3, 3, 20]):
            calibration = make_calibration(name, labels)
            rows = RandomRows(random.Random(3), labels)
            for samples in sizes:
                calibration.train(write_prompt, model_for(name, 2.0), rows, calibration_number=samples, k=1)
            probabilities, hidden_state, vocabulary_logits = model_outputs("query", len(labels), 2.0)
            try:
                row = calibration.inference(probabilities, vocabulary_logits, hidden_state)
                prediction = [float(value) for value in row]
            except ValueError:  # too few anchors
                prediction = None
            attributes = {attribute: getattr(calibration, attribute, None) for attribute in ATTRIBUTES}
            yield f"{name} trained with {sizes} samples", prediction, attributes
"""

REPEATED_TRAININGS_IN_RELEASE = """
import json, sys
from StaICC.prefabricate_inference import standard_calibration

def make_calibration(name, labels):
    return getattr(standard_calibration, name)(labels)

json.dump(list(repeated_trainings(make_calibration)), open(sys.argv[1], "w"))
"""


class RepeatedTraining(NamedTuple):
    """A calibration that was trained several times: its prediction for a query (``None``: an error), its attributes."""

    case: str
    prediction: list[float] | None
    attributes: dict[str, Any]


@pytest.fixture(scope="module")
def repeated_trainings() -> list[RepeatedTraining]:
    """Thirty cases: five calibrations, six lists of sizes of the trainings."""
    repeated_trainings = functions_of(CASES + REPEATED_TRAININGS)["repeated_trainings"]
    return [RepeatedTraining(*values) for values in repeated_trainings(make_released_variant)]


@pytest.fixture(scope="module")
def repeated_trainings_of_release(release: Path) -> list[RepeatedTraining]:
    """The same cases, computed by the release."""
    cases = run_release(release, CASES + REPEATED_TRAININGS + REPEATED_TRAININGS_IN_RELEASE)
    return [RepeatedTraining(*values) for values in cases]


def test_predictions_after_several_trainings_are_those_of_the_release(
    repeated_trainings: list[RepeatedTraining], repeated_trainings_of_release: list[RepeatedTraining]
) -> None:
    assert len(repeated_trainings) == 5 * 6
    for ours, expected in zip(repeated_trainings, repeated_trainings_of_release, strict=True):
        assert ours.case == expected.case
        assert ours.prediction == pytest.approx(expected.prediction, abs=1e-14), ours.case


def test_attributes_after_several_trainings_are_those_of_the_release(
    repeated_trainings: list[RepeatedTraining], repeated_trainings_of_release: list[RepeatedTraining]
) -> None:
    for ours, expected in zip(repeated_trainings, repeated_trainings_of_release, strict=True):
        assert ours.attributes["failed"] == expected.attributes["failed"], ours.case
        if ours.attributes["failed"]:
            continue  # nothing uses what is left of a training that gave up

        compared = {name for name, value in expected.attributes.items() if value is not None}
        if ours.case.startswith("knn_prompt_centroid"):
            compared -= {"labels_of_anchors", "label_statics"}  # ours keeps the centroids only
        for name in compared - {"calibrationA"}:
            assert ours.attributes[name] == expected.attributes[name], f"{ours.case}: {name}"
        if "calibrationA" in compared:
            assert ours.attributes["calibrationA"] == pytest.approx(expected.attributes["calibrationA"]), ours.case


def test_a_label_without_a_training_prompt_is_a_warning() -> None:
    """As in the release: a UserWarning of ``train``, after which the predictions are those of the model."""
    from StaICC.prefabricate_inference import standard_calibration

    def write_prompt(demonstrations: Any, query: list[str]) -> str:
        return query[0]

    def predict(prompt: str, label_space: list[str]) -> tuple[list[float], list[float]]:
        probabilities, hidden_state = [0.5, 0.5], [1.0]
        return probabilities, hidden_state

    rows_without_yes = [([f"text {number}"], "no") for number in range(20)]
    calibration = standard_calibration.hidden_calibration(["no", "yes"], variant="0.1.1")

    with pytest.warns(UserWarning, match="none of the 8 training prompts has the label 'yes'") as caught:
        calibration.train(write_prompt, predict, rows_without_yes, calibration_number=8, k=0)

    assert caught[0].filename == __file__
    assert calibration.failed
    assert calibration.inference([0.25, 0.75], None, [1.0]) == [0.25, 0.75]


@pytest.mark.parametrize("variant", ["paper", "staicc"])
def test_sa_icl_chooses_the_same_orders_from_logits_as_from_probabilities(variant: str) -> None:
    """The entropy is that of probabilities: with the entropy of logits, another order has the lowest one."""
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
    from tests.methods.fakes import Kernel, benchmark_on_mini

    class LogitKernel(Kernel):
        """The same model, which returns the logarithms of its probabilities."""

        def batch(self, prompts: Any, label_space: Any) -> Any:
            return numpy.log(super().batch(prompts, label_space)).tolist()

    experimentor = benchmark_on_mini(limit=12, k=3)[0]
    prompts = experimentor.prompt_set()[:12]
    labels = experimentor.get_label_space()

    of_probabilities = SA_ICL(Kernel(), None, experimentor, variant=variant).inference_interface(prompts, labels)
    of_logits = SA_ICL(LogitKernel(), None, experimentor, variant=variant).inference_interface(prompts, labels)

    assert numpy.array(of_logits) == pytest.approx(numpy.array(of_probabilities))


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_sa_icl_predicts_one_prompt_as_it_predicts_it_among_others(variant: str) -> None:
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
    from tests.methods.fakes import Kernel, benchmark_on_mini

    experimentor = benchmark_on_mini(limit=12, k=3)[0]
    prompts = experimentor.prompt_set()[:12]
    labels = experimentor.get_label_space()

    one_by_one = SA_ICL(Kernel(), None, experimentor, variant=variant)
    rows = [one_by_one.inference_interface(prompt, labels) for prompt in prompts]

    together = SA_ICL(Kernel(), None, experimentor, variant=variant)
    assert rows == together.inference_interface(prompts, labels)


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_sa_icl_of_one_prompt_computes_nothing_for_other_prompts(variant: str) -> None:
    """It encodes the demonstrations and the query, and predicts with ten orders; another prompt needs the last two."""
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
    from tests.methods.fakes import Kernel, benchmark_on_mini

    kernel = Kernel()
    experimentor = benchmark_on_mini(limit=12, k=3)[0]
    prompts = experimentor.prompt_set()[:12]
    labels = experimentor.get_label_space()
    method = SA_ICL(kernel, None, experimentor, variant=variant)

    method.inference_interface(prompts[5], labels)
    runs_of_one_prompt = len(kernel.ran)
    for prompt in prompts:
        method.inference_interface(prompt, labels)
    runs_of_eleven_others = len(kernel.ran) - runs_of_one_prompt

    encoding_of_query, orders = 1, 10
    assert runs_of_one_prompt <= len(experimentor.demonstration_set()) + encoding_of_query + orders
    assert runs_of_eleven_others <= 11 * (encoding_of_query + orders)


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_sa_icl_keeps_its_predictions(variant: str) -> None:
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
    from tests.methods.fakes import Kernel, benchmark_on_mini

    kernel = Kernel()
    experimentor = benchmark_on_mini(limit=12, k=3)[0]
    prompts = experimentor.prompt_set()[:12]
    labels = experimentor.get_label_space()
    method = SA_ICL(kernel, None, experimentor, variant=variant)
    first = method.inference_interface(prompts, labels)

    kernel.ran.clear()
    second = method.inference_interface(prompts, labels)

    assert second == first
    assert kernel.ran == []


@pytest.fixture(scope="module")
def kernel(model_folder: Path) -> Any:
    """Our kernel of the model that the release runs."""
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel.from_spec(f"hf:{model_folder}", device="cpu")


@pytest.fixture(scope="module")
def trec() -> Any:
    """The experimentor on TREC with three demonstrations."""
    from StaICC import Normal

    return Normal(k=DEMONSTRATIONS, datasets=["TREC"])[0]


@pytest.fixture(scope="module")
def prompts(trec: Any) -> list[str]:
    """The prompts of the first four test rows of TREC."""
    first_prompts: list[str] = trec.prompt_set()[:ROWS]
    return first_prompts


def close_rows(rows: Any) -> Any:
    """Return what equals rows of label probabilities up to the rounding of a model in float32."""
    return pytest.approx(numpy.array(rows), abs=1e-5)


def test_label_probabilities_are_those_of_the_release(
    released: dict[str, Any], kernel: Any, trec: Any, prompts: list[str]
) -> None:
    probabilities = kernel.batch(prompts, trec.get_label_space())

    assert trec.get_label_space() == released["labels"]
    assert numpy.array(probabilities) == close_rows(released["vanilla"])
    highest_probability = numpy.max(probabilities)
    assert highest_probability > 0.3, "the model hardly prefers a label, so that agreement means little"


@pytest.mark.parametrize("samples", [ENOUGH_SAMPLES, FEW_SAMPLES])
@pytest.mark.parametrize(
    "name", ["contextual_calibration", "domain_calibration", "hidden_calibration", "knn_prompt", "knn_prompt_centroid"]
)
def test_a_trained_calibration_predicts_what_the_release_predicts(
    released: dict[str, Any], kernel: Any, trec: Any, prompts: list[str], name: str, samples: int
) -> None:
    """With few samples, labels are missing in training: the release then predicts as the model does."""
    from StaICC.prefabricate_inference import standard_calibration

    labels = trec.get_label_space()
    calibration = getattr(standard_calibration, name)(labels, variant="0.1.1")
    write_prompt = trec.prompt_former.write_prompt_from_dataline

    calibration.train(write_prompt, kernel, trec.calibration_set(), calibration_number=samples, k=DEMONSTRATIONS)
    calibrated = standard_calibration.CalibratedKernel(kernel, calibration).batch(prompts, labels)

    assert numpy.array(calibrated) == close_rows(released[f"{name}, {samples} samples"])
    if samples == ENOUGH_SAMPLES:
        change = numpy.abs(numpy.subtract(calibrated[0], released["vanilla"][0])).max()
        assert change > 1e-3, "the calibration does not change the first prediction"


def test_batch_calibration_is_that_of_the_release(released: dict[str, Any]) -> None:
    from StaICC.methods.released.calibrations import batch_calibration

    calibrated = batch_calibration(released["vanilla"], batch_size=3, variant="0.1.1")

    assert numpy.array(calibrated) == close_rows(released["batch_calibration"])


def test_the_noisy_channel_is_that_of_the_release(released: dict[str, Any], kernel: Any) -> None:
    from StaICC import Normal

    experimentor = Normal(k=DEMONSTRATIONS, datasets=["TREC"], noisy_channel=True)[0]
    prompts = experimentor.prompt_set()[:ROWS]

    probabilities = kernel.noisy_channel(prompts, experimentor.get_label_space(), "0.1.1")

    assert numpy.array(probabilities) == close_rows(released["noisy_channel"])


def test_ppl_icl_chooses_the_instruction_of_the_release(released: dict[str, Any], kernel: Any) -> None:
    from StaICC import Normal
    from StaICC.prefabricate_inference.prompt_template_edit import PPL_ICL
    from StaICC.prompting.prompt_writer import TemplateWarning

    experimentor = Normal(k=DEMONSTRATIONS, datasets=["TREC"])[0]

    with pytest.warns(TemplateWarning):
        chosen = PPL_ICL(kernel, None, None, experimentor, variant="0.1.1")

    assert chosen == released["ppl_icl"]["chosen instruction"]
    assert experimentor.prompt_set()[0] == released["ppl_icl"]["first prompt"]


def test_the_instructions_of_each_data_set_are_those_of_the_release(released: dict[str, Any]) -> None:
    from StaICC.methods.ppl_icl import instructions_for

    for dataset, instructions in released["ppl_icl"]["instructions of each data set"].items():
        assert instructions_for(dataset) == instructions, dataset


def released_sa_icl(kernel: Any, dataset: str) -> Any:
    """Return SA-ICL as in 0.1.1, on the first test rows of a data set, with prompts of four demonstrations."""
    from StaICC import Normal
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL

    experimentor = Normal(k=4, datasets=[dataset], limit=ROWS)[0]
    return SA_ICL(kernel, None, experimentor, demonstration_set_cut=POOL_SIZE, variant="0.1.1")


@pytest.mark.parametrize("dataset", ["TREC", "SST5"])
def test_topk_finds_the_nearest_demonstrations_of_the_release(
    released: dict[str, Any], kernel: Any, dataset: str
) -> None:
    nearest = released_sa_icl(kernel, dataset).neighbours(range(ROWS), NEIGHBOURS)

    assert nearest == released[dataset]["nearest demonstrations"]


@pytest.mark.parametrize("dataset", ["TREC", "SST5"])
def test_sa_icl_predicts_with_the_ten_orders_of_the_release(
    released: dict[str, Any], kernel: Any, dataset: str
) -> None:
    """The ten orders are the first ones of four of the five nearest demonstrations."""
    from StaICC import Normal
    from StaICC.methods.demonstration_orders import first_orders

    experimentor = Normal(k=4, datasets=[dataset], limit=ROWS)[0]
    nearest = released[dataset]["nearest demonstrations"]
    orders = first_orders(NEIGHBOURS, 4, 10)
    for row in range(ROWS):
        prompts = []
        for order in orders:
            demonstrations = [nearest[row][number] for number in order]
            prompts.append(experimentor.prompt_former.write_prompt(demonstrations, row))

        probabilities = kernel.batch(prompts, experimentor.get_label_space())

        assert numpy.array(probabilities) == close_rows(released[dataset]["predictions with each order"][row])


@pytest.mark.parametrize("dataset", ["TREC", "SST5"])
def test_the_order_of_the_lowest_entropy_is_that_of_the_release(released: dict[str, Any], dataset: str) -> None:
    """The entropy of the release depends on the last bit of a sum, so that its own numbers are compared."""
    from StaICC.methods.sa_icl import lowest_entropy
    from StaICC.metrics.released import entropy

    for row in range(ROWS):
        of_orders = released[dataset]["predictions with each order"][row]

        chosen = lowest_entropy(of_orders, entropy)

        assert of_orders[chosen] == released[dataset]["predictions"][row], f"test row {row}"


@pytest.mark.parametrize("dataset", ["TREC", "SST5"])
def test_the_prediction_of_sa_icl_is_that_of_one_of_the_orders_of_the_release(
    released: dict[str, Any], kernel: Any, dataset: str
) -> None:
    """Rounding may decide which one, since entropies are almost equal."""
    from StaICC import Normal

    experimentor = Normal(k=4, datasets=[dataset], limit=ROWS)[0]
    method = released_sa_icl(kernel, dataset)

    predictions = method.inference_interface(experimentor.prompt_set()[:ROWS], experimentor.get_label_space())

    for row, prediction in enumerate(predictions):
        of_orders = numpy.array(released[dataset]["predictions with each order"][row])
        largest_differences = numpy.abs(of_orders - prediction).max(axis=1)
        assert largest_differences.min() < 1e-5, f"test row {row}"
