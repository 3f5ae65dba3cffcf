"""One thread for what is fit, whatever the machine has: sums in another order are other bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold every numerical library to one thread."""
    # A limit reaches the libraries that are loaded, and scipy brings a BLAS of its own, late.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
