"""Arguments of all scripts that measure contestants in turns."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def add_arguments(parser, rounds):
    parser.add_argument("--environments", default=str(ROOT / "build-peers"), help="the folder that setup_peers.sh made")
    parser.add_argument("--binary", default=str(ROOT / "build" / "dptrain"))
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--disturbed", type=float, default=0.05, help="share of the machine that others may use meanwhile")
    parser.add_argument("--quick", action="store_true", help="as few steps as run: shows that all works, the figures mean nothing")
    parser.add_argument("-o", "--out", help="write OUT.json and OUT.md")


def parsed(parser):
    a = parser.parse_args()
    if not pathlib.Path(a.binary).exists():
        parser.error(f"--binary: expected dptrain, but there is no {a.binary}; build it with scripts/build.sh")
    return a


def write(report, document, out):
    """Writes the report to OUT.json, and its document to OUT.md."""
    out = pathlib.Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    out.with_suffix(".md").write_text(document)
