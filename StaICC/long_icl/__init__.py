"""LongICL: classification with many labels in long contexts, as LongICLBench publishes it.

Six data sets with 28 to 174 labels; one to five rounds of demonstrations, where each round adds one demonstration per
label; contexts of 1,000 to 50,000 tokens; 500 test items. Source: "Long-context LLMs Struggle with Long In-context
Learning" (Li et al., 2024) and its published code. ``docs/long_icl.md`` describes the protocol.

The published rounds reproduce the prompts, parses and scores of the published code exactly, except for one division by
zero. ``parsing="library"`` reads the same replies with the parser of all benchmarks instead.

Guarantees: There is no randomness. Every file is checked row by row, and against the published digest if one is known.
A missing data set is reported with instructions. A failed query is never scored as a wrong prediction.
"""
