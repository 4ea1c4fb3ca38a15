"""Methods against the code of their authors, on random scores and states.

The functions of the authors are read from clones of their repositories and run unchanged; what they ask a model for is
random. Usage::

    git clone https://github.com/tonyzhaozh/few-shot-learning FOLDER/few-shot-learning      # and the others of CHECKS
    python tests/performance/authors_code.py --folder FOLDER [--cases 200]

Needs torch and SciPy. A case is a prediction; for vote-k it is a list of ten rows, which can differ where rows have
equally many votes: rounding breaks these ties. k-NN prompting takes the first label
of equally many votes in both, and both are computed in double precision.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from records import arguments, markdown, record
from scipy import spatial

from StaICC.methods import hidden_calibration, knn_prompt, linear_calibration
from StaICC.methods.contextual_calibration import softmax_of_quotients
from StaICC.methods.label_prior import calibrated_in_context
from StaICC.methods.released import calibration_arithmetic as released
from StaICC.methods.sa_icl import lowest_entropy
from StaICC.methods.vote_k import representatives
from StaICC.prompting.stable_random import StableRandom

Pairs = Iterator[tuple[Any, Any]]
"""What the authors' code and ours compute of one case."""


def functions(path: Path, **names: Any) -> SimpleNamespace:
    """Run the functions and classes of a file, with what they import given."""
    parts = [
        part for part in ast.parse(path.read_text("utf-8")).body if isinstance(part, (ast.FunctionDef, ast.ClassDef))
    ]
    space: dict[str, Any] = {"np": numpy, "torch": torch, "nn": torch.nn, **names}
    exec(compile(ast.Module(parts, []), str(path), "exec"), space)
    return SimpleNamespace(**space)


def labels_of(count: int) -> list[str]:
    return [f"label {number}" for number in range(count)]


def contextual(folder: Path, random: Any, cases: int) -> Pairs:
    """Predictions with the prior of three content-free texts."""
    for _ in range(cases):
        n_labels = int(random.integers(2, 8))
        # The last column is that of all other tokens: the probabilities of the labels sum to less than 1.
        content_free = random.dirichlet(numpy.full(n_labels + 1, 0.5), (3,))[:, :n_labels]
        query = random.dirichlet(numpy.full(n_labels, 0.5))

        replies = iter(numpy.log(content_free).ravel())
        authors = functions(
            folder / "few-shot-learning" / "run_classification.py",
            construct_prompt=lambda *_: "",
            complete=lambda *_, **__: {"choices": [{"logprobs": {"token_logprobs": [next(replies)]}}]},  # noqa: B023
        )
        parameters = {"label_dict": {label: [str(label)] for label in range(n_labels)}, "model": ""}
        prior = authors.get_p_content_free(parameters, [], [], ("N/A", "", "[MASK]"))

        logarithms = [[values] for values in numpy.log(content_free).tolist()]
        (ours,) = calibrated_in_context([query.tolist()], logarithms, softmax_of_quotients, n_labels, logarithms=True)
        predicted = ours.index(max(ours))  # type: ignore[union-attr]
        accuracy_of_authors = authors.eval_accuracy(query[None], [predicted], "diagonal_W", prior)
        yield accuracy_of_authors, 1.0  # if both predict the same label


