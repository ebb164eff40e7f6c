"""Jobs of several processes to be injured: finds their processes, injects a fault, and measures how long they take to end."""
import os
import pathlib
import signal
import subprocess
import time

from bench.hosts import ADDRESSES, NAMESPACES

# An environment variable that all processes of a job inherit from their launcher.
MARK = "DPTRAIN_FAULT_TRIAL"
POLL_S = 0.01


def is_running(pid):
    """Whether the process exists and isn't a zombie."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


class Job:
    """A job, started at once. `program` is the name of its processes' program, as ps shows it."""

    def __init__(self, command, environment, mark, program, folder):
        self.mark, self.program = f"{MARK}={mark}".encode(), program
        self.output = open(folder / "output", "wb")
        # The launcher has a session of its own, so that its fault doesn't affect this script.
        self.launcher = subprocess.Popen(command, env={**os.environ, **environment, MARK: mark}, cwd=folder, stdin=subprocess.DEVNULL,
                                         stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def processes(self, name=None):
        """The processes of the job that run the program `name`, by pid, with their environment; by default its own processes."""
        found = {}
        for entry in os.listdir("/proc"):
            try:
                if not entry.isdigit() or pathlib.Path(f"/proc/{entry}/comm").read_text().strip() != (name or self.program):
                    continue
                variables = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.mark in variables:
                found[int(entry)] = dict(one.decode(errors="replace").split("=", 1) for one in variables if b"=" in one)
        return found

    def wait_for_processes(self, count):
        """Waits until `count` processes have started; returns whether they have."""
        while self.launcher.poll() is None:
            if len(self.processes()) >= count:
                return True
            time.sleep(POLL_S)
        return False

    @staticmethod
    def seconds_until_gone(pids, limit_s, begun):
        """Seconds from `begun` until the processes have ended; None if one of them still runs after `limit_s`."""
        while any(is_running(pid) for pid in pids):
            if time.monotonic() - begun > limit_s:
                return None
            time.sleep(POLL_S)
        return time.monotonic() - begun

    def seconds_until_over(self, limit_s, begun):
        """Seconds from `begun` until the launcher has returned; None if it hasn't after `limit_s`."""
        try:
            self.launcher.wait(max(0, begun + limit_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - begun

    def end(self):
        """Kills what is left of the job; returns how many of its own processes were left."""
        left = self.processes()
        for name in (None, "mpirun", "orted", "torchrun"):
            for pid in self.processes(name):
                os.kill(pid, signal.SIGKILL)
        if self.launcher.poll() is None:
            os.killpg(self.launcher.pid, signal.SIGKILL)
        self.launcher.wait()
        self.output.close()
        return len(left)


class Signal:
    """A signal to one process of a job, or to one of the processes that start them."""

    def __init__(self, number, program=None):
        self.number, self.program = number, program

    def victims(self, job):
        return sorted(job.processes(self.program).items())

    def strike(self, _, pid):
        """Sends the signal; returns whether the process still existed."""
        try:
            os.kill(pid, self.number)
        except ProcessLookupError:
            return False
        return True

    def heal(self, _):
        pass


class Cut:
    """The second host's network goes down."""

    def victims(self, job):
        return sorted(job.processes().items())[-1:]

    def strike(self, hosts, _):
        subprocess.run([NAMESPACES, "link", hosts, "2", "down"], check=True)
        return True

    def heal(self, hosts):
        subprocess.run([NAMESPACES, "link", hosts, "2", "up"], check=True)
        # Wait until the hosts reach each other again, both ways. Nothing listens on the port, so a host that answers refuses the
        # connection.
        for host, other in ((1, 2), (2, 1)):
            connect = [NAMESPACES, "run", hosts, str(host), "timeout", "1", "bash", "-c", f"exec 3<>/dev/tcp/{ADDRESSES[other - 1]}/9"]
            for _ in range(60):
                if "refused" in subprocess.run(connect, stderr=subprocess.PIPE, text=True, check=False).stderr:
                    break
