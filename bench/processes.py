"""What the processes that compute are started with."""

import os

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
MEMORY = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:"
    f"glibc.malloc.mmap_threshold={1 << 28}:glibc.malloc.trim_threshold={1 << 30}"
}
"""For the GNU C library: it asks Linux for huge pages, and keeps up to 1 GiB of what is freed for
the next step, in pieces of up to 256 MiB, instead of handing it back and having it cleared again.
Other C libraries know no such variable."""


def environment() -> dict[str, str]:
    """Variables for a process of one thread. How it takes memory is left to who has said it."""
    return ONE_THREAD | {name: os.environ.get(name, value) for name, value in MEMORY.items()}
