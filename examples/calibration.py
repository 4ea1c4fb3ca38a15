# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Calibration: what it corrects and what it costs
#
# A model may prefer a label whatever it reads. A calibration measures that preference on prompts of the calibration set
# and takes it out of the answers. This notebook sets all calibrations side by side on the same prompts, with what each
# was given beforehand, and then trains one by hand.

# %%
import importlib.util
import os

from StaICC import ContextualBias, Normal, load_kernel
from StaICC.prefabricate_inference.methods import run_all
from StaICC.prefabricate_inference.standard_calibration import (
    CalibratedKernel,
    contextual_calibration,
    load_calibration,
)

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf
CALIBRATION_NUMBER = 48  # prompts to learn from; the paper gives each method 128
BLACK_BOX = ["vanilla", "contextual_calibration", "domain_calibration", "batch_calibration"]
WHITE_BOX = ["vanilla", "knn_prompt", "hidden_calibration"]

benchmark = Normal(datasets=DATASETS)
kernel = load_kernel(MODEL)

# %% [markdown]
# ## Is there anything to correct?
#
# With an empty query a model without a preference would spread its probability evenly. `entropy` says how evenly it
# does on the mean over all prompts: log 3 = 1.0986 is even for three labels. A model may be even there and yet be sure
# of a label for each single prompt; that is what `contextual_bias` measures (0 is as biased as can be).

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
# `run_all` runs them on the same prompts and asks a prompt that several share once. The last four columns are the cost:
# prompts and seconds of the training, different prompts and seconds of the test. Look at ECE-1 (the calibration error)
# as well as at the accuracy: a calibration can mend one and harm the other.

# %%
table = run_all(kernel, benchmark, calibration_number=CALIBRATION_NUMBER, methods=BLACK_BOX)
print(table)

# %% [markdown]
# An interval is wider than most differences here, so do not read a ranking out of such a table: the notebook
# `compare_two_models` shows a paired test, which also works for two methods.
#
# Each method's result is a result as any other.

# %%
for name, result in table.items():
    signed = result.signature.fields.get("method", "plain inference")
    print(f"{name}: {result.timing['training_prompts']:.0f} training prompts; signed: {signed}")

# %% [markdown]
# ## One by hand
#
# `train` takes the prompt writer, the model and the calibration set of one data set. Joined with the kernel, the
# trained calibration is an inference function like any other, so it also works for the bias benchmarks, with stores and
# with workers.

# %%
one = benchmark[0]
calibration = contextual_calibration(one.get_label_space())
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
# What was learned is saved as plain numbers, never as a pickle.

# %%
calibration.save("calibration.json")
assert load_calibration("calibration.json").apply([[0.5, 0.3, 0.2]]) == calibration.apply([[0.5, 0.3, 0.2]])

# %% [markdown]
# ## Calibrations that look inside the model
#
# k-NN prompting reads the distribution over the whole vocabulary, hidden calibration the last hidden state. The
# embedded model has neither, and a method that a kernel cannot do is left out with the reason. With torch and
# transformers, a tiny random model, made on the spot, shows how they run. Its figures mean nothing: it never learned
# anything.

# %%
if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
    from tiny_model import tiny_kernel  # the file beside this one

    inside = kernel if hasattr(kernel, "hidden_states") else tiny_kernel()
    small = Normal(k=2, datasets=DATASETS, limit=16)
    print(run_all(inside, small, calibration_number=CALIBRATION_NUMBER, methods=WHITE_BOX))
else:
    table = run_all(kernel, benchmark, calibration_number=CALIBRATION_NUMBER, methods=WHITE_BOX)
    print(*table.skipped.values(), sep="\n")
