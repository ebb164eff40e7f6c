"""What a script says whose Python has not all that it imports."""
import pathlib
import sys


def end_without(missing, document):
    """Ends the script: where its help is asked for with that, else with 69 and a sentence about the ImportError `missing`."""
    if {"-h", "--help"} & set(sys.argv):
        print(document)
        sys.exit(0)
    print(f"{pathlib.Path(sys.argv[0]).stem}: {sys.executable} has no {missing.name}; scripts/setup_peers.sh makes an environment that has it",
          file=sys.stderr)
    sys.exit(69)
