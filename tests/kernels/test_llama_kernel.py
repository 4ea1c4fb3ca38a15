"""The kernel on llama.cpp: options and names; and, where llama-cpp-python is installed, the engine itself."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError, StaICCError, UnknownNameError
from StaICC.inference.identity import identity_of
from StaICC.kernels.text_inference import text_inference

LABELS = ["description", "entity", "human being", "location"]
PROMPTS = [
    f"question: Who wrote {n} books? label: human being\nquestion: What is the city number {n % 3}? label: "
    for n in range(8)
]
TYPES = {"type_k": 0, "type_v": 0}  # the cache in float32, as in torch


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llama:x/y", "hf:x/y"),
        ("llama:", "needs a model"),
        ("llama:none.gguf", "no GGUF file"),
        ("llama:smollm2;label_scoring=all", r"\bfull\b"),
        ("llama:smollm2;system=Hello", "'chat'"),
    ],
)
def test_a_name_that_makes_no_kernel_is_refused_with_a_remedy(name: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        load_kernel(name)


@pytest.mark.parametrize(
    ("name", "option"),
    [("llama:smollm2;compile=true", "'compile'"), ("llama:smollm2;n_gpu_layer=1", "'n_gpu_layers'")],
)
def test_an_unknown_option_is_refused(name: str, option: str) -> None:
    """``compile`` is an option of other kernels; for ``n_gpu_layer``, the message has the option that was meant."""
    with pytest.raises(UnknownNameError, match=option):
        load_kernel(name)


def test_a_kernel_is_named_by_its_file_and_pickled_by_its_options() -> None:
    kernel = load_kernel("llama:smollm2;n_threads=1;label_scoring=full")
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy.display_name == "llama:smollm2"
    assert copy.options == kernel.options
    assert copy.engine_arguments == {"n_threads": 1}


@pytest.fixture(scope="module")
def quantised_file(need: Callable[[Iterable[str], str], None], smollm2: Path) -> Path:
    """Return the file of SmolLM2 in four bits."""
    need(("llama_cpp",), "the engine llama.cpp")
    return smollm2


@pytest.fixture(scope="module")
def float_file(quantised_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same weights in float32 to a file, and return it."""
    import gguf

    target = tmp_path_factory.mktemp("float32") / "model.gguf"
    reader, writer = gguf.GGUFReader(quantised_file), gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def digest_of_file(path: Path) -> str:
    """Return the digest of the identity of the kernel with a model's file."""
    return identity_of(load_kernel(f"llama:{path}")).digest


