"""``variant="0.1.1"`` side by side with the released StaICC 0.1.1, on a tiny random model and the prompts of TREC.

The release runs in a process of its own, from the published wheel: the file that ``STAICC_RELEASE_WHEEL`` names, or
fetched once into the user's cache, like the data pack. It is only run: what it computes is the oracle.

870 more cases have the same numbers as inputs on both sides, so that the arithmetic is compared to 1e-14.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.pack,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*so all predictions are those of the model:UserWarning"),
]
pytest.importorskip("numpy")
pytest.importorskip("torch")

SAMPLES, DEMONSTRATIONS, ROWS, CUT = 40, 3, 4, 24

RELEASE = """
import functools, json, sys, warnings
warnings.filterwarnings("ignore")
import torch, transformers
from StaICC.prefabricate_inference import model_kernel, prompt_template_edit, standard_calibration
from StaICC.util import configs, dataset_interface, experimentor, hgf_dataset_loader

folder, out, samples, k, rows, cut = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

def make(k=k, noisy=False, loader=hgf_dataset_loader.trec):
    split = dataset_interface.triplet_dataset(loader())
    return experimentor.single_experimentor(triplet_dataset=split, k=k, noisy_channel=noisy)

one = make()
labels = one.get_label_space()
write = one.get_prompt_writter_from_dataline()
ask = functools.partial(
    model_kernel.standard_ICL_inference_with_torch_Causal_LM, model=model, tokenizer=tokenizer, label_space=labels
)
def asked(**more):
    return lambda prompt, label_space: ask(prompt=prompt, **more)

found = {"labels": labels}
prompts = [one.prompt_set()[i] for i in range(rows)]
details = [ask(prompt=p, return_hidden_state=True) for p in prompts]
logits = [ask(prompt=p, return_full_vocab_prob=True)[-1] for p in prompts]
for name, more in {
    "contextual_calibration": {}, "domain_calibration": {}, "hidden_calibration": {"return_hidden_state": True},
    "knn_prompt": {"return_full_vocab_prob": True}, "knn_prompt_centroid": {"return_full_vocab_prob": True},
}.items():
    for number in (samples, 4):
        made = getattr(standard_calibration, name)(labels)
        made.train(write, asked(**more), one.calibration_set(), calibration_number=number, k=k)
        found[f"{name} {number}"] = [
            [float(x) for x in made.inference(row, whole, state)]
            for (row, state), whole in zip(details, logits)
        ]
plain = [row for row, _ in details]
found["vanilla"] = plain
found["batch_calibration"] = standard_calibration.batch_calibration(plain, batch_size=3)
noisy = make(noisy=True)
found["noisy_channel"] = [
    model_kernel.noisy_channel_ICL_inference_with_torch_Causal_LM(
        prompt=noisy.prompt_set()[i], model=model, tokenizer=tokenizer, label_space=labels
    )
    for i in range(rows)
]
edited = make()
nothing = lambda: None
found["ppl_icl"] = prompt_template_edit.PPL_ICL(model, tokenizer, None, edited, cache_empty=nothing)
found["ppl_icl prompt"] = edited.prompt_set()[0]
found["instructions"] = configs.PPL_ICL_INSTRUCTION_SETTINGS
asked = []
standard = model_kernel.standard_ICL_inference_with_torch_Causal_LM
def recording(*args, **keywords):
    answer = standard(*args, **keywords)
    if not isinstance(answer, tuple):
        asked.append([float(x) for x in answer])
    return answer
model_kernel.standard_ICL_inference_with_torch_Causal_LM = recording
for name, loader in {"TREC": hgf_dataset_loader.trec, "SST5": hgf_dataset_loader.sst5}.items():
    edited = make(k=4, loader=loader)
    method = prompt_template_edit.SA_ICL(model, tokenizer, edited, cache_empty=nothing, demonstration_set_cut=cut)
    near = [[int(i) for i in method._get_top_k_indexes(edited.test_set()[row][0], 5)] for row in range(rows)]
    asked.clear()
    chosen = [[float(x) for x in method._inference(row)] for row in range(rows)]
    tried = [asked[start : start + 10] for start in range(0, len(asked), 10)]
    found[name] = {"neighbours": near, "sa_icl": chosen, "candidates": tried}
