"""Ends a script whose Python lacks packages that it imports."""
import pathlib
import sys


def end_without(missing, document):
    """Ends the script for the ImportError `missing`: with its help text if that was asked for, or else with exit code 69 and one
    sentence."""
    if {"-h", "--help"} & set(sys.argv):
        print(document)
        sys.exit(0)
    print(f"{pathlib.Path(sys.argv[0]).stem}: {sys.executable} has no {missing.name}; scripts/setup_peers.sh makes an environment that has it",
          file=sys.stderr)
    sys.exit(69)