def linear(folder: Path, random: Any, cases: int) -> Pairs:
    """Probabilities after training from the prior, with the same order of the rows."""
    count, epochs, test_count = 30, 15, 10
    for _ in range(cases // 10):
        n_labels = int(random.integers(2, 6))
        rate = float(random.choice([3e-4, 0.015, 0.15]))
        content_free, rows, tests = (random.dirichlet(numpy.full(n_labels, 0.5), n) for n in (3, count, test_count))
        labels = random.integers(0, n_labels, count).tolist()
        generator = StableRandom()
        caught: list[Any] = []

        def shuffled(*_: Any, random_state: int) -> tuple[list[Any], list[int]]:
            """Return the training rows in our order, in the place of the authors' random one."""
            order = generator.sample_indexes(count, count)  # noqa: B023
            return [rows[index] for index in order], [labels[index] for index in order]  # noqa: B023

        def catch_probabilities(rows: Any, labels: Any, M: int) -> list[float]:
            """Keep the calibrated rows, in the place of computing their calibration error."""
            caught.append(rows)  # noqa: B023
            return [0.0]

        authors = functions(
            folder / "LinC" / "run_classification.py",
            Variable=torch.autograd.Variable,
            random_sampling=lambda *_: ([], []),
            get_model_response=lambda *_: ([], rows),  # noqa: B023
            shuffle=shuffled,
            entropy=lambda *_, **__: 0.0,
            expected_calibration_error=catch_probabilities,
        )
        prior = content_free.mean(0)
        authors.eval_accuracy(
            tests, [0] * test_count, [], [], [], labels, {"num_shots": 4}, rate, epochs, 0, "diagonal_W", prior
        )
        names = labels_of(n_labels)
        state = linear_calibration.learn(content_free.tolist(), rows.tolist(), labels, names, rate, epochs)
        ours = linear_calibration.apply(state, tests.tolist(), names)
        yield from zip(caught[0], ours, strict=True)


def nearest_anchors(folder: Path, random: Any, cases: int) -> Pairs:
    """Labels by the votes of the nearest distributions."""
    functional = {"F": torch.nn.functional}
    store_of = functions(folder / "KNNPrompting" / "utils" / "anchor.py", **functional).AnchorStore
    for _ in range(cases // 10):
        width, count, size, neighbours = int(random.integers(2, 6)), 24, 50, int(random.integers(2, 8))
        anchors, queries = (torch.tensor(random.normal(0, 2, (number, size))) for number in (count, 10))
        labels = random.integers(0, width, count).tolist()
        store = store_of(K=count, dim=size, knn=neighbours, n_class=width).double()
        for anchor, label in zip(anchors, labels, strict=True):
            store.enqueue(anchor.softmax(-1)[None], torch.tensor([label]))
        state = knn_prompt.learn(anchors.numpy(), labels, neighbours)
        rows = knn_prompt.apply(state, queries.numpy(), labels_of(width))
        for query, row in zip(queries, rows, strict=True):
            yield store.knn_infer(query.softmax(-1)[None])[0], row.index(max(row))


def nearest_centroid(folder: Path, random: Any, cases: int) -> Pairs:
    """Labels by the nearest centroid of hidden states (the name of the authors' list says cosine; it is Euclidean)."""
    notebook = json.loads((folder / "Hidden_Calibration" / "Experiments" / "Exp1_Main_result.ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    (training,) = (cell for cell in cells if "## Divide the collected" in cell)
    (predicting,) = (cell for cell in cells if "## Predicting by Hidden Calibration" in cell)
    code = [
        training[training.index("## Divide the collected") :],
        predicting[predicting.index("## Predicting by Hidden Calibration") :],
    ]
    for _ in range(cases // 10):
        width, size = int(random.integers(2, 6)), 16
        states, queries = random.normal(size=(8 * width, size)), random.normal(size=(10, size))
        labels = [number % width for number in range(8 * width)]
        space: dict[str, Any] = {
            "np": numpy,
            "spatial": spatial,
            "train_data": SimpleNamespace(label_space=labels_of(width)),
            "ground_truth_labels_for_calibration_samples": labels,
            "observed_full_vocabulary_probabilities": states,
            "observed_last_hidden_state": states,
            "inference_last_hidden_state": queries,
            "predicted_by_hidden_calibration_cosine": [],
            "predicted_by_hidden_calibration_L2": [],
        }
        for part in code:
            exec(part, space)
        state = hidden_calibration.learn(states, labels, labels_of(width))
        rows = hidden_calibration.apply(state, queries, labels_of(width))
        yield from zip(
            space["predicted_by_hidden_calibration_cosine"], (row.index(max(row)) for row in rows), strict=True
        )


def batches(folder: Path, random: Any, cases: int) -> Pairs:
    """Labels after the subtraction of the mean of a batch (variant 0.1.1; of StaICC's authors)."""
    authors = functions(folder / "Hidden_Calibration" / "util" / "calibrations.py")
    rows = random.dirichlet(numpy.full(4, 0.5), cases).tolist()
    ours = released.batch_calibration(rows, 32)
    yield from zip(authors.batch_calibration_for_result(rows, 32), (row.index(max(row)) for row in ours), strict=True)


def surest(folder: Path, random: Any, cases: int) -> Pairs:
    """The order of the lowest entropy."""
    authors = functions(folder / "self-adaptive-ICL" / "src" / "utils" / "calculate.py")
    for _ in range(cases):
        rows = random.dirichlet(numpy.full(int(random.integers(2, 8)), 0.5), 10)
        yield authors.entropy(rows.T).argmin(), lowest_entropy(rows.tolist())


def votes(folder: Path, random: Any, cases: int) -> Pairs:
    """Representatives by fast vote-k, of vectors of length 1."""
    authors = functions(
        folder / "icl-selective-annotation" / "two_steps.py",
        defaultdict=defaultdict,
        cosine_similarity=lambda rows, row: rows @ row.T,
        tqdm=lambda *_, **__: SimpleNamespace(update=lambda _: None),
    )
    for _ in range(cases // 20):
        vectors = random.normal(size=(200, 8))
        vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
        between = spatial.distance.cdist(vectors, vectors)
        yield authors.fast_votek(vectors, 10, 150), representatives(between, 10)


CHECKS: dict[str, tuple[str, Callable[[Path, Any, int], Pairs]]] = {
    "Contextual calibration": ("tonyzhaozh/few-shot-learning", contextual),
    "Linear calibration": ("mominabbass/LinC", linear),
    "k-NN prompting": ("BenfengXu/KNNPrompting", nearest_anchors),
    "Hidden calibration": ("hc495/Hidden_Calibration", nearest_centroid),
    "Batch calibration, 0.1.1": ("hc495/Hidden_Calibration", batches),
    "SA-ICL": ("Shark-NLP/self-adaptive-ICL", surest),
    "Fast vote-k": ("HKUNLP/icl-selective-annotation", votes),
}


if __name__ == "__main__":
    options = arguments(__doc__, {"--folder": Path("authors"), "--cases": 200})
    rows, figures = [], {}
    for title, (repository, check) in CHECKS.items():
        pairs = list(check(options.folder, numpy.random.default_rng(0), options.cases))
        differences = [float(numpy.abs(numpy.subtract(authors, ours)).max()) for authors, ours in pairs]
        equal = sum(difference <= 1e-5 for difference in differences)
        largest = max(differences) if title == "Linear calibration" else None  # the others compare labels and lists
        rows.append([title, repository, len(pairs), equal, "" if largest is None else f"{largest:.1e}"])
        figures[title] = [len(pairs), equal]
    print(markdown(["method", "repository", "cases", "equal", "largest difference of probabilities"], rows))
    record(__file__, figures, {**vars(options), "folder": "FOLDER"})
