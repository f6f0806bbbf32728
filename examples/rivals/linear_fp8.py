"""A rival of the workload linear-fp8: the product in FP8 of PyTorch. See docs/bench.md."""

import torch


def run(x, w, w_scale, x_scale=None):
    rows = torch.ones(x.shape[0], device=x.device) if x_scale is None else x_scale
    return torch._scaled_mm(x, w.t(), scale_a=rows[:, None], scale_b=w_scale[None], out_dtype=torch.bfloat16)
