# For Spack: in a repository of packages as packages/penstock/package.py, with the address of the source as `git`.
from spack.package import *


class Penstock(CMakePackage):
    """A GASNet conduit on InfiniBand verbs: active messages, put, get, remote atomics, barriers and collectives."""

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("shared", default=True, description="Shared libraries")
    variant("static", default=True, description="Archives")
    variant("pmix", default=True, description="Starts under Slurm, Open MPI and PRRTE")
    conflicts("~shared", when="~static", msg="one kind of library at least")

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("rdma-core")
    depends_on("userspace-rcu")
    depends_on("jemalloc")
    for needed in ("hwloc", "fmt", "nlohmann-json", "cli11", "libpng"):
        depends_on(needed)
    depends_on("pmix", when="+pmix")
    conflicts("%gcc@:10", msg="C++20")
    conflicts("%clang@:13", msg="C++20")

    def cmake_args(self):
        args = [self.define("BUILD_TESTING", self.run_tests)]
        if self.spec.satisfies("~static"):
            args.append(self.define("BUILD_SHARED_LIBS", True))
        if self.spec.satisfies("~shared"):
            args.append(self.define("BUILD_SHARED_LIBS", False))
        return args
