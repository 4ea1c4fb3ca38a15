"""What the site's search knows of a page apart from its text: its weight, and the words that readers look for.

A search lists the pages first whose keywords it has. A page has as keywords what it is about, also in words that it
does not use itself: synonyms, other spellings, names of tools. The search completes words, so "quantis" finds
"quantisation" but not the other way round: forms such as "resumed" and "resuming" are both listed. For the same reason
a keyword that begins with a common word is found by it: "notebook" would be found by each question with "not".
"""

from __future__ import annotations

__all__ = ["KEYWORDS", "boost", "keywords"]

INTERNALS = ("api/", "changelog.md", "contributing.md", "architecture.md")
"""Readers look for guides, and for internals by their names."""

PROGRAMS = ("examples/", "data_sets/")
"""Generated pages, which have the words of the guides."""

FOR_REVIEWERS = ("error_rates.md", "mixed_models.md", "gallery.md")
"""Pages that have the words of the guides, too, but not what a user needs first."""

FOR_SOME_READERS = ("adding_", "extending.md", "migration.md", "long_icl.md", "published_figures.md")
"""Guides that most readers do not look for."""

KEYWORDS = {
    "index.md": "installation installing installed uninstall pip clone git github checkout virtualenv conda "
    "quickstart getting started beginners tutorials introduction overview purpose about licence license "
    "licensed readme basic beginner hello",
    "faq.md": "questions help support troubleshooting problems issues bugs citation cited citing references "
    "bibtex privacy telemetry api key secret languages multilingual translation translated german chinese "
    "japanese french english killed run unparsed offline network internet firewall seeds deterministic "
    "determinism nondeterministic reproducible reproducibility gpu cuda device cpu batch oom dash subsets "
    "smoke debugging limit selectors part mine",
    "recipes.md": "recipes cookbook scikit-learn sklearn tf-idf tfidf classical classifiers supervised "
    "confusion matrix balanced per-label per-class clearing deleting cleaning renaming",
    "which_harness.md": "lm evaluation harness lm_eval eleutherai staicc helm openicl inspect_ai alternatives "
    "difference opencompass choosing frameworks libraries versus vs competitors similar instead advantages "
    "disadvantages strengths weaknesses competitor promptbench recommend suited",
    "concepts.md": "glossary terms terminology definitions dictionary vocabulary meaning abbreviations provenance "
    "signature identity fingerprints few shot fewshot zero zeroshot k-shot icl in-context learning "
    "demonstrations exemplars examples verbalizers verbaliser templates splits train validation experimentor "
    "label space explained explanation jargon nomenclature one-shot instruction",
    "gallery.md": "gallery pictures images screenshots plots plotted charts graphs visualisation visualization "
    "visualise visualize looks showcase illustrations demo scatter heatmaps curves",
    "kernels.md": "models kernels engines backends gguf ggml llama.cpp llamacpp ollama lmstudio quantization "
    "quantisation quantized quantised 4-bit 8-bit int4 int8 awq gptq bitsandbytes dtype precision half "
    "float16 fp16 bf16 bfloat16 peft lora qlora adapters finetuned fine-tuned finetuning fine-tuning "
    "checkpoints weights hugging face huggingface hub transformers vllm sglang tgi openai chatgpt anthropic "
    "claude gemini mistral llama qwen gemma deepseek phi litellm openrouter azure bedrock compatible api "
    "servers served hosted remote endpoints http https requests timeouts retries retrying rate limits limited "
    "connection refused chat templates system prompts instruct instructions conversation turns reasoning "
    "thinking cot chain-of-thought generated replies answers generation free-text sampling greedy decoding "
    "guided constrained structured parser parsing parsed tokenizer tokenization tokenisation tokeniser "
    "multi-token bos whitespace truncation context length too-long inference functions callable wrapper "
    "wrapping urls localhost port concurrency concurrent simultaneous local logprobs log-probabilities "
    "temperature noisy channel label mass scoring device load loading pytorch torch mps apple silicon "
    "offloading mixtral pythia olmo falcon authentication credentials bearer backoff regex accelerators "
    "connect connecting instance wrap unparsable sentences returns returned values streaming streamed mlx",
    "run_files.md": "toml yaml configuration configurations configured configs settings options arguments flags "
    "sweeps sweeping grids hyperparameters ablations presets batch-file repeat repeated experiments "
    "reproducibly parameters combinations",
    "benchmarks.md": "benchmarks suite normal gler contextual domain posterior empirical bias biased debias "
    "template demonstration sensitivity sensitive wording paraphrases order orders ordering robustness robust "
    "label noise noisy flipped wrong shuffled generalisation generalization generalise generalize triplet "
    "diagnosis changed prompts perturbations perturbed perturb ignores ignore consistency preference prefers "
    "fairness",
    "long_icl.md": "longiclbench contexts many labels hundreds helmet needle position lost middle haystack "
    "banking77 goemotions discovery tacred few-nerd dialogre documents passages fine-grained",
    "metrics.md": "metrics scores scored scoring accuracy accuracies balanced likelihood f1 macro micro ece brier "
    "nll log-loss logloss cross-entropy entropy divergence kullback leibler kl perplexity auroc auc aurc roc "
    "matthews mcc precision recall calibration miscalibration overconfident overconfidence errors "
    "probabilities logits softmax undefined missing none nan null formulas equations majority random guessing "
    "baselines chance confidence intervals bootstrap wilson standard deviation error bars uncertainty "
    "imbalanced imbalance robustness consistency selective sklearn scikit-learn well-calibrated good "
    "interpretation interpret percent percentages averages averaged loss proper correlation correlations",
    "methods.md": "methods inference strategies contextual domain batch calibration calibrated calibrating "
    "calibrate knn prompting topk nearest neighbours neighbors noisy channel dc-pmi pmi prototypical linear "
    "ppl-icl sa-icl self-icl self-consistency voting retrieval rag retrieved embeddings unlabelled unlabeled "
    "without labels task vectors many-shot shapley ensembles ensembling permutation temperature scaling "
    "hidden states layers similarity similar choose choosing demonstrations variants improve improves "
    "improving improvement boost algorithms techniques training-free samplers debias debiasing prior",
    "warnings.md": "warnings warned leaked leaks leakage contamination contaminated duplicates duplicated "
    "memorisation memorization truncated unreliable reliable suspicious diagnostics checks sanity alarms "
    "collapsed degenerate constant seen before overlap overlapping cheating trained pretraining spurious "
    "artefacts artifacts anomalies anomalous always predicts same",
    "durable_runs.md": "resume resumed resuming continue continues continued interrupted interruption killed "
    "crashed crashes restart restarted abort aborted reboot power recover recovery cached caching cache "
    "reused reuse store stored storage sqlite database executors several multiple gpus multi-gpu parallel "
    "parallelism parallelise parallelize multiprocessing processes workers threads distributed nodes clusters "
    "dask slurm sbatch hpc ray progress bars tqdm eta verbose quiet costs expensive cheap price pricing "
    "prices pays paid money budget dollars euros bill billing tokens estimate estimation forecast dry-run "
    "failures failed exceptions checkpointing jobs background spawn fork subprocesses reduce lost lose "
    "halfway failing fail disk laptop loses",
    "early_stopping.md": "early stopping stopped stops stop sequential anytime adaptive race racing fewer rows "
    "subset savings precision sooner interim peeking clearly shorten partial quicker part only",
    "reports.md": "html leaderboards papers latex tables export exporting exported wandb weights biases mlflow "
    "trackio neptune experiment trackers tracking logging pandas dataframes frames csv excel jupyter figures "
    "pdf svg png matplotlib hub cards upload uploading publish publishing share sharing every eval ever "
    "tensorboard saved saving dashboards markdown colleagues thesis article slides presentation manuscripts "
    "visualise web webpage website",
    "comparing.md": "comparing comparisons compared two pairwise write paper paragraph claims significance "
    "significant significantly paired unpaired tests testing hypothesis hypotheses p-values pvalues "
    "permutation t-test wilcoxon anova holm bonferroni multiple corrections corrected equivalence equivalent "
    "equal non-inferiority noninferiority tost margins ranks ranking ranked ties untested mcnemar plan "
    "planning power sample size effect variance components worse better superior beats winner best clusters "
    "dependent statistics statistical gain gains real luck lucky improvement percent statistically "
    "state-of-the-art friedman nemenyi bayesian sign",
    "lm_eval_runs.md": "lm_eval lm-eval harness samples log_samples compare two mmlu hellaswag arc",
    "logs.md": "logs inspect_ai inspect helm opencompass other harnesses imported importing import jsonl read "
    "reading convert converting converted conversion samples external existing",
    "published_figures.md": "papers published original literature reproduce reproducing reproduction replication "
    "replicate replicating numbers different errata publication publications authors table mismatch differs "
    "article articles",
    "verifying.md": "verifying verified verification verify genuine authentic authenticity trusted trust "
    "trustworthy tampered tampering forged forgery fake faked manipulated edited cheating fraud integrity "
    "checksums hashes digests recomputed audits auditing validate validation prove proves proof proven "
    "honest altered modified alter",
    "result_file.md": "result results file json schema fields keys format structure digests saved contents",
    "data_sets.md": "data sets datasets corpora corpus permission permissions copyright commercial licences "
    "licenses licensed sources provenance sst2 trec agnews ag_news mr subj financial phrasebank hate speech "
    "tweet poem rte download downloading downloaded installed sentiment topic builtin built-in included "
    "available list mini tasks domains cover covered classes emotion intent news movie reviews",
    "extending.md": "extending extend extensions plugins plug-ins entry points entry-points register registered "
    "registering registry custom own package third-party pyproject share packages packaging distribute",
    "adding_a_data_set.md": "adding own custom private data sets datasets csv tsv json jsonl excel xlsx parquet "
    "gzip delimiter columns texts rows lines load loading import spreadsheets sentence pairs nli bring "
    "domain-specific company labelled annotated annotations",
    "adding_a_method.md": "adding own custom methods new write selector retriever calibration algorithm layers "
    "hidden activations steering generator yield implement implementing invent developing",
    "adding_a_benchmark.md": "adding own custom benchmarks new tasks write task subclass implement implementing",
    "adding_a_metric.md": "adding own custom metrics new define write scores scorer implement implementing",
    "error_rates.md": "coverage nominal simulations simulated simulation power type i ii errors false positives "
    "alpha validity conservative proofs derivations intervals reviewers statisticians construction monte "
    "carlo delta assumptions",
    "mixed_models.md": "mixed mixed-effects multilevel hierarchical glmm lmm lme4 statsmodels regression logistic "
    "irt item response theory rasch difficulty ability random effects anova reml psychometrics lmer "
    "multi-level",
    "performance.md": "performance long takes speed fast faster fastest quick slow slower slowly time timing "
    "seconds minutes hours duration latency memory ram vram gigabytes gib oom footprint peak hardware "
    "throughput benchmarked h200 nvidia amx amd intel xeon epyc avx cpu processor profiling accelerate "
    "acceleration optimisation optimization optimised optimized efficient efficiency quickly big large "
    "requirements",
    "migration.md": "migration migrating migrate moving move version 0.1.1 upgrade upgrading upgraded update "
    "updating old legacy deprecated deprecation removed renamed breaking changes changed backwards backward "
    "compatibility release interface importerror broke broken porting transition",
    "systems.md": "python versions supported interpreter windows wsl macos mac linux ubuntu debian fedora "
    "operating os systems platforms requirements dependencies arm aarch64 pyodide wasm browser colab "
    "compatible compatibility apple docker",
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
    if place.startswith(FOR_REVIEWERS):
        return 0.4
    if place.startswith(FOR_SOME_READERS):
        return 0.6
    return 1.0


def keywords(place: str) -> list[str]:
    """Return the words that readers look for on a page.

    Args:
        place: Place of the page in the docs folder.
    """
    return KEYWORDS.get(place, "").split()
