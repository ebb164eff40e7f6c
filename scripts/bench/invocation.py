"""How a script was called, for whoever wants its figures again."""
import pathlib
import shlex
import sys


def invocation():
    """For a shell in the root folder. Where the peers are installed is each machine's own: FOLDER."""
    words = ["FOLDER" if before == "--environments" else word for before, word in zip(sys.argv, sys.argv[1:])]
    return shlex.join([f"scripts/{pathlib.Path(sys.argv[0]).name}", *words])
