import glob

from spack.package import *


class PmiHost(Package):
    """Launcher and PMI server for MPI programs: PMI-1, PMI-2 and PMIx, on one host or many."""

    license("MIT OR Apache-2.0")

    # A path or an address of the repository: `spack develop`, or `git = ...` in a derived class.
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.91:", type="build")

    def install(self, spec, prefix):
        # The tree of a release: the program, the C libraries and the documentation.
        which("cargo")("xtask", "dist", "--untried")
        release = glob.glob("target/dist/pmi-host-*-linux-gnu")[0]
        Executable(join_path(release, "bin", "pmi-host"))("install", "--prefix", prefix)
