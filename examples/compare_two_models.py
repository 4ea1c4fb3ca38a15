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
# # Is one model better than another?
#
# Two overlapping confidence intervals do not answer this. Both models have the same test rows, so they can be compared
# row by row, which detects much smaller differences. This notebook compares the embedded model with a smaller
# variant, draws the figures, and writes a report.

# %%
from StaICC import (
    Normal,
    accuracy_by_dataset,
    compare_all,
    format_comparisons,
    load,
    load_kernel,
    reliability_diagrams,
    write_report,
)

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
kernels = {
    "order 12": load_kernel("ppm"),
    "order 1": load_kernel("ppm", order=1),  # any other model: load_kernel("smollm2"), load_kernel("hf:gpt2"), ...
}

# %% [markdown]
# ## Two runs, saved
#
# The rest of the notebook only needs the saved files, so the two runs may be from two machines.

# %%
benchmark = Normal(datasets=DATASETS)
for name, kernel in kernels.items():
    benchmark(kernel).save(f"{name}.json")
results = {name: load(f"{name}.json") for name in kernels}

# %% [markdown]
# Jupyter shows a result as a table.

# %%
results["order 12"]

# %%
results["order 1"]

# %% [markdown]
# ## The paired test
#
# * *difference*: first minus second accuracy (or the metric of `metric=`), with an interval over test examples.
# * *p*: paired test over test examples, all repeats together; *p (Holm)* corrects it for the number of data sets and of
#   pairs of runs.
# * *detectable*: the smallest true difference that a sample of this size detects with power 0.8. If you are interested
#   in smaller differences, you need more test examples.
#
# Results on other test examples are refused. All other differences are listed above the table.

# %%
found, left_out = compare_all(results)
print(format_comparisons(found))

# %% [markdown]
# The numbers are also available in Python. `overall` is the mean over the data sets, or the only data set.

# %%
one = found[0].comparisons[0].overall
verdict = "differ" if one.outcome.significant else "are not shown to differ"
print(f"On {one.dataset} the two {verdict} at level 0.05; only a difference of {one.detectable:.3f} would be found.")

# %% [markdown]
# The same table for a paper (`"markdown"`, `"latex"`, `"csv"`, `"json"`):

# %%
print(format_comparisons(found, "latex"))

# %% [markdown]
# ## Figures
#
# Each figure of a report is a function. A notebook shows what it returns, and `save` writes an SVG file.

# %%
accuracy = accuracy_by_dataset(results)
accuracy.save("accuracy.svg")
accuracy

# %% [markdown]
# The intervals in the figure belong to single models and do not replace the paired test. The reliability
# diagram shows accuracy against confidence (on the diagonal: calibrated).

# %%
reliability_diagrams(results["order 12"])

# %% [markdown]
# ## The report
#
# One self-contained HTML file with all figures and tables.

# %%
write_report(results, "report.html")