split = dataset_interface.triplet_dataset(hgf_dataset_loader.tweet_eval_hate())
one = experimentor.single_experimentor(triplet_dataset=split, k=4)
method = prompt_template_edit.SA_ICL(model, tokenizer, one, cache_empty=nothing, demonstration_set_cut=240)
found["hate"] = [[int(i) for i in method._get_top_k_indexes(one.test_set()[row][0], 12)] for row in range(rows)]
json.dump(found, open(out, "w"))
"""


CASES = """
import math, random

NAMES = ("contextual_calibration", "domain_calibration", "hidden_calibration", "knn_prompt", "knn_prompt_centroid")
SPREADS = (0.5, 2.0, 8.0)  # of the logits: from nearly uniform probabilities to nearly certain ones

class Rows:
    def __init__(self, generator, labels):
        words = [[f"w{generator.randrange(60)}" for _ in range(generator.randrange(2, 9))] for _ in range(40)]
        self.rows = [([" ".join(line)], generator.choice(labels)) for line in words]
        self.labels = labels
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, place):
        return self.rows[place]
    def get_label(self, place):
        return self.rows[place][1]
    def find_index_from_label(self, label):
        return self.labels.index(label)
    def get_dataset_name(self):
        return "cases"

def features(prompt, width, spread):
    generator = random.Random(prompt)
    logits = [generator.gauss(0, spread) for _ in range(width)]
    top = [math.exp(value - max(logits)) for value in logits]
    hidden, vocabulary = ([generator.gauss(0, 3) for _ in range(size)] for size in (9, 21))
    return [v / sum(top) for v in top], hidden, vocabulary

def cases(make, batch_calibration):
    for width in range(2, 7):
        for seed in range(29):
            generator, spread = random.Random(1000 * width + seed), SPREADS[seed % 3]
            labels = [f"label {number}" for number in range(width)]
            rows, k, number = Rows(generator, labels), seed % 5, generator.choice((4, 16, 33))
            def write(demonstrations, query):
                return repr([(list(texts), str(label)) for texts, label in demonstrations] + list(query))
            for name in NAMES:
                place = {"hidden_calibration": 1, "knn_prompt": 2, "knn_prompt_centroid": 2}.get(name, 0)
                def ask(prompt, label_space, place=place):
                    found = features(prompt, width, spread)
                    return found[0] if not place else (found[0], found[place])
                more = {"sample_length": 7} if name == "domain_calibration" else {}
                made = make(name, labels)
                made.train(write, ask, rows, calibration_number=number, k=k, **more)
                row, hidden, whole = features(f"query {width} {seed}", width, spread)
                yield [float(value) for value in made.inference(row, whole, hidden)]
            count = generator.choice((7, 30, 128))
            batch = [features(f"{width} {seed} {number}", width, spread)[0] for number in range(count)]
            yield [float(v) for row in batch_calibration(batch, batch_size=generator.choice((3, 10, 128))) for v in row]
