"""Times PyTorch's attention as optloop's baseline: scaled_dot_product_attention with every backend, and what else is installed.

SDPA takes a window or lengths as a mask, and neither a cap of scores nor sinks: those are FlexAttention's and FlashAttention-4's.
It takes packed sequences one after the other. Nothing is timed with logarithms of sums.
Where keys are in pages, its call gathers them first.

What else is installed is FlexAttention, which torch compiles, FlashAttention-4 (the package flash-attn-4) and, for one query,
FlashInfer (flashinfer-python), whose plan is made before it is timed. See graph_timing.py.
"""

import contextlib
import functools
import importlib.util
import os
import sys

# FlexAttention is compiled in this process: others would outlive the compilation. Torch reads this when it is imported.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

# The project's folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402

SDPA = {
    "flash": functools.partial(sdpa_kernel, [SDPBackend.FLASH_ATTENTION]),
    "efficient": functools.partial(sdpa_kernel, [SDPBackend.EFFICIENT_ATTENTION]),
    "cudnn": functools.partial(sdpa_kernel, [SDPBackend.CUDNN_ATTENTION]),
    "math": functools.partial(sdpa_kernel, [SDPBackend.MATH]),
    # Restricts nothing: a user who names no backend gets this.
    "default": contextlib.nullcontext,
}
# Libraries and kernels are loaded by the first calls: the first case of 64 queries took 1.0 s longer than later ones, and the
# first of 128 queries 0.7 s (H100, 2026-11-26).
REHEARSED_QUERIES = [64, 128]
# Above this the math backend's score matrix takes minutes and gigabytes, and it never wins.
MATH_LIMIT_BYTES = 2 << 30
# FlexAttention is compiled for each shape, which takes seconds. Shorter sequences are over in microseconds.
FLEX_LEAST_QUERIES = 1024
# What FlashInfer's documentation recommends.
FLASHINFER_WORKSPACE_BYTES = 128 << 20
# Shapes that FlexAttention is compiled for in one process.
MOST_COMPILED = 512


def has(package, folder=None):
    """Tells whether a package is installed, or a folder of it, without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = spec.submodule_search_locations or [] if spec else []
    return spec is not None and (folder is None or any(os.path.isdir(os.path.join(place, folder)) for place in places))


def compiled(function):
    """Has torch compile a function for each shape and mask."""
    # Beyond the limit, torch runs it without compiling.
    for limit in ("recompile_limit", "cache_size_limit"):
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, MOST_COMPILED)
            break
    return torch.compile(function, dynamic=False)


def is_visible(queries, keys, causal, window):
    """Returns a function that tells which key a query sees, for tensors of indices. The last query stands beside the last key."""

    def of(query, key):
        ahead = key - (query + (keys - queries))
        seen = ahead <= 0 if causal else ahead < window if window else ahead <= keys
        return seen & (ahead > -window) if window else seen

    return of


@functools.cache
def mask_of_sequence(length, causal, window):
    """Returns which key each query of a sequence sees."""
    token = torch.arange(length, device="cuda")
    return is_visible(length, length, causal, window)(token[:, None], token)


@functools.cache
def flex(queries, keys, causal, window, cap, sink, shares):
    """Returns FlexAttention for cases of some lengths, compiled when it is first called."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    options = {"enable_gqa": shares}
    if causal or window:
        of = is_visible(queries, keys, causal, window)
        options["block_mask"] = create_block_mask(
            lambda _batch, _head, query, key: of(query, key), None, None, queries, keys, device="cuda"
        )
    if cap:
        options["score_mod"] = lambda score, _batch, _head, _query, _key: cap * torch.tanh(score / cap)

    def with_sink(q, k, v, sinks):
        output, log_sum = flex_attention(q, k, v, return_lse=True, **options)
        # The share of the weight that the sink leaves.
        return (output * torch.sigmoid(log_sum - sinks[None, :, None].float())[..., None]).to(output.dtype)

    def without(q, k, v):
        return flex_attention(q, k, v, **options)

    return compiled(with_sink if sink else without)


def rows_first(tensor):
    """Returns queries, keys or values with the rows of a sequence before its heads. Other tensors stay."""
    return tensor.transpose(1, 2).contiguous() if tensor.dim() == 4 else tensor


def backends():
    """Returns SDPA's backends and those that are installed beside it."""
    found = dict(SDPA)
    if has("triton") and has("torch.nn.attention.flex_attention"):
        found["flex"] = contextlib.nullcontext
    if has("flash_attn", "cute"):
        found["fa4"] = contextlib.nullcontext
    if has("flashinfer"):
        found["flashinfer"] = contextlib.nullcontext
    return found


