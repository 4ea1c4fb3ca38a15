"""What the site's search knows of a page apart from its text: its weight, and the words that readers look for.

A search lists the pages first whose keywords it has. A page has as keywords what it is about, also in words that it
does not use itself: synonyms, other spellings, names of tools. The search completes words, so "quantis" finds
"quantisation" but not the other way round: a keyword is the longest form of its word.
"""

from __future__ import annotations

__all__ = ["KEYWORDS", "boost", "keywords"]

INTERNALS = ("api/", "changelog.md", "contributing.md", "architecture.md")
"""Readers look for guides, and for internals by their names."""

PROGRAMS = ("examples/", "data_sets/")
"""Generated pages, which have the words of the guides."""

KEYWORDS = {
    "index.md": "installation pip quickstart getting started tutorials introduction overview licence license",
    "faq.md": "citation bibtex privacy telemetry api key languages multilingual translation killed run unparsed",
    "which_harness.md": "lm evaluation harness lm_eval staicc helm openicl inspect_ai alternatives difference "
    "opencompass",
    "concepts.md": "glossary terms definitions vocabulary meaning provenance signature few shot zero k-shot "
    "demonstrations in-context examples verbalizer templates splits experimentor",
    "gallery.md": "gallery pictures screenshots plots charts graphs visualisation visualization",
    "kernels.md": "kernels gguf ggml llama.cpp ollama quantization quantisation 4-bit 8-bit int4 int8 "
    "bitsandbytes dtype float16 bfloat16 peft lora adapters finetuned fine-tuned huggingface "
    "transformers vllm sglang openai anthropic claude gemini litellm compatible api servers "
    "hosted endpoints served http requests timeouts retries rate limits chat templates system "
    "prompts reasoning thinking generated replies generation tokenizer inference functions "
    "quantized quantised checkpoints fp16 bf16 urls localhost concurrency local",
    "run_files.md": "toml yaml configuration configs settings sweeps grids hyperparameters",
    "benchmarks.md": "benchmarks normal gler contextual domain posterior bias template demonstration "
    "sensitivity sensitive wording robustness label noise generalisation generalization "
    "changed prompts",
    "long_icl.md": "longicl contexts many labels helmet needle position lost in the middle",
    "metrics.md": "metrics scores accuracy likelihood f1 ece brier nll log-loss auroc calibration errors "
    "probabilities logits undefined none nan majority random baselines chance confidence "
    "intervals bootstrap imbalanced robustness roc",
    "methods.md": "methods inference contextual domain batch calibration calibrated knn prompting topk "
    "noisy channel dc-pmi prototypical ppl-icl sa-icl self-icl self-consistency retrieval "
    "task vectors many-shot shapley ensembles temperature scaling hidden states similarity "
    "choose demonstrations",
    "warnings.md": "warnings leaked leakage contamination duplicates duplicated truncated unreliable "
    "suspicious diagnostics checks",
    "durable_runs.md": "resume resuming continue interrupted killed crashed crashes restart cached caching store "
    "stored sqlite executors several gpus parallel multiprocessing distributed cluster dask "
    "slurm ray progress bars tqdm costs price money budget dollars tokens failures "
    "checkpointing clusters",
    "early_stopping.md": "early stopping stopped sequential anytime race fewer rows subset",
    "reports.md": "reports html leaderboards latex tables export wandb weights biases mlflow trackio "
    "experiment trackers pandas dataframes figures matplotlib hub every eval ever tensorboard",
    "comparing.md": "comparing comparisons compared two write paper paragraph significance significantly "
    "paired tests p-values holm bonferroni multiple corrections equivalence equivalent non- "
    "inferiority margins ranks ranking untested mcnemar plan power sample size variance "
    "components worse better clustered noninferiority",
    "lm_eval_runs.md": "lm_eval samples log_samples",
    "logs.md": "logs inspect_ai helm other harnesses imported jsonl read",
    "published_figures.md": "papers published original reproduce reproduction replication",
    "verifying.md": "verifying verification genuine authentic trusted tampered forged checksums digests "
    "recomputed audits tampering forgery",
    "result_file.md": "result file json schema fields format keys digests",
    "data_sets.md": "data sets datasets licences licenses sources sst2 trec agnews download installed",
    "extending.md": "extending extensions plugins plug-ins entry points registered custom own",
    "adding_a_data_set.md": "adding own custom data sets datasets csv tsv jsonl excel parquet columns texts rows "
    "import spreadsheets",
    "adding_a_method.md": "adding own custom methods new selector retriever layers steering",
    "adding_a_benchmark.md": "adding own custom benchmarks new tasks",
    "adding_a_metric.md": "adding own custom metrics new",
    "error_rates.md": "coverage simulations simulated power type i errors false positives reviewers statisticians",
    "mixed_models.md": "mixed glmm lme4 statsmodels irt item response theory rasch random effects",
    "performance.md": "performance long takes speed fast faster slow time seconds minutes hours duration memory "
    "ram vram throughput benchmarked h200 amx",
    "migration.md": "migration migrating moving version 0.1.1 upgrade upgrading update old breaking changes "
    "changed backwards compatibility release interface",
    "systems.md": "python versions supported windows macos linux operating systems platforms requirements arm",
}
"""Keywords of the pages of the navigation that are no internals."""


def boost(place: str) -> float:
    """Return the weight of a page in the site's search.

    Args:
        place: Place of the page in the docs folder.
    """
    if place.startswith(INTERNALS):
        return 0.0002
    if place.startswith(PROGRAMS):
        return 0.3
    return 1.0


def keywords(place: str) -> list[str]:
    """Return the words that readers look for on a page.

    Args:
        place: Place of the page in the docs folder.
    """
    return KEYWORDS.get(place, "").split()
