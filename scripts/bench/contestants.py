"""The programs that train: each is a call that measures once and returns samples_per_s, memory_mb and version."""
import functools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile

from bench.cases import MXNET, OURS, PRECISIONS, PYTORCH
from bench.machine import busy_core, start_rss_mb

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
CONFIG_REFUSED = 78


class Absent(Exception):
    """This contestant takes no part; the text says why."""


class Failed(Absent):
    """The contestant ended with an error; another try may succeed."""


@functools.cache
def peer_environment(python):
    """The environment that a peer needs on this machine. Some virtual machines report AMX instructions but have none, or don't
    describe its tiles (CPUID's leaf 1DH). PyTorch's bf16 crashes on both unless its oneDNN is told to use older instructions."""
    product = [python, "-c", "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"]
    died = subprocess.run(product, stderr=subprocess.DEVNULL, check=False).returncode == -signal.SIGILL
    return {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"} if died else {}


def finished(command, folder, environment=None):
    """Runs a program to its end; returns its exit code, its stdout, the last line on stderr and the peak memory in MB."""
    with open(folder / "out", "w+") as out, open(folder / "err", "w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **(environment or {})})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return process.returncode, out.read(), (err.read().splitlines() or [""])[-1], used.ru_maxrss / 1024


def settings_of(case, a):
    """The settings of the configuration; with --quick, data for two steps per epoch."""
    dataset = case.settings["dataset"]
    few = {key: 2 * case.batch for key in ("limit", "samples") if a.quick and key in dataset}
    return dict(case.settings, dataset=dict(dataset, **few))


def dptrain(case, a, devices, precision, beside):
    """Median over the epochs after the first, which makes the primitives and touches the memory for the first time. Memory is the
    process's peak over that of a process that reads the same configuration and stops."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = dict(settings_of(case, a), devices=devices, batch_size=case.batch, epochs=2 if a.quick else case.epochs,
                      precision=precision, eval_every=0, checkpoint=dict(every_epochs=0))
        (folder / "bench.yaml").write_text(json.dumps(config))
        command = [a.binary, "--config", str(folder / "bench.yaml"), "--out", str(folder / "run")]
        code, _, said, _ = finished(command + ["--dump-config"], folder)
        if code == CONFIG_REFUSED:
            raise Absent("not offered: " + said.replace(name + "/", ""))
        started = start_rss_mb(command + ["--dump-config"])
        with busy_core(beside):
            code, out, said, peak = finished(command + ["--json", "--progress", "none"], folder)
        if code != 0:
            raise RuntimeError(f"dptrain on {case.settings['model']} exited with code {code}: {said}")
    epochs = [json.loads(line)["train"]["samples_per_s"] for line in out.splitlines()]
    return dict(samples_per_s=round(statistics.median(epochs[1:]), 1), memory_mb=round(peak - started, 1),
                start_mb=round(started, 1))


def peer(command):
    """Runs a program that prints its result as the last line."""
    if not pathlib.Path(command[0]).exists():
        raise Absent("not installed")
    with tempfile.TemporaryDirectory() as folder:
        code, out, said, _ = finished(command, pathlib.Path(folder), peer_environment(command[0]))
    if code != 0:
        raise Failed(f"failed: exit code {code}: {said}")
    result = dict(json.loads(out.splitlines()[-1]), environment=peer_environment(command[0]))
    return {key: result[key] for key in ("samples_per_s", "memory_mb", "start_mb", "peer", "environment")}


def length(a):
    return ["--min-steps", "1", "--warmup", "1", "--seconds", "0"] if a.quick else []


def pytorch(model, case, a, arguments, precision):
    return peer([f"{a.environments}/torch/bin/python", str(SCRIPTS / "bench_pytorch.py"), "--model", model,
                 "--batch", str(case.batch), "--precision", precision, *arguments, *length(a)])


def mxnet(model, case, a, contexts):
    return peer([f"{a.environments}/mxnet/bin/python", str(SCRIPTS / "bench_mxnet.py"), "--model", model,
                 "--batch", str(case.batch), "--contexts", str(contexts), *length(a)])


def contestants(model, case, a):
    """(name, precision, beside a busy core) -> the call that measures it, in the order of a round."""
    calls = {}
    for precision in PRECISIONS:
        for name, devices in OURS.items():
            calls[name, precision, False] = functools.partial(dptrain, case, a, devices, precision, False)
        for name, arguments in PYTORCH.items():
            if name in a.peers and precision in a.peer_precisions:
                calls[name, precision, False] = functools.partial(pytorch, model, case, a, arguments, precision)
    for name, contexts in MXNET.items():
        if name in a.peers and case.mxnet and "fp32" in a.peer_precisions:
            calls[name, "fp32", False] = functools.partial(mxnet, model, case, a, contexts)
    for name, devices in OURS.items():
        calls[name, "fp32", True] = functools.partial(dptrain, case, a, devices, "fp32", True)
    return calls
