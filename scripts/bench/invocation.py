"""How a script was called, so that its figures can be reproduced."""
import pathlib
import shlex
import sys


def invocation():
    """The command line for a shell in the root folder. The path of the peers' environments differs by machine, so it is shown as
    FOLDER."""
    words = ["FOLDER" if before == "--environments" else word for before, word in zip(sys.argv, sys.argv[1:])]
    return shlex.join([f"scripts/{pathlib.Path(sys.argv[0]).name}", *words])
