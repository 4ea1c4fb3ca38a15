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
REFUSED: dict[str, tuple[type[Exception], str]] = {
    "llama:x/y": (ArgumentError, "hf:x/y"),
    "llama:": (ArgumentError, "needs a model"),
    "llama:none.gguf": (ArgumentError, "no GGUF file"),
    "llama:smollm2;label_scoring=all": (ArgumentError, r"\bfull\b"),
    "llama:smollm2;compile=true": (UnknownNameError, "'compile'"),
    "llama:smollm2;n_gpu_layer=1": (UnknownNameError, "'n_gpu_layers'"),
    "llama:smollm2;system=Hello": (ArgumentError, "'chat'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_when_the_kernel_is_made(name: str) -> None:
    kind, said = REFUSED[name]
    with pytest.raises(kind, match=said):
        load_kernel(name)


def test_a_kernel_is_named_by_its_file_and_pickled_by_its_options() -> None:
    kernel = load_kernel("llama:smollm2;n_threads=1;label_scoring=full")
    copy = pickle.loads(pickle.dumps(kernel))
    assert (copy.display_name, copy.options, copy.engine_arguments) == (
        "llama:smollm2",
        kernel.options,
        {"n_threads": 1},
    )


@pytest.fixture(scope="module")
def files(
    need: Callable[[Iterable[str], str], None], smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """SmolLM2 in four bits, and in float32 with the same weights."""
    need(("llama_cpp",), "the engine llama.cpp")
    import gguf

    target = tmp_path_factory.mktemp("float32") / "model.gguf"
    reader, writer = gguf.GGUFReader(smollm2), gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return smollm2, target


@pytest.mark.parametrize("name", ["model", "model [Q4] *"])
def test_the_identity_of_a_model_in_several_files_is_of_the_bytes_of_all(name: str, tmp_path: Path) -> None:
    """Files of other models in the folder are no part of it, and the name may have any characters."""
    pytest.importorskip("llama_cpp")
    parts = [tmp_path / f"{name}-{number:05}-of-00003.gguf" for number in (1, 2, 3)]

    def digest(contents: str, others: str = "") -> str:
        for part, content in zip(parts, contents, strict=True):
            part.write_text(content, "utf-8")
        for number in (1, 2, 3):
            (tmp_path / f"{name}-other-{number:05}-of-00003.gguf").write_text(others, "utf-8")
            (tmp_path / f"{name}-{number:05}-of-00004.gguf").write_text(others, "utf-8")
        return identity_of(load_kernel(f"llama:{parts[0]}")).digest

    original = digest("abc")
    assert digest("abc", others="changed") == original
    changed = {digest(contents) for contents in ("xbc", "axc", "abx", "acb", "bac")}
    assert len({original, *changed}) == 6
    (tmp_path / "single.gguf").write_text("abc", "utf-8")
    single = load_kernel(f"llama:{tmp_path / 'single.gguf'}")
    before = identity_of(single).digest
    (tmp_path / "single.gguf").write_text("abx", "utf-8")
    assert identity_of(single).digest != before


def difference(rows: Any, others: Any) -> float:
    return max(abs(a - b) for row, other in zip(rows, others, strict=True) for a, b in zip(row, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["last", "first", "full"])
@pytest.mark.parametrize("more", [{}, {"last_blank": "label"}, {"prompt_format": "chat"}], ids=str)
def test_label_scores_equal_the_torch_kernel(files: Any, scoring: str, more: dict[str, str]) -> None:
    options = {"label_scoring": scoring, **more}
    torch = load_kernel("smollm2", dtype="float32", **options)
    expected = torch.score(PROMPTS, LABELS)
    quantised, exact = load_kernel(f"llama:{files[0]}", **options), load_kernel(f"llama:{files[1]}", **options, **TYPES)
    found = exact.score(PROMPTS, LABELS)
    assert exact.format.encode(exact.rendered(PROMPTS)) == torch.format.encode(torch.rendered(PROMPTS))
    assert difference(found.probabilities, expected.probabilities) < 1e-3
    assert difference([found.label_mass], [expected.label_mass]) < 1e-3
    assert [issue.kind for issue in found.issues] == [issue.kind for issue in expected.issues]
    assert difference(quantised.batch(PROMPTS, LABELS), expected.probabilities) < 0.1
    assert difference([exact(PROMPTS[3], LABELS)], found.probabilities[3:4]) < 1e-4  # alone, after other prompts


@pytest.mark.slow
def test_text_channel_losses_and_forecast(files: Any) -> None:
    torch, kernel = load_kernel("smollm2", dtype="float32"), load_kernel(f"llama:{files[1]}", **TYPES)
    queries = [[f"label: {label} question: {prompt}" for label in LABELS] for prompt in PROMPTS[:2]]
    assert difference(kernel.batch(queries, LABELS), torch.batch(queries, LABELS)) < 1e-3
    assert kernel.losses(PROMPTS[:3]) == pytest.approx(torch.losses(PROMPTS[:3]), abs=1e-3)
    texts = kernel.generate(PROMPTS[:3], 8)
    assert texts == torch.generate(PROMPTS[:3], 8)
    assert [text.finish_reason for text in texts] == ["length"] * 3
    (line,) = kernel.generate(PROMPTS[:1], 40, ["\n"])
    assert (line, line.finish_reason) == (texts[0].split("\n")[0], "stop")
    samples = [kernel.generate(PROMPTS[:2], 6, temperature=1.0, seed=seed) for seed in (1, 2, 1)]
    assert samples[0] == samples[2] != samples[1]
    work, read = kernel.forecast_prompts(PROMPTS, LABELS), kernel.tokens_used[0]
    kernel.batch(PROMPTS, LABELS)
    assert kernel.tokens_used[0] - read == work.tokens
    assert work.limit == 8192
    long = "It rains. " * 400 + PROMPTS[0]
    assert difference([kernel(long, LABELS)], [torch(long, LABELS)]) < 1e-3  # the context grows
    with pytest.raises(ArgumentError, match="8192"):
        kernel("It rains. " * 4000, LABELS)
    with pytest.raises(ArgumentError, match="without guided texts"):
        kernel.generate(PROMPTS[:1], choices=LABELS)


@pytest.mark.slow
def test_the_identity_is_of_the_bytes_the_options_and_the_version(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama_cpp = pytest.importorskip("llama_cpp")

    def digest(path: Path = files[0], **options: Any) -> str:
        identity = identity_of(load_kernel(f"llama:{path}", **options))
        assert not identity.unidentified
        return identity.digest

    first = digest()
    copy = tmp_path / "other.gguf"
    shutil.copy(files[0], copy)
    kernel = load_kernel(f"llama:{copy};n_threads=2")
    assert identity_of(kernel).digest == first == digest(use_mmap=False)
    kernel(PROMPTS[0], LABELS)
    assert identity_of(kernel).digest == first == digest()  # loading changes nothing
    others = [digest(files[1]), digest(type_k=0), digest(label_scoring="full"), digest(max_length=99)]
    monkeypatch.setattr(llama_cpp, "__version__", "0.0-test")
    assert len({first, digest(), *others}) == 6
    assert identity_of(load_kernel(f"llama:{files[0]}", lora_path=str(copy))).unidentified


@pytest.mark.slow
def test_a_run_with_a_store_and_replies(files: Any, tmp_path: Path) -> None:
    kernel, benchmark = load_kernel(f"llama:{files[0]}"), Normal(datasets=["mini"], limit=4, unparsed="excluded")
    first = benchmark(kernel, store=tmp_path / "run.sqlite")
    assert benchmark(load_kernel(f"llama:{files[0]}"), store=tmp_path / "run.sqlite") == first
    assert kernel.display_name == "llama:SmolLM2-135M-Instruct.Q4_1.gguf"
    replies = benchmark(text_inference(kernel, 3))
    assert any("of 8 replies" in text and "max_tokens=3" in text for text in replies.warnings), (
        f"got {replies.warnings}"
    )


MEMORY = r"""
import json, re, sys
from StaICC import Normal, load_kernel
benchmark = Normal(datasets=["TREC"], limit=8)
prompts = [str(query.prompt) for query in benchmark[0].all_queries()]
rows = load_kernel(sys.argv[1]).batch(prompts, benchmark[0].get_label_space())
peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]  # ru_maxrss begins with the parent's
print(json.dumps([int(peak), rows]))
"""


@pytest.mark.slow
@pytest.mark.pack
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc, which only Linux has")
def test_memory_and_labels_of_real_prompts(files: Any) -> None:
    (little, rows), (much, others) = (
        json.loads(subprocess.run([sys.executable, "-c", MEMORY, name], stdout=-1, check=True).stdout)
        for name in ("llama:smollm2", "smollm2;dtype=float32")
    )
    assert little < much / 4
    assert [row.index(max(row)) for row in rows] == [row.index(max(row)) for row in others]
    assert difference(rows, others) < 0.1


@pytest.mark.slow
def test_a_damaged_file_is_an_error_that_names_it(files: Any, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(files[0].read_bytes()[:100_000])
    with pytest.raises(StaICCError, match=r"cut\.gguf"):
        load_kernel(f"llama:{tmp_path / 'cut.gguf'}")(PROMPTS[0], LABELS)