def test_the_identity_of_a_model_is_of_the_bytes_of_its_file(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    path = tmp_path / "single.gguf"
    path.write_text("abc")
    before = digest_of_file(path)
    path.write_text("abx")
    assert digest_of_file(path) != before


def test_a_kernel_that_is_not_loaded_yet_has_the_identity_of_its_changed_file(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    path = tmp_path / "single.gguf"
    path.write_text("abc")
    kernel = load_kernel(f"llama:{path}")
    before = identity_of(kernel).digest

    path.write_text("abx")

    assert identity_of(kernel).digest != before


@pytest.fixture(params=["model", "model [Q4] *"])
def files_of_a_model(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """Return the three files of a model, with the contents "a", "b" and "c"; its name may have any characters."""
    pytest.importorskip("llama_cpp")
    paths = [tmp_path / f"{request.param}-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for path, content in zip(paths, "abc", strict=True):
        path.write_text(content)
    return paths


@pytest.mark.parametrize("contents", ["xbc", "axc", "abx", "acb", "bac"])
def test_the_identity_of_a_model_in_several_files_is_of_the_bytes_of_all(
    files_of_a_model: list[Path], contents: str
) -> None:
    """Another content of one of the files, or two contents exchanged, is another model."""
    before = digest_of_file(files_of_a_model[0])
    for path, content in zip(files_of_a_model, contents, strict=True):
        path.write_text(content)
    assert digest_of_file(files_of_a_model[0]) != before


def test_models_of_several_files_whose_contents_differ_are_different_models(files_of_a_model: list[Path]) -> None:
    digests = []
    for contents in ("abc", "xbc", "axc", "abx", "acb", "bac"):
        for path, content in zip(files_of_a_model, contents, strict=True):
            path.write_text(content)
        digests.append(digest_of_file(files_of_a_model[0]))

    assert len(set(digests)) == 6


@pytest.mark.parametrize("name", ["{model}-other-00001-of-00003.gguf", "{model}-00001-of-00004.gguf"])
def test_files_of_other_models_in_the_folder_do_not_change_the_identity(
    files_of_a_model: list[Path], name: str
) -> None:
    first = files_of_a_model[0]
    before = digest_of_file(first)
    model = first.name.removesuffix("-00001-of-00003.gguf")
    (first.parent / name.format(model=model)).write_text("x")
    assert digest_of_file(first) == before


def difference(rows: Any, other_rows: Any) -> float:
    """Return the largest absolute difference between the numbers of two tables with the same rows and columns."""
    differences = []
    for row, other_row in zip(rows, other_rows, strict=True):
        for value, other_value in zip(row, other_row, strict=True):
            differences.append(abs(value - other_value))
    return max(differences)


SCORING_OPTIONS = [
    pytest.param({"label_scoring": scoring, **more}, id=f"{scoring} {' '.join(more)}")
    for scoring in ("last", "first", "full")
    for more in ({}, {"last_blank": "label"}, {"prompt_format": "chat"})
]


@pytest.mark.slow
@pytest.mark.parametrize("options", SCORING_OPTIONS)
def test_label_scores_equal_those_of_the_torch_kernel(float_file: Path, options: dict[str, str]) -> None:
    """With the same weights in float32; so do the tokens of the prompts, the label mass, and the issues."""
    kernel = load_kernel(f"llama:{float_file}", **options, **TYPES)
    torch_kernel = load_kernel("smollm2", dtype="float32", **options)
    found, expected = kernel.score(PROMPTS, LABELS), torch_kernel.score(PROMPTS, LABELS)
    assert difference(found.probabilities, expected.probabilities) < 1e-3
    assert difference([found.label_mass], [expected.label_mass]) < 1e-3
    assert [issue.kind for issue in found.issues] == [issue.kind for issue in expected.issues]
    tokens = kernel.format.encode(kernel.rendered(PROMPTS))
    assert tokens == torch_kernel.format.encode(torch_kernel.rendered(PROMPTS))


@pytest.mark.slow
@pytest.mark.parametrize("options", SCORING_OPTIONS)
def test_label_scores_of_quantised_weights_are_near_those_of_the_torch_kernel(
    quantised_file: Path, options: dict[str, str]
) -> None:
    """They differ by how llama.cpp rounds the inputs of products with such weights, which depends on the processor.

    The largest difference was 0.07 on one processor and 0.11 on another. Scores of the wrong labels (each moved by one)
    differ by 0.6 or more.
    """
    kernel = load_kernel(f"llama:{quantised_file}", **options)
    torch_kernel = load_kernel("smollm2", dtype="float32", **options)
    assert difference(kernel.batch(PROMPTS, LABELS), torch_kernel.batch(PROMPTS, LABELS)) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("options", SCORING_OPTIONS)
def test_label_scores_do_not_depend_on_the_other_prompts(float_file: Path, options: dict[str, str]) -> None:
    """A prompt alone gets the scores that it gets among others."""
    kernel = load_kernel(f"llama:{float_file}", **options, **TYPES)
    rows = kernel.batch(PROMPTS, LABELS)
    assert difference([kernel(PROMPTS[3], LABELS)], [rows[3]]) < 1e-4


@pytest.fixture(scope="module")
def kernels(float_file: Path) -> tuple[Any, Any]:
    """Return the kernel on llama.cpp and the torch kernel, with the same weights in float32."""
    return load_kernel(f"llama:{float_file}", **TYPES), load_kernel("smollm2", dtype="float32")


@pytest.mark.slow
def test_noisy_channel_scores_and_losses_equal_those_of_the_torch_kernel(kernels: tuple[Any, Any]) -> None:
    kernel, torch_kernel = kernels
    queries = [[f"label: {label} question: {prompt}" for label in LABELS] for prompt in PROMPTS[:2]]
    assert difference(kernel.batch(queries, LABELS), torch_kernel.batch(queries, LABELS)) < 1e-3
    assert kernel.losses(PROMPTS[:3]) == pytest.approx(torch_kernel.losses(PROMPTS[:3]), abs=1e-3)


@pytest.mark.slow
def test_texts_equal_those_of_the_torch_kernel(kernels: tuple[Any, Any]) -> None:
    kernel, torch_kernel = kernels
    texts = kernel.generate(PROMPTS[:3], 8)
    assert texts == torch_kernel.generate(PROMPTS[:3], 8)
    assert [text.finish_reason for text in texts] == ["length", "length", "length"]


@pytest.mark.slow
def test_a_text_ends_at_a_stop_string(kernels: tuple[Any, Any]) -> None:
    kernel, _ = kernels
    (eight_tokens,) = kernel.generate(PROMPTS[:1], 8)
    (line,) = kernel.generate(PROMPTS[:1], 40, ["\n"])
    assert line == eight_tokens.split("\n")[0]
    assert line.finish_reason == "stop"


@pytest.mark.slow
def test_samples_follow_the_seed(kernels: tuple[Any, Any]) -> None:
    kernel, _ = kernels
    samples = kernel.generate(PROMPTS[:2], 6, temperature=1.0, seed=1)
    assert kernel.generate(PROMPTS[:2], 6, temperature=1.0, seed=2) != samples
    assert kernel.generate(PROMPTS[:2], 6, temperature=1.0, seed=1) == samples


@pytest.mark.slow
def test_a_forecast_has_the_tokens_that_are_read(kernels: tuple[Any, Any]) -> None:
    kernel, _ = kernels
    forecast = kernel.forecast_prompts(PROMPTS, LABELS)
    tokens_before = kernel.tokens_used[0]
    kernel.batch(PROMPTS, LABELS)
    assert forecast.tokens == kernel.tokens_used[0] - tokens_before
    assert forecast.limit == 8192


@pytest.mark.slow
def test_the_context_grows_for_a_long_prompt(kernels: tuple[Any, Any]) -> None:
    kernel, torch_kernel = kernels
    long_prompt = "It rains. " * 400 + PROMPTS[0]
    assert difference([kernel(long_prompt, LABELS)], [torch_kernel(long_prompt, LABELS)]) < 1e-3


@pytest.mark.slow
def test_a_prompt_that_is_longer_than_the_context_of_the_model_is_refused(kernels: tuple[Any, Any]) -> None:
    kernel, _ = kernels
    with pytest.raises(ArgumentError, match="8192"):
        kernel("It rains. " * 4000, LABELS)


@pytest.mark.slow
def test_guided_texts_are_refused(kernels: tuple[Any, Any]) -> None:
    kernel, _ = kernels
    with pytest.raises(ArgumentError, match="without guided texts"):
        kernel.generate(PROMPTS[:1], choices=LABELS)


def identified_digest(path: Path, **options: Any) -> str:
    """Return the digest of the identity of the kernel with these options, which must be complete."""
    identity = identity_of(load_kernel(f"llama:{path}", **options))
    assert not identity.unidentified
    return identity.digest


@pytest.mark.slow
def test_the_identity_depends_neither_on_the_name_of_the_file_nor_on_options_of_speed(
    quantised_file: Path, tmp_path: Path
) -> None:
    shutil.copy(quantised_file, tmp_path / "other.gguf")
    digest = identified_digest(quantised_file)
    assert identified_digest(tmp_path / "other.gguf", n_threads=2) == digest
    assert identified_digest(quantised_file, use_mmap=False) == digest


@pytest.mark.slow
def test_loading_the_model_does_not_change_the_identity(quantised_file: Path) -> None:
    kernel = load_kernel(f"llama:{quantised_file}")
    before = identity_of(kernel).digest
    kernel(PROMPTS[0], LABELS)
    assert identity_of(kernel).digest == before
    assert identified_digest(quantised_file) == before


@pytest.mark.slow
def test_the_identity_follows_the_weights_the_options_and_the_version(
    quantised_file: Path, float_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {
        identified_digest(quantised_file),
        identified_digest(float_file),
        identified_digest(quantised_file, type_k=0),
        identified_digest(quantised_file, label_scoring="full"),
        identified_digest(quantised_file, max_length=99),
    }
    monkeypatch.setattr("llama_cpp.__version__", "0.0-test")
    digests.add(identified_digest(quantised_file))
    assert len(digests) == 6


@pytest.mark.slow
def test_a_kernel_with_a_lora_file_is_unidentified(quantised_file: Path) -> None:
    kernel = load_kernel(f"llama:{quantised_file}", lora_path=str(quantised_file))
    assert identity_of(kernel).unidentified


@pytest.mark.slow
def test_a_run_with_a_store_is_repeated_by_another_kernel_of_the_file(quantised_file: Path, tmp_path: Path) -> None:
    benchmark, store = Normal(datasets=["mini"], limit=4), tmp_path / "run.sqlite"
    kernel = load_kernel(f"llama:{quantised_file}")
    assert kernel.display_name == "llama:SmolLM2-135M-Instruct.Q4_1.gguf"
    result = benchmark(kernel, store=store)
    assert benchmark(load_kernel(f"llama:{quantised_file}"), store=store) == result


@pytest.mark.slow
def test_a_run_warns_of_replies_that_are_cut_off(quantised_file: Path) -> None:
    """Of three tokens, which are too few for most labels."""
    kernel = load_kernel(f"llama:{quantised_file}")
    result = Normal(datasets=["mini"], limit=4, unparsed="excluded")(text_inference(kernel, 3))
    warnings = "\n".join(result.warnings)
    assert "of 8 replies" in warnings
    assert "max_tokens=3" in warnings


MEMORY = r"""
import json, re, sys
from StaICC import Normal, load_kernel
benchmark = Normal(datasets=["TREC"], limit=8)
prompts = [str(query.prompt) for query in benchmark[0].all_queries()]
rows = load_kernel(sys.argv[1]).batch(prompts, benchmark[0].get_label_space())
peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]  # ru_maxrss begins with the parent's
print(json.dumps([int(peak), rows]))
"""


def memory_and_scores(name: str) -> tuple[int, list[list[float]]]:
    """Return the most memory (kB) of a process that scores the prompts of ``MEMORY`` with a kernel, and the scores."""
    done = subprocess.run([sys.executable, "-c", MEMORY, name], stdout=subprocess.PIPE, check=True)
    memory, scores = json.loads(done.stdout)
    return memory, scores


@pytest.mark.slow
@pytest.mark.pack
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc, which only Linux has")
def test_a_quantised_model_predicts_the_same_labels_in_a_quarter_of_the_memory(quantised_file: Path) -> None:
    memory, scores = memory_and_scores("llama:smollm2")
    torch_memory, torch_scores = memory_and_scores("smollm2;dtype=float32")
    assert memory < torch_memory / 4
    assert [row.index(max(row)) for row in scores] == [row.index(max(row)) for row in torch_scores]
    assert difference(scores, torch_scores) < 0.1


@pytest.mark.slow
def test_a_damaged_file_is_an_error_that_names_it(quantised_file: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(quantised_file.read_bytes()[:100_000])
    with pytest.raises(StaICCError, match=r"cut\.gguf"):
        load_kernel(f"llama:{tmp_path / 'cut.gguf'}")(PROMPTS[0], LABELS)
