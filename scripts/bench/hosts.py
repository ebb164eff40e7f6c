"""Makes several "hosts" on this machine, as network namespaces (tests/support/namespaces.sh; as root)."""
import contextlib
import os
import pathlib
import subprocess
import sys

NAMESPACES = str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/support/namespaces.sh")
ADDRESSES = tuple(f"10.77.0.{host}" for host in range(1, 9))
NETWORK = "10.77.0.0/24"
# What Open MPI needs to know about the hosts.
MPI_ENVIRONMENT = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": NETWORK, "OMPI_MCA_oob_tcp_if_include": NETWORK,
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@contextlib.contextmanager
def hosts(count=2):
    """Makes `count` hosts with the first of the addresses, and yields their name; they exist inside the `with` block. Ends the
    script if this machine can't have them."""
    name = f"dptrain-{os.getpid()}"
    made = subprocess.run([NAMESPACES, "add", name, str(count)], stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {made.stderr.strip()}")
    try:
        yield name
    finally:
        subprocess.run([NAMESPACES, "delete", name], check=True)
