"""Calibrations: corrections of predictions, learnt from prompts of the calibration set.

Each learns from ``calibration_number`` prompts of the calibration set (128 in the paper's Table 2) and then corrects
the model's predictions. Contextual, domain and batch calibration read label probabilities only, need the standard
library only, and so work with any inference function, endpoints included. Hidden calibration reads the last hidden
state, k-nearest-neighbour prompting the logits of the full vocabulary.

As in 0.1.1::

    calibration = HiddenCalibration(experimentor.get_label_space())
    calibration.train(
        experimentor.prompt_former.write_prompt_from_dataline, feedforward, experimentor.calibration_set()
    )
    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=model, tokenizer=tokenizer, calibration_function=calibration.inference,
    )

``feedforward(prompt, label_space)`` is any inference function. If it has a ``batch`` form, or is a kernel, it is
called once for all training prompts. ``CalibratedKernel(kernel, calibration)`` is the same inference function, batched.

``variant="0.1.1"`` is the release's arithmetic, bug for bug. Temperature scaling, linear and prototypical calibration
and DC-PMI are not in the release; for them it only draws calibration rows as the release does.
"""