class Attention(graph_timing.Case):
    OP = "attention"

    def __init__(self, request):
        super().__init__(request)
        queries, keys, window = self.dims["Sq"], self.dims["Sk"], self.dims.get("WINDOW", 0)
        self.function, self.heads_first, self.rows_first = self.sdpa, self.sets, None
        self.is_causal, self.mask = self.dims["CAUSAL"] == 1, None
        names = [tensor["name"] for tensor in self.inputs]
        self.names = ["q", "k", "v", *names[2:]] if "KV" in self.dims else names
        if "VARLEN" in self.dims:
            self.borders = self.named(self.separate(self.sets[0]))["cu_seqlens"].tolist()
            self.function = self.packed
            for begin, end in zip(self.borders[:-1], self.borders[1:]):
                # Masks are made before a graph is captured.
                self.mask_of(end - begin)
        elif "lengths" in self.names:
            self.mask, self.is_causal = self.mask_of_lengths(self.named(self.separate(self.sets[0]))["lengths"]), False
        elif window or (self.is_causal and queries != keys):
            # Torch's own causal mask lets the first query see the first key only; optloop's lets the last see all.
            query, key = (torch.arange(length, device="cuda") for length in (queries, keys))
            self.mask = is_visible(queries, keys, self.is_causal, window)(query[:, None], key)
            self.is_causal = False

    def separate(self, tensors):
        """Returns tensors with keys and values apart, as views."""
        if "KV" not in self.dims:
            return tensors
        q, both, *others = tensors
        return (q, *both.split(self.dims["D"], -1), *others)

    def named(self, tensors):
        return dict(zip(self.names, tensors))

    def mask_of_lengths(self, lengths):
        """Returns which key each query sees, where batch entries have lengths of their own."""
        key = torch.arange(self.dims["Sk"], device="cuda")
        query = torch.arange(self.dims["Sq"], device="cuda")[:, None]
        seen = [
            is_visible(self.dims["Sq"], length, self.dims["CAUSAL"] == 1, self.dims.get("WINDOW", 0))(query, key) & (key < length)
            for length in lengths.tolist()
        ]
        return torch.stack(seen)[:, None]

    @classmethod
    def rehearse(cls, backends):
        for queries in REHEARSED_QUERIES:
            tensor = torch.zeros(1, 1, queries, 64, dtype=torch.float16, device="cuda")
            for name in SDPA:
                # Not every GPU has every backend.
                with contextlib.suppress(RuntimeError), torch.no_grad(), backends[name]():
                    scaled_dot_product_attention(tensor, tensor, tensor, is_causal=True)
        torch.cuda.synchronize()

    def check(self, name):
        score_bytes = self.dims["B"] * self.dims["H"] * self.dims["Sq"] * self.dims["Sk"] * 4
        if name == "math" and score_bytes > MATH_LIMIT_BYTES:
            raise graph_timing.Refused(f"its scores would take {score_bytes / (1 << 30):.1f} GiB")
        missing = [what for name, what in (("SOFTCAP", "cap of scores"), ("SINK", "sink")) if name in self.dims]
        if "LSE" in self.dims:
            raise graph_timing.Refused("its logarithms of sums are not timed here")
        if name in SDPA and missing:
            raise graph_timing.Refused(f"it has no {missing[0]}")
        self.function, self.sets = self.packed if "VARLEN" in self.dims else self.sdpa, self.heads_first
        if name == "flex":
            self.function = self.flex(self.dims)
        if name == "fa4":
            self.function, self.sets = self.fa4(self.dims, self.dtype), self.with_rows_first()
        if name == "flashinfer":
            self.function = self.flashinfer()

    def compute(self, *inputs):
        return self.function(*self.separate(inputs))

    @staticmethod
    def flex(dims):
        if "VARLEN" in dims:
            raise graph_timing.Refused("its mask of documents depends on their lengths, so it is not timed here")
        if "LENGTHS" in dims:
            raise graph_timing.Refused("it has no lengths without a mask of blocks for each batch")
        if dims["Sq"] < FLEX_LEAST_QUERIES:
            raise graph_timing.Refused(f"it is compiled for each shape, so it is timed from {FLEX_LEAST_QUERIES} queries on")
        scores = [dims.get(name, 0) for name in ("WINDOW", "SOFTCAP", "SINK")]
        return flex(dims["Sq"], dims["Sk"], dims["CAUSAL"] == 1, *scores, "Hkv" in dims)

    def sdpa(self, q, k, v, *others):
        if "PAGE" in self.dims:
            shape = (self.dims["B"], self.dims["Sk"], *k.shape[2:])
            table = self.named((q, k, v, *others))["page_table"]
            k, v = (pages[table].reshape(shape).transpose(1, 2) for pages in (k, v))
        # A case names the heads of its keys only if several heads of queries share them.
        shares = {"enable_gqa": True} if "Hkv" in self.dims else {}
        return scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.is_causal, **shares)

    def mask_of(self, length):
        """Returns the mask of a packed sequence. None without a window."""
        return mask_of_sequence(length, self.is_causal, self.dims["WINDOW"]) if "WINDOW" in self.dims else None

    def packed(self, q, k, v, *_others):
        """Returns SDPA of one sequence after the other. Its kernels start one after the other, too."""
        outputs = []
        for begin, end in zip(self.borders[:-1], self.borders[1:]):
            if begin == end:
                continue
            mask = self.mask_of(end - begin)
            causal = mask is None and self.is_causal
            one = (tensor[begin:end].transpose(0, 1)[None] for tensor in (q, k, v))
            shares = {"enable_gqa": True} if "Hkv" in self.dims else {}
            output = scaled_dot_product_attention(*one, attn_mask=mask, is_causal=causal, **shares)
            outputs.append(output[0].transpose(0, 1))
        return torch.cat(outputs)

    @classmethod
    def compile_for(cls, dims, dtype, tensors):
        found = backends()
        inputs = [torch.empty(tensor["shape"], dtype=dtype, device="cuda") for tensor in tensors if tensor["role"] == "input"]
        # What cannot be compiled is refused when it is to be timed.
        with contextlib.suppress(Exception):
            if "flex" in found:
                cls.flex(dims)(*inputs)
        with contextlib.suppress(Exception):
            if "fa4" in found:
                cls.fa4(dims, dtype)(*map(rows_first, inputs))

    @staticmethod
    def fa4(dims, dtype):
        """Returns FlashAttention-4, which wants the rows of a sequence before its heads."""
        if dtype not in (torch.float16, torch.bfloat16):
            raise graph_timing.Refused("it computes no FP32")
        if "LENGTHS" in dims or "VARLEN" in dims:
            raise graph_timing.Refused("its lengths and pages are not timed here")
        from flash_attn.cute import flash_attn_func

        causal, window = dims["CAUSAL"] == 1, dims.get("WINDOW", 0)
        options = {"causal": causal}
        if window:
            options["window_size"] = (window - 1, 0 if causal else window - 1)
        if "SOFTCAP" in dims:
            options["softcap"] = float(dims["SOFTCAP"])

        def attention(q, k, v, *sinks):
            output = flash_attn_func(q, k, v, **options, **({"learnable_sink": sinks[0]} if sinks else {}))
            output = output[0] if isinstance(output, tuple) else output
            return output.transpose(1, 2)

        return attention

    def flashinfer(self):
        """Returns FlashInfer's decoding with what it plans for these lengths. Keys that are not in pages are one page each."""
        dims = self.dims
        if dims["Sq"] != 1 or "VARLEN" in dims or self.dtype not in (torch.float16, torch.bfloat16) or "SINK" in dims:
            raise graph_timing.Refused("it decodes one query in FP16 or BF16, without sinks")
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        named = self.named(self.separate(self.sets[0]))
        entries, page = dims["B"], dims.get("PAGE", dims["Sk"])
        lengths = named["lengths"].tolist() if "lengths" in named else [dims["Sk"]] * entries
        counts = torch.tensor([-(-length // page) for length in lengths], dtype=torch.int32)
        indptr = torch.cat([torch.zeros(1, dtype=torch.int32), counts.cumsum(0, dtype=torch.int32)]).cuda()
        table = named.get("page_table", torch.arange(entries, dtype=torch.int32, device="cuda")[:, None])
        indices = torch.cat([row[:count] for row, count in zip(table, counts.tolist())])
        last = torch.tensor([(length - 1) % page + 1 for length in lengths], dtype=torch.int32, device="cuda")
        wrapper = BatchDecodeWithPagedKVCacheWrapper(
            torch.empty(FLASHINFER_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda"),
            "NHD" if "PAGE" in dims else "HND",
            use_cuda_graph=True,
            use_tensor_cores=True,
            # By default it chooses a kernel for prefill on Hopper, which took over four times as long (H200, 2026-11-30).
            backend="fa2",
            paged_kv_indptr_buffer=indptr.clone(),
            paged_kv_indices_buffer=indices.clone(),
            paged_kv_last_page_len_buffer=last.clone(),
        )
        heads = dims.get("Hkv", dims["H"])
        options = {"window_left": dims["WINDOW"] - 1} if "WINDOW" in dims else {}
        if "SOFTCAP" in dims:
            options["logits_soft_cap"] = float(dims["SOFTCAP"])
        wrapper.plan(
            indptr, indices, last, dims["H"], heads, dims["D"], page, q_data_type=self.dtype, kv_data_type=self.dtype, **options
        )

        def attention(q, k, v, *_others):
            return wrapper.run(q[:, :, 0], (k, v))[:, :, None]

        return attention

    def with_rows_first(self):
        if self.rows_first is None:
            self.rows_first = [[rows_first(tensor) for tensor in tensors] for tensors in self.heads_first]
        return self.rows_first


if __name__ == "__main__":
    graph_timing.serve(Attention, backends())
