"""What the site's search knows of a page apart from its text: its weight, and the words that readers look for.

A page has as keywords what it is about, also in words that it does not use itself: synonyms, other spellings, names
of tools. They weigh most in ``docs/assets/search.js``. It cuts endings, so one form of a word is enough. Words that are
in questions about anything, such as "change" or "good", are no keywords.
"""

from __future__ import annotations

__all__ = ["KEYWORDS", "boost", "keywords"]

INTERNALS = ("api/", "changelog.md", "contributing.md", "architecture.md")
"""Readers look for guides, and for internals by their names."""

PROGRAMS = ("examples/", "data_sets/")
"""Generated pages, which have the words of the guides."""

KEYWORDS = {
    "index.md": "installation installing installed uninstall pip clone git github checkout virtualenv conda "
    "quickstart getting started beginners tutorials introduction overview purpose licensed readme "
    "basic beginner hello install setup example snippet venv start simple command license licence",
    "faq.md": "questions help troubleshooting problems issues bugs citation cited citing references bibtex "
    "privacy telemetry api secret languages multilingual translation translated german chinese "
    "japanese french english killed unparsed offline network internet firewall seeds "
    "deterministic determinism nondeterministic reproducible reproducibility gpu cuda device cpu "
    "batch oom subsets smoke debugging selectors shots number seed random wrong predictions "
    "mistakes mispredicted confusion faq cite chance-level baseline language prompt reproduce "
    "repeatable variance-between-runs api-key batch-size out-of-memory individual per-example "
    "access stdin troubleshoot hang stuck freezes",
    "which_harness.md": "evaluation harness lm_eval eleutherai staicc helm openicl inspect_ai alternatives "
    "opencompass choosing frameworks libraries versus vs competitors similar instead advantages "
    "disadvantages strengths weaknesses competitor promptbench recommend suited deepeval "
    "promptfoo lighteval evals simple-evals big-bench features comparison-of-tools",
    "concepts.md": "glossary terms terminology definitions dictionary vocabulary meaning abbreviations "
    "provenance signature identity fingerprints few shot fewshot zero zeroshot k-shot icl "
    "in-context learning demonstrations exemplars examples verbalizers verbaliser templates "
    "splits validation experimentor space explained explanation jargon nomenclature one-shot "
    "default shots number example few-shot zero-shot demonstration kernel query prompt what-is "
    "architecture-overview sampled sampling drawn",
    "gallery.md": "gallery pictures images screenshots plots plotted charts graphs visualisation visualization "
    "visualise visualize looks showcase illustrations demo scatter heatmaps curves picture image "
    "plot chart screenshot confusion-matrix",
    "kernels.md": "models kernels engines backends gguf ggml llama.cpp llamacpp ollama lmstudio quantization "
    "quantisation quantized quantised 4-bit 8-bit int4 int8 awq gptq bitsandbytes dtype float16 "
    "fp16 bf16 bfloat16 peft lora qlora adapters finetuned fine-tuned finetuning fine-tuning "
    "checkpoints weights hugging face huggingface hub transformers vllm sglang tgi openai chatgpt "
    "anthropic claude gemini mistral llama qwen gemma deepseek phi litellm openrouter azure "
    "bedrock compatible api servers served hosted remote endpoints http https requests timeouts "
    "retries retrying rate limits limited refused chat templates system prompts instruct "
    "instructions conversation turns reasoning thinking cot chain-of-thought generated replies "
    "answers generation free-text sampling greedy decoding guided constrained structured parser "
    "parsing parsed tokenizer tokenization tokenisation tokeniser multi-token bos whitespace "
    "truncation length too-long inference functions callable wrapper wrapping urls localhost "
    "concurrency concurrent simultaneous local logprobs log-probabilities temperature noisy "
    "channel label mass scoring device load loading pytorch torch mps apple silicon offloading "
    "mixtral pythia olmo falcon authentication credentials bearer backoff regex accelerators "
    "connect connecting instance wrap unparsable returns returned streaming streamed mlx gpt "
    "gpt-4 gpt-4o o1 batching batched instruction-tuned base completions completion token url "
    "password proxy ssl certificate text-only whole-word max_tokens bos_token pad device_map "
    "multi-label 32-bit tensor-parallel nvfp4 exllama cohere groq together fireworks vertex "
    "kobold textgen context-window cut rate-limit throttle throttling blocked fine-tune finetune "
    "merge mergekit tokens-per-second sentence-transformers bert encoder classifier own",
    "run_files.md": "toml yaml configuration configurations configured configs settings options arguments flags "
    "sweeps sweeping grids hyperparameters ablations presets batch-file repeat repeated "
    "experiments reproducibly parameters combinations random seed seeds config file",
    "benchmarks.md": "benchmarks normal gler contextual posterior empirical bias biased debias template "
    "demonstration sensitivity sensitive wording paraphrases order orders ordering robustness "
    "robust label noise noisy flipped wrong shuffled generalisation generalization generalise "
    "generalize triplet diagnosis prompts perturbations perturbed perturb ignores ignore "
    "consistency prefers fairness noisy-labels label-bias label-noise majority-label recency "
    "copying copy last position order-sensitivity calibration-bias prompt-sensitivity brittleness "
    "fragile stability stable",
    "long_icl.md": "longiclbench contexts labels hundreds helmet needle position middle haystack banking77 "
    "goemotions discovery tacred few-nerd dialogre documents passages fine-grained long-context "
    "long-contexts hundred classes 100 many-class many-label extreme",
    "metrics.md": "metrics scores scored scoring accuracy accuracies balanced likelihood f1 macro micro ece "
    "brier nll log-loss logloss cross-entropy entropy divergence kullback leibler kl perplexity "
    "auroc auc aurc roc matthews mcc precision recall calibration miscalibration overconfident "
    "overconfidence probabilities logits softmax undefined none nan null formulas equations "
    "majority random guessing baselines chance confidence intervals bootstrap wilson standard "
    "deviation error bars uncertainty imbalanced imbalance robustness consistency selective "
    "sklearn scikit-learn well-calibrated interpretation interpret percent percentages averages "
    "averaged loss proper correlation correlations matrix specificity sensitivity jaccard top-k "
    "kappa hamming micro-f1 macro-f1 weighted f-score chance-level majority-class bracket "
    "brackets interval column columns predictions computed",
    "methods.md": "methods inference strategies contextual batch calibration calibrated calibrating calibrate "
    "knn prompting topk nearest neighbours neighbors noisy channel dc-pmi pmi prototypical linear "
    "ppl-icl sa-icl self-icl self-consistency voting retrieval rag retrieved embeddings "
    "unlabelled unlabeled task vectors many-shot shapley ensembles ensembling permutation "
    "temperature scaling hidden states layers similarity similar choose choosing demonstrations "
    "variants improve improves improving improvement boost algorithms techniques training-free "
    "samplers debias debiasing prior top-k top-k-selection bm25 sbert dense knn-icl kate default "
    "number shots",
    "warnings.md": "warnings warned leaked leaks leakage contamination contaminated duplicates duplicated "
    "memorisation memorization truncated unreliable reliable suspicious diagnostics sanity alarms "
    "collapsed degenerate constant overlap overlapping cheating trained pretraining spurious "
    "artefacts artifacts anomalies anomalous always predicts warning all-same one-label "
    "dataset-contamination chance",
    "durable_runs.md": "resume resumed resuming continue continues continued interrupted interruption killed crashed "
    "crashes restart restarted abort aborted reboot recover recovery cached caching cache reused "
    "reuse store stored storage sqlite database executors several multiple gpus multi-gpu "
    "parallel parallelism parallelise parallelize multiprocessing processes workers threads "
    "distributed nodes clusters dask slurm sbatch hpc ray progress bars tqdm eta verbose quiet "
    "costs expensive cheap price pricing prices pays paid money budget dollars euros bill billing "
    "tokens estimate estimation forecast dry-run failures failed exceptions checkpointing jobs "
    "background spawn fork subprocesses reduce lost lose halfway failing fail disk laptop loses "
    "several-gpus network connection breaks lost-connection remote machine job array queue ssh "
    "tmux nohup resumable",
    "early_stopping.md": "early stopping stopped stops stop sequential anytime adaptive race racing fewer rows subset "
    "savings precision sooner interim peeking clearly shorten partial quicker save time examples",
    "reports.md": "html leaderboards papers latex tables export exporting exported wandb weights biases mlflow "
    "trackio neptune trackers tracking logging pandas dataframes frames csv excel jupyter figures "
    "pdf svg png matplotlib hub cards upload uploading publish publishing share sharing eval "
    "tensorboard saved dashboards markdown colleagues thesis article slides presentation "
    "manuscripts visualise web webpage website merge combine several model-card huggingface-hub "
    "table columns wrong predictions",
    "comparing.md": "comparing comparisons compared two pairwise paragraph claims significance significant "
    "significantly paired unpaired tests testing hypothesis hypotheses p-values pvalues "
    "permutation t-test wilcoxon anova holm bonferroni multiple corrections corrected equivalence "
    "equivalent equal non-inferiority noninferiority tost margins ranks ranking ranked ties "
    "untested mcnemar plan planning power size variance components worse better superior beats "
    "winner clusters dependent statistics statistical gain gains luck lucky statistically "
    "friedman nemenyi bayesian sign compare detect rows needed base instruction-tuned "
    "same-performance outperform outperforms head-to-head mcnemar's bootstrap paired-bootstrap "
    "write paper",
    "lm_eval_runs.md": "lm_eval harness samples log_samples mmlu hellaswag arc",
    "logs.md": "logs inspect_ai inspect helm opencompass harnesses imported importing import jsonl read "
    "reading convert converting converted conversion samples external existing predictions "
    "existing-predictions lighteval",
    "published_figures.md": "papers published original literature reproduce reproducing reproduction replication "
    "replicate replicating errata publication publications authors mismatch differs article "
    "articles worse",
    "verifying.md": "verifying verified verification verify genuine authentic authenticity trusted trust "
    "trustworthy tampered tampering forged forgery fake faked manipulated edited cheating fraud "
    "integrity checksums hashes digests recomputed audits auditing validate validation prove "
    "proves proof proven honest altered modified alter",
    "result_file.md": "result file json schema fields keys format structure digests saved contents per-example stored",
    "data_sets.md": "datasets corpora corpus permission permissions copyright commercial licences licenses "
    "licensed sources provenance sst2 trec agnews ag_news mr subj financial phrasebank hate "
    "speech tweet poem rte download downloading downloaded installed sentiment topic builtin "
    "built-in included available list mini tasks domains cover covered classes emotion intent "
    "news movie reviews automatically languages english mirror size sizes",
    "extending.md": "extending extend extensions plugins plug-ins entry points entry-points register registered "
    "registering registry custom package third-party pyproject packages packaging distribute",
    "adding_a_data_set.md": "adding own custom private data sets datasets csv tsv json jsonl excel xlsx parquet gzip "
    "delimiter columns texts rows lines load loading import spreadsheets pairs nli bring "
    "domain-specific company labelled annotated annotations csv-file multi-label prompt template "
    "file files pandas huggingface-datasets own-prompt",
    "adding_a_method.md": "adding own custom methods new selector retriever activations steering generator yield "
    "implement implementing invent developing write",
    "adding_a_benchmark.md": "adding own custom benchmarks new tasks task subclass implement implementing prompt write",
    "adding_a_metric.md": "adding own custom metrics new define scores scorer implement implementing write",
    "error_rates.md": "coverage nominal simulations simulated simulation power false positives alpha validity "
    "conservative proofs derivations reviewers statisticians construction monte carlo delta "
    "assumptions false-positive calibration-of-intervals few trust small",
    "mixed_models.md": "mixed mixed-effects multilevel hierarchical glmm lmm lme4 statsmodels regression logistic "
    "irt item response theory rasch difficulty ability random effects anova reml psychometrics "
    "lmer multi-level",
    "performance.md": "performance speed fast faster fastest quick slow slower slowly timing seconds minutes hours "
    "duration latency memory ram vram gigabytes gib oom footprint peak hardware throughput "
    "benchmarked h200 nvidia amx amd intel xeon epyc avx cpu processor profiling accelerate "
    "acceleration optimisation optimization optimised optimized efficient efficiency quickly "
    "requirements gpu batching batched batch-size gpu-memory speed-up runtime laptop",
    "migration.md": "migration migrating migrate moving move 0.1.1 upgrade upgrading upgraded update updating old "
    "legacy deprecated deprecation removed renamed breaking changes backwards backward "
    "compatibility release interface importerror broke broken porting transition",
    "systems.md": "python versions supported interpreter windows wsl macos mac linux ubuntu debian fedora "
    "operating os systems platforms requirements dependencies arm aarch64 pyodide wasm browser "
    "colab compatible compatibility apple docker machines container",
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
