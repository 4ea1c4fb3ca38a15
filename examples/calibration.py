# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Calibration: what it corrects and what it costs
#
# A model may prefer a label for any input. A calibration estimates this bias on prompts of the calibration set and
# removes it from the predictions. This notebook compares all calibrations on the same prompts, with the cost of their
# training, and then trains one by hand.

# %%
import importlib.util
import os
import tempfile

from StaICC import (
    CalibratedKernel,
    ContextualBias,
    ContextualCalibration,
    Normal,
    load_calibration,
    load_kernel,
    run_all,
)

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf
CALIBRATION_NUMBER = 48  # training prompts; the paper uses 128
BLACK_BOX = ["vanilla", "contextual_calibration", "domain_calibration", "batch_calibration"]
WHITE_BOX = ["vanilla", "knn_prompt", "hidden_calibration"]

benchmark = Normal(datasets=DATASETS)
kernel = load_kernel(MODEL)

# %% [markdown]
# ## Is there anything to correct?
#
# For an empty query, an unbiased model predicts the uniform distribution. `entropy` is the entropy of the mean
# prediction: for three labels, log 3 = 1.0986 means uniform. A model may be uniform on average and still be certain of
# a label for each single prompt; `contextual_bias` measures that (0 is the maximum bias).

# %%
bias = ContextualBias(datasets=DATASETS)(kernel)
print(bias)
print({name: [round(share, 3) for share in scores["distribution"]] for name, scores in bias.divided.items()})

# %% [markdown]
# ## Calibrations that need probabilities only
#
# | method | learns its prior from |
# |---|---|
# | contextual calibration | queries about nothing ("N/A", "[MASK]", the empty text) |
# | domain calibration | queries of random words of the data set |
# | batch calibration | the predictions of the batch itself |
#
# `run_all` runs them on the same prompts and evaluates shared prompts once. The last five columns are the cost:
# prompts and seconds of the training, distinct prompts and seconds of the test, and prompts that were computed before.
# Contextual and domain calibration add 3 and 20 texts after the demonstrations of each query, as in their papers, so
# they have no training prompts but 4 and 21 test prompts for each query. Look at ECE-1 (the calibration error) and at
# accuracy: a calibration can improve one and worsen the other.

# %%
table = run_all(kernel, benchmark, calibration_number=CALIBRATION_NUMBER, methods=BLACK_BOX)
print(table)

# %% [markdown]
# The confidence intervals are wider than most differences here, so the table is not a ranking. The notebook
# `compare_two_models` shows a paired test, which also works for two methods.
#
# Each method has a normal result.

# %%
for name, result in table.items():
    signed = result.signature.fields.get("method", "plain inference")
    print(f"{name}: {result.timing['training_prompts']:.0f} training prompts; signed: {signed}")

# %% [markdown]
# ## One by hand
#
# `train` takes the prompt writer, the model and the calibration set of one data set. Together with the kernel, the
# trained calibration is an inference function, so it also works with the bias benchmarks, with stores and with workers.

# %%
one = benchmark[0]
calibration = ContextualCalibration(one.get_label_space())
calibration.train(
    one.prompt_former.write_prompt_from_dataline,
    kernel,
    one.calibration_set(),
    calibration_number=CALIBRATION_NUMBER,
    k=one.get_k(),
)
calibrated = CalibratedKernel(kernel, calibration)
before, after = (ContextualBias(datasets=[one.name])(function).averaged["entropy"] for function in (kernel, calibrated))
print(f"entropy of the mean prediction for empty queries: {before:.4f} before, {after:.4f} after")

# %% [markdown]
# The learned parameters are saved as plain numbers, never as a pickle.

# %%
with tempfile.TemporaryDirectory() as folder:
    calibration.save(f"{folder}/calibration.json")
    loaded = load_calibration(f"{folder}/calibration.json")
assert loaded.apply([[0.5, 0.3, 0.2]]) == calibration.apply([[0.5, 0.3, 0.2]])

# %% [markdown]
# ## Calibrations that use internals of the model
#
# k-NN prompting uses the distribution over the vocabulary, hidden calibration uses the last hidden state. The
# embedded model has neither; methods that a kernel does not support are skipped with the reason. With torch,
# transformers and the file `examples/tiny_model.py` next to this notebook, a tiny random model shows how they run.
# Its scores are meaningless, because it is not trained.

# %%
if all(importlib.util.find_spec(name) for name in ("torch", "transformers", "tiny_model")):
    from tiny_model import tiny_kernel  # examples/tiny_model.py

    inside = kernel if hasattr(kernel, "hidden_states") else tiny_kernel()
    small = Normal(k=2, datasets=DATASETS, limit=16)
    print(run_all(inside, small, calibration_number=CALIBRATION_NUMBER, methods=WHITE_BOX))
else:
    table = run_all(kernel, benchmark, calibration_number=CALIBRATION_NUMBER, methods=WHITE_BOX)
    print(*table.skipped.values(), sep="\n")
