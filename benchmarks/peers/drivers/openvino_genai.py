"""OpenVINO GenAI: its continuous batching pipeline on a GGUF file, `python -m ... MODEL.gguf THREADS`."""

import sys

import numpy as np
import openvino as ov
import openvino_genai as genai

from benchmarks.peers.drivers.driving import Engine, Teller, drive
from benchmarks.peers.line import Ask

CACHE_GB = 1


class Pipeline(Engine):
    """Asks with a handle each; one step of the pipeline is one step."""

    def __init__(self, model: str, threads: int) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.enable_prefix_caching = True
        self._pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
        self._handles: dict[int, genai.GenerationHandle] = {}

    def add(self, ask: Ask) -> None:
        config = genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = ask.num_tokens
        config.ignore_eos = True
        config.do_sample = False
        prompt = ov.Tensor(np.array([ask.prompt], np.int64))
        self._handles[ask.id] = self._pipeline.add_request(ask.id, prompt, config)

    def step(self, teller: Teller) -> bool:
        self._pipeline.step()
        for request_id, handle in list(self._handles.items()):
            while handle.can_read():
                for output in handle.read().values():
                    teller.tokens(request_id, list(output.generated_ids))
                    if output.finish_reason != genai.GenerationFinishReason.NONE:
                        teller.finished(request_id)
                        self._handles.pop(request_id, None)
        return bool(self._pipeline.has_non_finished_requests())


if __name__ == "__main__":
    drive(lambda: Pipeline(sys.argv[1], int(sys.argv[2])))
