"""This machine: a description, its use by other processes, and a process that keeps a core busy."""
import contextlib
import os
import platform
import resource
import subprocess
import sys
import time


def description():
    """CPU, cores and instruction sets, from /proc/cpuinfo."""
    def first(key):
        lines = (line.split(":", 1) for line in open("/proc/cpuinfo") if line.startswith(key))
        return next((value.strip() for _, value in lines), "")

    sets = [flag for flag in first("flags").split() if flag.startswith(("avx2", "avx_vnni", "avx512", "amx"))]
    return dict(cpu=first("model name") or platform.machine(), cores=len(os.sched_getaffinity(0)), instruction_sets=sets)


def machine_busy_s():
    """Seconds that all cores were not idle, and seconds in all; time taken by a hypervisor counts as busy."""
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / ticks, sum(fields) / ticks


def own_busy_s():
    """CPU seconds of children that have ended; the script itself only waits for them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def beside_others(run):
    """The result of `run`, and the share of the machine that other processes took meanwhile. All children of `run` must have ended
    when it returns."""
    busy, total, own = *machine_busy_s(), own_busy_s()
    result = run()
    busy_after, total_after = machine_busy_s()
    # Within less than a clock tick, the machine counts nothing, whatever the children spent.
    return result, max(0.0, (busy_after - busy - (own_busy_s() - own)) / max(total_after - total, 1e-9))


def undisturbed(run, limit):
    """Runs until other processes took no more than `limit` of the machine meanwhile, at most five times. Returns the last result, a
    dict, with their share in it."""
    for _ in range(5):
        result, others = beside_others(run)
        if others <= limit:
            break
    return dict(result, others=round(others, 3))


def once_quiet(run, limit):
    """Runs once the machine has been idle for a second, or after half a minute. Returns the result of `run`, and the share that
    others took before. Their share during the run can't be measured if programs aren't children, like mpirun's on another host."""
    for _ in range(30):
        _, others = beside_others(lambda: time.sleep(1))
        if others <= limit:
            break
    return run(), others


# The loop ends by itself if the script is killed.
SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def busy_core(wanted):
    """If wanted, keeps one core busy with another process."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) as spinner:
        try:
            yield
        finally:
            spinner.kill()


def peak_rss_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")), 0)


def start_rss_mb(command):
    """Peak memory of a process that has started and is about to print its first line, where a full pipe holds it. Its ru_maxrss is
    no use: exec carries it over from the caller, this process, which is larger."""
    _, full = pipe = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, bytes(4096))
    os.set_blocking(full, True)
    with subprocess.Popen(command, stdout=full, stderr=subprocess.DEVNULL) as process:
        before, peak = -1, 0
        while process.poll() is None and before != peak:
            time.sleep(0.5)
            before, peak = peak, peak_rss_mb(process.pid)
        process.kill()
    for end in pipe:
        os.close(end)
    return peak
