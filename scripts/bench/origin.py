"""Where the figures of a report come from."""
import datetime
import subprocess

from .invocation import invocation
from .machine import description


def origin(binary):
    """What measured the figures, how it was called, when and on which machine."""
    version = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    return dict(machine=description(), dptrain=version[0], parts=version[1:], date=datetime.date.today().isoformat(), command=invocation())