"""

ARITHMETIC = """
import json, sys
from StaICC.prefabricate_inference import standard_calibration
make = lambda name, labels: getattr(standard_calibration, name)(labels)
found = list(cases(make, standard_calibration.batch_calibration))
json.dump(found, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def model_folder(make_model: Any, make_tokenizer: Any, tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_model("GPT2", n_positions=2048, max_position_embeddings=2048).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def run_release(release: Path, program: str, *arguments: str) -> None:
    """Run a program with the release in a process of its own."""
    script = release / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=release,
        env={**os.environ, "PYTHONPATH": str(release), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def released(model_folder: Path, release: Path) -> dict[str, Any]:
    """What the release computes."""
    out = release / "found.json"
    run_release(release, RELEASE, str(model_folder), str(out), *map(str, (SAMPLES, DEMONSTRATIONS, ROWS, CUT)))
    ours: dict[str, Any] = json.loads(out.read_text())
    return ours


def test_the_arithmetic_in_870_cases(release: Path) -> None:
    from functools import partial

    from StaICC.methods.released.calibrations import CLASSES, TrainableCalibration, batch_calibration

    out = release / "arithmetic.json"
    run_release(release, CASES + ARITHMETIC, str(out))
    expected = json.loads(out.read_text())
    namespace: dict[str, Any] = {}
    exec(CASES, namespace)

    def make(name: str, labels: list[str]) -> TrainableCalibration:
        return CLASSES[name](labels, variant="0.1.1")

    ours = list(namespace["cases"](make, partial(batch_calibration, variant="0.1.1")))
    assert len(ours) == len(expected) == 870
    worst = max(abs(a - b) for row, other in zip(ours, expected, strict=True) for a, b in zip(row, other, strict=True))
    assert worst <= 1e-14, worst
    assert sum(max(row) < 0.999 for row in expected) > 600  # not all are certain, where agreement means little


TWICE = """
def trained_twice(make):
    labels = ["a", "b"]
    def write(shown, query):
        return repr([(list(texts), str(label)) for texts, label in shown] + list(query))
    for name in NAMES:
        for numbers in ((20,), (20, 20), (20, 8, 20), (20, 3), (3, 20), (3, 3, 20)):
            rows, place = Rows(random.Random(3), labels), PLACES.get(name, 0)
            def ask(prompt, label_space, place=place):
                found = features(prompt, 2, 2.0)
                return found[0] if not place else (found[0], found[place])
            made = make(name, labels)
            for number in numbers:
                made.train(write, ask, rows, calibration_number=number, k=1)
            row, hidden, whole = features("query", 2, 2.0)
            try:
                inferred = [float(value) for value in made.inference(row, whole, hidden)]
            except ValueError:  # too few anchors
                inferred = None
            attributes = {}
            names = ("calibrationA", "labels_of_anchors", "label_statics", "failed", "knn_k", "n_label", "label_space")
            for attribute in names:
                if hasattr(made, attribute):
                    attributes[attribute] = getattr(made, attribute)
            yield [name, list(numbers), inferred, attributes]
PLACES = {"hidden_calibration": 1, "knn_prompt": 2, "knn_prompt_centroid": 2}
"""

TWICE_RELEASED = """
import json, sys
from StaICC.prefabricate_inference import standard_calibration
make = lambda name, labels: getattr(standard_calibration, name)(labels)
json.dump(list(trained_twice(make)), open(sys.argv[1], "w"))
"""


def test_a_second_training_continues_as_in_the_release(release: Path) -> None:
    from StaICC.methods.released.calibrations import CLASSES

    out = release / "twice.json"
    run_release(release, CASES + TWICE + TWICE_RELEASED, str(out))
    expected = json.loads(out.read_text())
    namespace: dict[str, Any] = {}
    exec(CASES + TWICE, namespace)
    ours = list(namespace["trained_twice"](lambda name, labels: CLASSES[name](labels, variant="0.1.1")))
    assert len(ours) == len(expected) == 30
    for (name, numbers, inferred, attributes), (_, _, inferred_then, attributes_then) in zip(
        ours, expected, strict=True
    ):
        assert inferred == pytest.approx(inferred_then, abs=1e-14), (name, numbers)
        if attributes.get("failed"):  # what is left of a training that gave up is used by nothing
            assert attributes_then["failed"]
            continue
        for attribute, value in attributes_then.items():
            if name == "knn_prompt_centroid" and attribute in ("labels_of_anchors", "label_statics"):
                continue  # the centroids alone are kept
            assert attributes[attribute] == (pytest.approx(value) if attribute == "calibrationA" else value), (
                name,
                numbers,
            )


def test_a_label_without_a_training_prompt_is_a_warning() -> None:
    """As in the release: a UserWarning of ``train``."""
    from StaICC.prefabricate_inference import standard_calibration

    rows = [([f"text {number}"], "no") for number in range(20)]
    made = standard_calibration.hidden_calibration(["no", "yes"], variant="0.1.1")
    with pytest.warns(UserWarning, match="none of the 8 training prompts has the label 'yes'") as caught:
        made.train(lambda shown, query: query[0], lambda prompt, label_space: ([0.5, 0.5], [1.0]), rows, 8, 0)
    assert caught[0].filename == __file__
    assert made.failed
    assert made.inference([0.25, 0.75], None, [1.0]) == [0.25, 0.75]


@pytest.mark.parametrize("variant", ["paper", "staicc"])
def test_sa_icl_chooses_the_same_orders_from_logits_as_from_probabilities(variant: str) -> None:
    """The entropy is that of probabilities: with the entropy of logits, another order is the surest."""
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
    from tests.methods.fakes import Kernel, benchmark_on_mini

    class LogitKernel(Kernel):
        """The same model, which returns logits."""

        def batch(self, prompts: Any, label_space: Any) -> Any:
            return [[math.log(share) for share in row] for row in super().batch(prompts, label_space)]

    experimentor = benchmark_on_mini(limit=12, k=3)[0]
    prompts, labels = experimentor.prompt_set()[:12], experimentor.get_label_space()
    of_probabilities = SA_ICL(Kernel(), None, experimentor, variant=variant).inference_interface(prompts, labels)
    of_logits = SA_ICL(LogitKernel(), None, experimentor, variant=variant).inference_interface(prompts, labels)
    for row, expected in zip(of_logits, of_probabilities, strict=True):
        assert row == pytest.approx(expected)


def test_sa_icl_of_one_prompt_predicts_no_other() -> None:
    """Item of a measurement: one prompt took as long as all 512, since all were predicted."""
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL
    from tests.methods.fakes import Kernel, benchmark_on_mini

    for variant in ("paper", "staicc", "0.1.1"):
        one_by_one, together = Kernel(), Kernel()
        experimentor = benchmark_on_mini(limit=12, k=3)[0]
        prompts, labels = experimentor.prompt_set()[:12], experimentor.get_label_space()
        method = SA_ICL(one_by_one, None, experimentor, variant=variant)
        first = method.inference_interface(prompts[5], labels)
        size = len(experimentor.demonstration_set())
        assert len(one_by_one.ran) <= size + 1 + 10  # encodings, and the orders of one query
        whole = SA_ICL(together, None, experimentor, variant=variant).inference_interface(prompts, labels)
        assert first == whole[5]
        before = len(one_by_one.ran)
        assert [method.inference_interface(prompt, labels) for prompt in prompts] == whole
        assert len(one_by_one.ran) - before <= 11 * 11
        before = len(one_by_one.ran)
        method.inference_interface(prompts, labels)
        assert len(one_by_one.ran) == before


@pytest.fixture(scope="module")
def kernel(model_folder: Path) -> Any:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel.from_spec(f"hf:{model_folder}", device="cpu")


@pytest.fixture(scope="module")
def trec() -> Any:
    from StaICC import Normal

    return Normal(k=DEMONSTRATIONS, datasets=["TREC"])[0]


@pytest.fixture(scope="module")
def prompts(trec: Any) -> list[str]:
    return trec.prompt_set()[:ROWS]


def close(ours: Any, expected: Any) -> None:
    assert len(ours) == len(expected)
    for row, other in zip(ours, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-5)


def test_vanilla(released: dict[str, Any], kernel: Any, trec: Any, prompts: list[str]) -> None:
    assert trec.get_label_space() == released["labels"]
    close(kernel.batch(prompts, released["labels"]), released["vanilla"])
    assert max(map(max, released["vanilla"])) > 0.3  # the model prefers labels: agreement means something


@pytest.mark.parametrize("number", [SAMPLES, 4])
@pytest.mark.parametrize(
    "name", ["contextual_calibration", "domain_calibration", "hidden_calibration", "knn_prompt", "knn_prompt_centroid"]
)
def test_trained(released: dict[str, Any], kernel: Any, trec: Any, prompts: list[str], name: str, number: int) -> None:
    """With 4 samples some of the 6 labels are missing: the release then answers as the model does."""
    from StaICC.prefabricate_inference import standard_calibration

    calibration = getattr(standard_calibration, name)(trec.get_label_space(), variant="0.1.1")
    write = trec.prompt_former.write_prompt_from_dataline
    calibration.train(write, kernel, trec.calibration_set(), calibration_number=number, k=DEMONSTRATIONS)
    ours = standard_calibration.CalibratedKernel(kernel, calibration).batch(prompts, trec.get_label_space())
    close(ours, released[f"{name} {number}"])
    if number == SAMPLES:
        assert max(abs(a - b) for a, b in zip(ours[0], released["vanilla"][0], strict=True)) > 1e-3


def test_batch_calibration(released: dict[str, Any]) -> None:
    from StaICC.methods.released.calibrations import batch_calibration

    close(batch_calibration(released["vanilla"], batch_size=3, variant="0.1.1"), released["batch_calibration"])


def test_noisy_channel(released: dict[str, Any], kernel: Any) -> None:
    from StaICC import Normal

    noisy = Normal(k=DEMONSTRATIONS, datasets=["TREC"], noisy_channel=True)[0]
    ours = kernel.noisy_channel(noisy.prompt_set()[:ROWS], noisy.get_label_space(), "0.1.1")
    close(ours, released["noisy_channel"])


def test_ppl_icl(released: dict[str, Any], kernel: Any) -> None:
    from StaICC import Normal
    from StaICC.methods.ppl_icl import instructions_for
    from StaICC.prefabricate_inference.prompt_template_edit import PPL_ICL
    from StaICC.prompting.prompt_writer import TemplateWarning

    experimentor = Normal(k=DEMONSTRATIONS, datasets=["TREC"])[0]
    with pytest.warns(TemplateWarning):
        chosen = PPL_ICL(kernel, None, None, experimentor, variant="0.1.1")
    assert chosen == released["ppl_icl"]
    assert experimentor.prompt_set()[0] == released["ppl_icl prompt"]
    for name, instructions in released["instructions"].items():
        assert instructions_for(name) == instructions


@pytest.mark.parametrize("dataset", ["TREC", "SST5"])
def test_topk_and_sa_icl(released: dict[str, Any], kernel: Any, dataset: str) -> None:
    from StaICC import Normal
    from StaICC.methods.demonstration_orders import first_orders
    from StaICC.methods.sa_icl import lowest_entropy
    from StaICC.metrics.released import entropy
    from StaICC.prefabricate_inference.prompt_template_edit import SA_ICL

    released, experimentor = released[dataset], Normal(k=4, datasets=[dataset], limit=ROWS)[0]
    method = SA_ICL(kernel, None, experimentor, demonstration_set_cut=CUT, variant="0.1.1")
    neighbours = method.neighbours(range(ROWS), 5)
    assert neighbours == released["neighbours"]
    patterns = first_orders(5, 4, 10)
    for row in range(ROWS):
        candidates = released["candidates"][row]
        orders = [[neighbours[row][place] for place in pattern] for pattern in patterns]
        prompts = [experimentor.prompt_former.write_prompt(order, row) for order in orders]
        close(kernel.batch(prompts, experimentor.get_label_space()), candidates)
        # The release's entropy turns on the last bit of a sum, so its choice is checked on its own numbers.
        assert candidates[lowest_entropy(candidates, entropy)] == released["sa_icl"][row]
    ours = method.inference_interface(experimentor.prompt_set()[:ROWS], experimentor.get_label_space())
    for answer, candidates in zip(ours, released["candidates"], strict=True):
        assert min(max(abs(a - b) for a, b in zip(answer, row, strict=True)) for row in candidates) < 1e-5
